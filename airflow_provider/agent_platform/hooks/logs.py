"""The last lines that a worker wrote, for the message a person reads.

In: a job, a replica. Out: lines, or none. It is never a reason to fail: whatever goes wrong is a debug line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook


def last_lines(
    hook: TrainingJobHook, job_name: str, replica: str | None, n: int = 20, bound: float = 10.0
) -> list[str]:
    """Return the last lines of a replica's log, oldest first; [] when they cannot be had in time. Never raises.

    :param hook: whose identity reads the log.
    :param job_name: resource name of the job; for a trial, of its custom job.
    :param replica: for example ``workerpool0-0``; None reads all lines of the job, the service's own as
        well.
    :param n: number of lines.
    :param bound: seconds that this may take in all.
    """
    raise NotImplementedError
