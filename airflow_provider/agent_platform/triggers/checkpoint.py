"""The trigger a checkpoint sensor waits in. Stateless: its kwargs, the store and the job say everything.

In: a base directory, a step or a moment, perhaps a job. Out: exactly one event, see `CheckpointEvent`. It
never fails because the store or the service did not answer: the sensor's timeout bounds that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

import pendulum
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.agent_platform.checkpoints.looks import Place, gist, seconds_ago, shared_look
from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, FoundCheckpoint
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.policy.states import is_end, state_name
from airflow_provider.agent_platform.triggers import supervisor
from airflow_provider.agent_platform.triggers.trouble import brief, is_gone

TRIGGER_CLASS_PATH: Final = "airflow_provider.agent_platform.triggers.checkpoint.CheckpointTrigger"
"""Stored with every deferred task. Renaming it, or one of the kwargs, strands tasks in flight."""

TRIGGER_VERSION: Final = 1
EVENT_VERSION: Final = 1

REACHED: Final = "reached"
JOB_ENDED: Final = "job_ended"
"""The job ended, and what was waited for is not there."""
JOB_LOST: Final = "job_lost"
"""There is no such job (any more), and what was waited for is not there."""
UNREADABLE: Final = "unreadable"
"""The job ended, and the checkpoints could not be looked at."""

EVENT_TYPES: Final = frozenset({REACHED, JOB_ENDED, JOB_LOST, UNREADABLE})

QUIET_SECONDS: Final = 5.0
"""No event in the first seconds of a deferral: Airflow can fail a try whose trigger fires while the deferring
process is still ending (apache/airflow#71580)."""

TASK_ENDS: Final = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of a training task after which it writes no checkpoint any more."""

LOOKS_AFTER_THE_END: Final = 5
"""So often the store is tried after the job's end before the wait is given up."""


class UnreadableCheckpointEventError(ValueError):
    """The task was resumed with something that is no event of this trigger. It is never taken for a
    success."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointEvent:
    """How the wait ended. Its JSON form is stored by Airflow: keys and values are never renamed.

    :param type: one of ``EVENT_TYPES``.
    :param uri: the checkpoint, or the newest complete one when it was not enough.
    :param step: its step.
    :param framework: its layout.
    :param time: ISO 8601, when it was written.
    :param job_state: the state in which the job ended, e.g. ``JOB_STATE_FAILED``; of a training task, e.g. ``failed``.
    :param message: what a person should know.
    """

    type: str
    uri: str | None = None
    step: int | None = None
    framework: str | None = None
    time: str | None = None
    job_state: str | None = None
    message: str | None = None

    @classmethod
    def of(
        cls,
        type: str,
        checkpoint: FoundCheckpoint | None = None,
        job_state: str | None = None,
        message: str | None = None,
    ) -> CheckpointEvent:
        """Return the event that names a checkpoint."""
        if checkpoint is None:
            return cls(type=type, job_state=job_state, message=message)
        return cls(
            type=type,
            uri=checkpoint.uri,
            step=checkpoint.step,
            framework=checkpoint.framework,
            time=checkpoint.time.isoformat() if checkpoint.time else None,
            job_state=job_state,
            message=message,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with its version."""
        return {"version": EVENT_VERSION, **asdict(self)}


def parse_event(event: object) -> CheckpointEvent:
    """Read the event a sensor was resumed with.

    :raises UnreadableCheckpointEventError: it is no such event; says what it is.
    """
    if (
        not isinstance(event, Mapping)
        or event.get("version") != EVENT_VERSION
        or event.get("type") not in EVENT_TYPES
    ):
        raise UnreadableCheckpointEventError(
            f"cannot read the event {str(event)[:300]!r}: expected a checkpoint event of version "
            f"{EVENT_VERSION}; "
            "is the triggerer on another version of this provider? Clear the task to wait again."
        )
    fields: dict[str, Any] = {name: event.get(name) for name in CheckpointEvent.__dataclass_fields__}
    return CheckpointEvent(**fields)


def enough(
    found: CheckpointScan, min_step: int | None, newer_than: pendulum.DateTime | None
) -> FoundCheckpoint | None:
    """Return the newest complete checkpoint if it is what is waited for, else None.

    :param min_step: at least this step; a checkpoint whose step is unknown never satisfies it.
    :param newer_than: written after this moment; one whose time is unknown never satisfies it.
    """
    newest = found.newest
    if newest is None:
        return None
    if min_step is not None and (newest.step is None or newest.step < min_step):
        return None
    if newer_than is not None and (newest.time is None or newest.time <= newer_than):
        return None
    return newest


class CheckpointTrigger(BaseTrigger):
    """Wait, without a worker slot, for a complete checkpoint below ``<base>/checkpoints/``.

    :param base_output_directory: of the training; ``gs://bucket/path`` or a local path that the triggerer
        sees.
    :param min_step: the checkpoint's step must be at least this; None: any step.
    :param newer_than: ISO 8601; the checkpoint must have been written after it; None: whenever.
    :param job_name: of the training job: when it has ended without what is waited for, the wait ends too.
    :param training_task_id: a training task of the same DAG run: when it has ended, after however many jobs,
        without what is waited for, the wait ends too.
    :param recognisers: dotted paths of the user's own recognisers.
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: service account, or chain of them, to act as.
    :param poll_interval: seconds between two looks.
    :param version: format of these kwargs.
    """

    hook_factory: ClassVar[Callable[..., TrainingJobHook]] = TrainingJobHook
    """What reads the job and makes the storage client; replaced by tests."""

    def __init__(
        self,
        base_output_directory: str,
        *,
        min_step: int | None = None,
        newer_than: str | None = None,
        job_name: str | None = None,
        training_task_id: str | None = None,
        recognisers: Sequence[str] = (),
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        poll_interval: float = 60.0,
        version: int = TRIGGER_VERSION,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.base_output_directory = base_output_directory
        self.min_step = min_step
        self.newer_than = newer_than
        self.job_name = job_name
        self.training_task_id = training_task_id
        self.recognisers = tuple(recognisers)
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.poll_interval = poll_interval
        self.version = version

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the kwargs that make this trigger again."""
        return TRIGGER_CLASS_PATH, {
            "version": self.version,
            "base_output_directory": self.base_output_directory,
            "min_step": self.min_step,
            "newer_than": self.newer_than,
            "job_name": self.job_name,
            "training_task_id": self.training_task_id,
            "recognisers": list(self.recognisers),
            "gcp_conn_id": self.gcp_conn_id,
            "impersonation_chain": self.impersonation_chain,
            "poll_interval": self.poll_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; then yield one event."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        hook = self.hook_factory(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)
        try:
            event = await self._wait(hook)
        finally:
            await hook.aclose()
        await asyncio.sleep(max(0.0, begun + QUIET_SECONDS - loop.time()))
        yield TriggerEvent(event.to_dict())  # type: ignore[no-untyped-call]

    async def _wait(self, hook: TrainingJobHook) -> CheckpointEvent:
        newer_than = moment_of(self.newer_than) if self.newer_than else None
        chain = self.impersonation_chain
        said: set[str] = set()
        self.log.info(
            "Waiting for %s below %s.",
            "a complete checkpoint"
            if self.min_step is None
            else f"a checkpoint of step {self.min_step} or more",
            self.base_output_directory,
        )
        end: CheckpointEvent | None = None
        looks_left = LOOKS_AFTER_THE_END
        place = Place(
            base_output_directory=self.base_output_directory.rstrip("/"),
            identity=(self.gcp_conn_id, chain if isinstance(chain, str) or chain is None else tuple(chain)),
            recognisers=self.recognisers,
            # Older ones are left out, and not only refused: a lower step that is new must not hide behind
            # them.
            since=newer_than,
        )
        with shared_look(place, hook.storage_client, prepare=hook.aload_connection) as shared:
            while True:
                # The job is read first: what it wrote before its end is then seen by the look that follows.
                if end is None and self.job_name:
                    end = await self._end_of_job(hook, said)
                if end is None and self.training_task_id:
                    end = await self._end_of_task(self.training_task_id, said)
                fresh = 0.0 if end else self.poll_interval * 0.9
                found = await shared.look(not_before=seconds_ago(fresh))
                if checkpoint := enough(found, self.min_step, newer_than):
                    return CheckpointEvent.of(REACHED, checkpoint)
                if found.problem and gist(found.problem) not in said:
                    said.add(gist(found.problem))
                    self.log.warning(
                        "Waiting for a checkpoint below %s: %s", self.base_output_directory, found.problem
                    )
                if end:
                    looks_left -= 1
                    if found.known or found.newest:
                        return CheckpointEvent.of(
                            end.type, found.newest, job_state=end.job_state, message=end.message
                        )
                    if looks_left <= 0:
                        return CheckpointEvent(
                            type=UNREADABLE, job_state=end.job_state, message=found.problem
                        )
                await asyncio.sleep(self.poll_interval)

    async def _end_of_job(self, hook: TrainingJobHook, said: set[str]) -> CheckpointEvent | None:
        """Return how the job ended, None while it has not or while nobody can say."""
        try:
            job = await hook.aget(self.job_name or "")
        except Exception as error:
            if is_gone(error):
                return CheckpointEvent(type=JOB_LOST, message=f"there is no job {self.job_name}")
            if (kind := type(error).__name__) not in said:
                said.add(kind)
                self.log.warning("Cannot read %s, still waiting: %s", self.job_name, brief(error))
            return None
        state = int(job.state)
        if not is_end(state):
            return None
        message = job.error.message if job.error else None
        return CheckpointEvent(type=JOB_ENDED, job_state=state_name(state), message=message or None)

    async def _end_of_task(self, task_id: str, said: set[str]) -> CheckpointEvent | None:
        """Return how the training task ended, None while it has not or while nobody can say."""
        try:
            found = await supervisor.task_state(self.task_instance, task_id=task_id)
        except Exception as error:
            if (kind := type(error).__name__) not in said:
                said.add(kind)
                self.log.warning("Cannot ask for the state of %s, still waiting: %s", task_id, brief(error))
            return None
        return end_of_task(task_id, found.state, exists=found.exists)


def end_of_task(task_id: str, state: str | None, *, exists: bool = True) -> CheckpointEvent | None:
    """Return the event for the end of a training task, None while it may still write checkpoints.

    :param task_id: the task.
    :param state: as Airflow names it; None for one that is not scheduled yet.
    :param exists: whether the run has such a task.
    """
    if not exists:
        return CheckpointEvent(
            type=JOB_LOST, message=f"this run has no task {task_id} (a mapped one is none)"
        )
    if state not in TASK_ENDS:
        return None
    return CheckpointEvent(type=JOB_ENDED, job_state=state)


def moment_of(text: str) -> pendulum.DateTime:
    """Read `newer_than`.

    :raises ValueError: it is no date with a time; says what to give.
    """
    try:
        moment = pendulum.parse(text)
    except ValueError:
        moment = None
    if not isinstance(moment, pendulum.DateTime):
        raise ValueError(
            f"newer_than is {text!r}: give a date and time in ISO 8601, e.g. 2026-11-30T06:00:00Z"
        )
    return moment
