"""Notice live jobs of other tasks that write to the same output directory, and say so.

In: what was submitted. Out: a line of the log, never an error: a training that runs is worth more than the answer. The
look comes after the create, so that of two tasks that start in the same second at least one sees the other. Not here:
what may share a directory; that is the user's affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.jobs.identity import (
    LABEL_DAG,
    LABEL_RUN,
    LABEL_TASK,
    LABEL_TI,
    TaskIdentity,
    output_filter,
)
from airflow_provider.agent_platform.operators.records import state_of
from airflow_provider.agent_platform.operators.request import TrainingRequest
from airflow_provider.agent_platform.policy.states import is_live
from airflow_provider.agent_platform.triggers.poller import ACTIVE_FILTER

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

MOST_LISTED: Final = 300
MOST_NAMED: Final = 3

LIST_SECONDS: Final = 10.0
"""For each page. Nothing waits for this answer but the submit."""

READ_MASK: Final = ("name", "state", "labels")


def warn_of_neighbours(
    hook: TrainingJobHook, *, request: TrainingRequest, identity: TaskIdentity, log: TaskLogger
) -> None:
    """Say which live jobs of other task instances have the ``base_output_directory`` of this one.

    One List call for each region of the task, of its own kind of job. Never raises.

    :param hook: talks to the service.
    :param request: what this task asked for.
    :param identity: of this task; its own jobs are no neighbours.
    :param log: the task's log.
    """
    base = request.base_output_directory
    if base is None:
        return
    try:
        found = _neighbours(hook, base, request, identity)
    except Exception as error:  # the job runs: a question that nobody depends on must not fail its task
        log.debug("Whether another task writes to %s cannot be told: %s", base, error)
        return
    if not found:
        return
    named = ", ".join(_described(job) for job in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    log.warning(
        "%s is the base_output_directory of another live job too: %s%s. They overwrite each other's checkpoints, and "
        "resume from them. Give each task a directory of its own, for example one with {{ run_id }} in its name.",
        base,
        named,
        more,
    )


def _neighbours(
    hook: TrainingJobHook, base: str, request: TrainingRequest, identity: TaskIdentity
) -> list[Any]:
    found = []
    for region in request.placement.regions:
        jobs = hook.list_jobs(
            job_type=request.job_type,
            project_id=request.project_id,
            region=region,
            filter=f"{output_filter(base)} AND {ACTIVE_FILTER}",
            read_mask=READ_MASK,
            limit=MOST_LISTED,
            timeout=LIST_SECONDS,
            retry=False,
        )
        found += [job for job in jobs if job.labels.get(LABEL_TI) != identity.key and is_live(state_of(job))]
    return sorted(found, key=lambda job: str(job.name))


def _described(job: Any) -> str:
    labels = (job.labels.get(key, "?") for key in (LABEL_DAG, LABEL_TASK, LABEL_RUN))
    dag, task, run = labels
    return f"{job.name} (DAG {dag}, task {task}, run {run})"
