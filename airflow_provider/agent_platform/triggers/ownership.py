"""Whether a cancelled trigger's job has to be cancelled too, as a pure function; and the names it rests on.

In: what Airflow says of the task instance, and which try owns the job. Out: keep it, cancel it, or ask again.
Airflow cancels a trigger in the same way when a user killed the task, when the task moved to another
triggerer, and when the next try has begun; only the first may end the job. :mod:`.kill` acts on the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts
from airflow_provider.agent_platform.triggers.supervisor import TaskState

OWNER_XCOM_KEY: Final = "training_job_owner"
"""XCom key with the try that owns the job. Renaming it makes kills of tasks in flight keep their jobs."""

LIVE_XCOM_KEY: Final = "training_job"
"""XCom key of the live state. Renaming it breaks pages and tasks that read it."""


def owner_value(*, try_number: int, job_name: str, where: Whereabouts | None = None) -> dict[str, Any]:
    """Answer what the operator pushes under ``OWNER_XCOM_KEY`` when a try starts, and before each deferral.

    :param try_number: the try.
    :param job_name: its job; "" while it has none.
    :param where: where its jobs are, for those who look from outside.
    """
    value: dict[str, Any] = {"try": try_number, "job": job_name}
    return value if where is None else {**value, "where": where.to_dict()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """The try that owns a job, as read from XCom.

    :param try_number: the try.
    :param job_name: "" while it has none.
    :param where: None: not told.
    """

    try_number: int
    job_name: str
    where: Whereabouts | None = None

    @classmethod
    def parse(cls, value: Any) -> Owner | None:
        """Read the XCom; ``None`` for anything else than ``owner_value`` wrote."""
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        if not isinstance(value, Mapping):
            return None
        try_number, job_name = value.get("try"), value.get("job")
        if isinstance(try_number, int) and isinstance(job_name, str):
            return cls(try_number=try_number, job_name=job_name, where=Whereabouts.parse(value.get("where")))
        return None


class Verdict(str, Enum):
    """What to do about the job of a cancelled trigger."""

    KEEP = "keep"
    CANCEL = "cancel"
    ASK_AGAIN = "ask again"


class Part(str, Enum):
    """What the state of a task instance says about its cancelled trigger."""

    KILLED = "killed"
    """Somebody ended the task."""
    NEXT_TRY = "next try"
    """Airflow failed the try by itself; the next one adopts the job."""
    AT_WORK = "at work"
    """A try is deferred or runs: this one, or a later one."""
    COMING = "coming"
    """It will run: cleared, or about to be resumed."""


STATES: Final[dict[str | None, Part]] = {
    "failed": Part.KILLED,
    "success": Part.KILLED,
    "skipped": Part.KILLED,
    "upstream_failed": Part.KILLED,
    "removed": Part.KILLED,
    # A user's "mark as failed" never leads here.
    "up_for_retry": Part.NEXT_TRY,
    "up_for_reschedule": Part.NEXT_TRY,
    "restarting": Part.NEXT_TRY,
    "deferred": Part.AT_WORK,
    "awaiting_input": Part.AT_WORK,
    "running": Part.AT_WORK,
    None: Part.COMING,
    "scheduled": Part.COMING,
    "queued": Part.COMING,
}


def verdict(
    task: TaskState, owner: Owner | None, *, try_number: int, job_name: str, last: bool
) -> tuple[Verdict, str]:
    """Answer what to do, and why in words.

    :param task: what Airflow says now.
    :param owner: who owns the job now; ``None`` when the XCom is not there (a new try has cleared it).
    :param try_number: the try the cancelled trigger belonged to.
    :param job_name: its job.
    :param last: there will be no further question: answer with KEEP or CANCEL.
    """
    if not task.exists:
        return Verdict.CANCEL, "the task instance was deleted"
    part = STATES.get(task.state)
    if part is Part.KILLED:
        return Verdict.CANCEL, f"the task was ended (state {task.state})"
    if part is Part.NEXT_TRY:
        return Verdict.KEEP, f"the next try adopts it (state {task.state})"
    if part is Part.AT_WORK:
        return _at_work(task, owner, try_number=try_number, job_name=job_name, last=last)
    if part is Part.COMING:
        # After a clear the new try cancels the job of the old one by itself, usually within a second. If it
        # does
        # not come (a paused DAG, a full pool), the job must not run on until it does.
        if last:
            return (
                Verdict.CANCEL,
                f"the task was cleared and its next run does not start (state {task.state})",
            )
        return Verdict.ASK_AGAIN, f"the next run decides (state {task.state})"
    if last:
        return Verdict.KEEP, f"state {task.state!r} is not known"
    return Verdict.ASK_AGAIN, f"state {task.state!r} is not known"


def _at_work(
    task: TaskState, owner: Owner | None, *, try_number: int, job_name: str, last: bool
) -> tuple[Verdict, str]:
    ours = owner is not None and owner.try_number == try_number
    if task.state == "deferred" and ours:
        return Verdict.KEEP, "the task is still deferred: its trigger moved to another triggerer"
    if not last:
        return Verdict.ASK_AGAIN, f"a try is at work (state {task.state})"
    if owner is not None and owner.try_number > try_number and owner.job_name not in ("", job_name):
        # The newer try has its own job: nobody waits for this one any more.
        return Verdict.CANCEL, f"try {owner.try_number} has a job of its own"
    if ours:
        return Verdict.KEEP, "the same try was resumed and decides"
    return Verdict.KEEP, "a newer try is at work: it adopts or cancels it"
