"""The sentences of the service: what a job's ``error`` and its log lines say.

In: what happened, and which of several known forms to use. Out: a text. Each text was documented or seen in a
public log; where two forms are known, a switch chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

WAITING = "Waiting for job to be provisioned."
PREPARING = "Job is preparing."
RUNNING = "Job is running."
TEARING_DOWN = "Tearing down training program."
TORN_DOWN = "Finished tearing down training program."
COMPLETED = "Job completed successfully."
FAILED = "Job failed."
CANCELLED = "Job cancelled."
NO_MORE_RETRIES = "Job will not be retried, max error retry attempts reached."
INTERNAL = "Internal error occurred for the current attempt."

STOCKOUT_ADVICE = {
    "none": "",
    "please": " Please try a different region or use a different accelerator.",
    "try": " Try a different region or use a different accelerator.",
}
LOW_MEMORY = {
    "pool": "Replicas low on memory: {pools}. Specify a machine with larger memory and try again.",
    "documented": "The replica {replica} ran out of memory and exited with a non-zero status of 137.",
    "legacy": "The replica {replica} ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
}


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How one replica ended on its own.

    :param code: exit status; 128 + n for a signal n, as a container reports it.
    :param reason: ``Error``, ``StartError`` or ``OOMKilled``.
    :param detail: the end of its stderr, or why it could not start.
    """

    replica: str
    code: int
    reason: str = "Error"
    detail: str = ""


def stockout(region: str, advice: str) -> str:
    """No machines: for a stockout and for a Spot preemption alike."""
    return f"Resources are insufficient in region: {region}.{STOCKOUT_ADVICE[advice]}"


def quota(metrics: Sequence[str]) -> str:
    """Over quota, at submit or later.

    :param metrics: names without the service, e.g. ``custom_model_training_cpus``.
    """
    named = ", ".join(f"aiplatform.googleapis.com/{metric}" for metric in metrics)
    return f"The following quota metrics exceed quota limits: {named}"


def low_memory(replicas: Sequence[str], form: str) -> str:
    """Out of memory: names the pools, or in older forms the replica."""
    pools = sorted({replica.partition("-")[0] for replica in replicas})
    return LOW_MEMORY[form].format(pools=", ".join(pools), replica=replicas[0])


def timeout(seconds: float) -> str:
    """``scheduling.timeout`` is over; the service's own words are not known."""
    return f"The job ran longer than its timeout of {seconds:g} seconds."


def exits(failed: Sequence[Exit], *, form: str, project: str, job_id: str) -> str:
    """Non-zero exits, one sentence per replica, in the order they happened."""
    said = [_exit(one, form) for one in failed]
    if form == "bare":
        return " ".join(said)
    return " ".join([*said, _logs_sentence(project, job_id)])


def _exit(failed: Exit, form: str) -> str:
    first = f"The replica {failed.replica} exited with a non-zero status of {failed.code}."
    if form != "full":
        return first
    if failed.reason == "StartError":
        return f"{first} Termination reason: StartError. \n Termination log message: {failed.detail}"
    return f"{first} Termination reason: {failed.reason}. \n{failed.detail}".rstrip()


def _logs_sentence(project: str, job_id: str) -> str:
    advanced = quote(f'resource.type="ml_job"\nresource.labels.job_id="{job_id}"', safe="")
    return (
        "To find out more about why your job exited please check the logs: "
        f"https://console.cloud.google.com/logs/viewer?project={project}"
        f"&resource=ml_job%2Fjob_id%2F{job_id}&advancedFilter={advanced}"
    )
