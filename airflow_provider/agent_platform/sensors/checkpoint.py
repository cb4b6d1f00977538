"""Wait for a checkpoint of a training, so that an evaluation can start while the training goes on.

In: a base directory and what to wait for. Out (XCom): the checkpoint's address, step, layout and time. How
the wait goes on while deferred is in ``triggers.checkpoint``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pendulum
from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException

from airflow_provider.agent_platform.checkpoints.store import scan
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.policy.states import is_end, state_name
from airflow_provider.agent_platform.triggers.checkpoint import (
    JOB_ENDED,
    JOB_LOST,
    REACHED,
    CheckpointEvent,
    CheckpointTrigger,
    end_of_task,
    enough,
    moment_of,
    parse_event,
)
from airflow_provider.agent_platform.triggers.trouble import is_gone

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.agent_platform.hooks.training_job import JobMessage


class CheckpointNotReachedError(AirflowException):
    """The job ended, and the checkpoint that was waited for is not there.

    :param job_name: the job.
    :param job_state: the state in which it ended, e.g. ``JOB_STATE_FAILED``; None when it is gone.
    :param newest_step: the step of the newest complete checkpoint there is.
    """

    def __init__(
        self,
        message: str,
        job_name: str | None = None,
        job_state: str | None = None,
        newest_step: int | None = None,
    ) -> None:
        super().__init__(message)
        self.job_name = job_name
        self.job_state = job_state
        self.newest_step = newest_step

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.job_name, self.job_state, self.newest_step)


class CheckpointSensor(BaseSensorOperator):
    """Wait for a complete checkpoint below ``<base_output_directory>/checkpoints/``, of a running or finished
    job.

    Returns ``{"uri", "step", "framework", "time"}``. Every asset in ``outlets`` gets an event with ``uri``
    and ``step``.

    :param base_output_directory: the same as of the training (templated).
    :param min_step: wait for at least this step (templated). None: wait for any *new* checkpoint, see
        `newer_than`.
    :param newer_than: a moment, aware or ISO 8601 (templated): only a checkpoint written after it counts.
        Default: with `min_step` whenever; else since the job was created, with `job_name`; else since this
        DAG run was due (``run_after``), so that one that an earlier run left in the same directory does not
        count.
    :param training_task_id: the training task in the same DAG run (not a mapped one). When it has ended, after
        however many jobs, and the checkpoint is not there, the sensor fails at once instead of waiting for its
        timeout.
    :param job_name: full resource name of one training job (templated), for a job of another DAG. The same when it
        has ended. A Spot training may go on in a new job: prefer `training_task_id` where there is one.
    :param recognisers: dotted paths of your own recognisers, see docs/checkpoints.md.
    :param partition_key: of the asset events (templated; Airflow 3.3).
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: service account, or chain of them, to act as (templated).
    :param deferrable: wait without a worker slot. False: as ``mode`` says.
    :raises CheckpointNotReachedError: the job ended without it, or is gone.
    :raises ValueError: an argument is of no use; says which.
    """

    template_fields: Sequence[str] = (
        "base_output_directory",
        "min_step",
        "newer_than",
        "job_name",
        "partition_key",
        "gcp_conn_id",
        "impersonation_chain",
    )
    ui_color = "#e8f0fe"

    hook_factory: ClassVar[Callable[..., TrainingJobHook]] = TrainingJobHook
    """What reads the job and makes the storage client; replaced by tests."""

    def __init__(
        self,
        *,
        base_output_directory: str,
        min_step: int | str | None = None,
        newer_than: datetime | str | None = None,
        training_task_id: str | None = None,
        job_name: str | None = None,
        recognisers: Sequence[str] = (),
        partition_key: str | None = None,
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.base_output_directory = base_output_directory
        self.min_step = min_step
        self.newer_than = newer_than
        if training_task_id and job_name:
            raise ValueError(
                "training_task_id and job_name are both given: one says when the training is over"
            )
        self.training_task_id = training_task_id
        self.job_name = job_name
        self.recognisers = recognisers
        self.partition_key = partition_key
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once; then wait deferred, or poke."""
        if not self.deferrable:
            return super().execute(context)
        with self._hook() as hook:
            step, since = self._wanted(context, hook)
            event = self._look(context, hook, step, since)
        if event:
            return self._end(context, event)
        self.defer(
            trigger=CheckpointTrigger(
                self.base_output_directory,
                min_step=step,
                newer_than=since.isoformat() if since else None,
                job_name=self.job_name or None,
                training_task_id=self.training_task_id,
                recognisers=tuple(self.recognisers),
                gcp_conn_id=self.gcp_conn_id,
                impersonation_chain=self.impersonation_chain,
                poll_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """Look once, when the sensor is not deferrable."""
        with self._hook() as hook:
            event = self._look(context, hook, *self._wanted(context, hook))
        return PokeReturnValue(True, self._end(context, event)) if event else False

    def execute_complete(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Return the checkpoint that the trigger found, or fail for what it found instead."""
        return self._end(context, parse_event(event))

    def _wanted(self, context: Context, hook: TrainingJobHook) -> tuple[int | None, pendulum.DateTime | None]:
        """Return the step and the moment to wait for, from rendered arguments."""
        if not self.base_output_directory:
            raise ValueError("base_output_directory is empty: give the one of the training")
        step = _step(self.min_step)
        if self.newer_than:
            return step, _moment(self.newer_than)
        if step is not None:
            return step, None
        if self.job_name and (job := self._job(hook)):
            return None, pendulum.instance(cast(datetime, job.create_time))
        return None, pendulum.instance(context["dag_run"].run_after)

    def _look(
        self, context: Context, hook: TrainingJobHook, step: int | None, since: pendulum.DateTime | None
    ) -> CheckpointEvent | None:
        # The job is read first: what it wrote before its end is then seen by the look that follows.
        end = self._end_of_job(hook) or self._end_of_task(context)
        found = scan(
            self.base_output_directory, hook.storage_client, recognisers=self.recognisers, since=since
        )
        if found.problem:
            self.log.warning("Checkpoints of %s: %s", self.base_output_directory, found.problem)
        if checkpoint := enough(found, step, since):
            return CheckpointEvent.of(REACHED, checkpoint)
        if end and found.known:
            return CheckpointEvent.of(end.type, found.newest, job_state=end.job_state, message=end.message)
        return None

    def _job(self, hook: TrainingJobHook) -> JobMessage | None:
        """Return the job, None when it is gone."""
        try:
            return hook.get(str(self.job_name))
        except Exception as error:
            if is_gone(error):
                return None
            raise

    def _end_of_job(self, hook: TrainingJobHook) -> CheckpointEvent | None:
        if not self.job_name:
            return None
        job = self._job(hook)
        if job is None:
            return CheckpointEvent(type=JOB_LOST, message=f"there is no job {self.job_name}")
        state = int(job.state)
        if not is_end(state):
            return None
        message = job.error.message if job.error else None
        return CheckpointEvent(type=JOB_ENDED, job_state=state_name(state), message=message or None)

    def _end_of_task(self, context: Context) -> CheckpointEvent | None:
        if not self.training_task_id:
            return None
        ti = context["ti"]
        found = ti.get_task_states(dag_id=ti.dag_id, task_ids=[self.training_task_id], run_ids=[ti.run_id])
        states = found.get(ti.run_id) or {}
        state = states.get(self.training_task_id)
        return end_of_task(
            self.training_task_id,
            None if state is None else str(getattr(state, "value", state)),
            exists=self.training_task_id in states,
        )

    def _end(self, context: Context, event: CheckpointEvent) -> dict[str, Any]:
        if event.type != REACHED:
            raise CheckpointNotReachedError(
                self._failure(event),
                job_name=self.job_name,
                job_state=event.job_state,
                newest_step=event.step,
            )
        self.log.info("Checkpoint %s (step %s, %s).", event.uri, event.step, event.framework)
        for outlet in self.outlets:
            accessor = context["outlet_events"][outlet]
            accessor.extra = {"uri": event.uri, "step": event.step}
            if not self.partition_key:
                continue
            if hasattr(accessor, "add_partitions"):
                accessor.add_partitions(self.partition_key)
            else:
                self.log.warning(
                    "This Airflow has no partitions of assets (3.3 has): partition_key is not used."
                )
        return {"uri": event.uri, "step": event.step, "framework": event.framework, "time": event.time}

    def _failure(self, event: CheckpointEvent) -> str:
        wanted = (
            "a new complete checkpoint"
            if self.min_step is None
            else f"a checkpoint of step {self.min_step} or more"
        )
        ended = f"Task {self.training_task_id}" if self.training_task_id else self.job_name
        if event.type == JOB_LOST:
            text = f"There is not {wanted} below {self.base_output_directory}, and {event.message}."
        elif event.type == JOB_ENDED:
            text = f"{ended} ended as {event.job_state} without {wanted} below "
            text += f"{self.base_output_directory}."
        else:
            text = f"{ended} ended as {event.job_state}, and its checkpoints cannot be looked at"
            return f"{text}: {event.message}."
        if event.uri:
            text += f" The newest is {event.uri} (step {'unknown' if event.step is None else event.step})."
        else:
            text += " There is no complete checkpoint at all."
        if event.type == JOB_ENDED and event.message:
            text += f" The job's error: {event.message}"
        return text

    def _hook(self) -> TrainingJobHook:
        return self.hook_factory(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)


def _step(value: object) -> int | None:
    if value is None or value in ("", "None"):
        return None
    try:
        step = int(str(value))
    except ValueError:
        raise ValueError(f"min_step is {value!r}: give a whole number of steps, or nothing") from None
    if step < 0:
        raise ValueError(f"min_step is {step}: a step is 0 or more")
    return step


def _moment(value: datetime | str) -> pendulum.DateTime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"newer_than is {value!r} without a time zone: give an aware time")
        return pendulum.instance(value)
    return moment_of(value)
