"""The trigger a training task waits in. Stateless: everything it knows is in its kwargs and on the platform.

In: a job's name and absolute deadlines. Out: exactly one event (:mod:`.events`). It never fails a task by
itself, and it cancels the job only when a clock ended or when the task was killed by a user.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import pendulum
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.agent_platform.triggers import kill, live_state, log_lines, trouble
from airflow_provider.agent_platform.triggers.beside import CheckpointsBeside
from airflow_provider.agent_platform.triggers.clocks import Clocks, Now, utcnow
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent, parse_event
from airflow_provider.agent_platform.triggers.poller import Poller
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import HookReader, PollKey, ReaderFactory
from airflow_provider.agent_platform.triggers.subscription import JobGoneError, Subscription
from airflow_provider.agent_platform.triggers.trouble import PollRefusedError
from airflow_provider.agent_platform.triggers.view import JobView
from airflow_provider.agent_platform.triggers.watch import QUIET_SECONDS, Do, JobWatch

__all__ = ["TRIGGER_CLASS_PATH", "TRIGGER_VERSION", "TrainingJobEvent", "TrainingJobTrigger", "parse_event"]

TRIGGER_CLASS_PATH: Final = "airflow_provider.agent_platform.triggers.training_job.TrainingJobTrigger"
"""Stored with every deferred task. Renaming it, or one of the kwargs, strands tasks in flight."""

TRIGGER_VERSION: Final = 1

USER_ACTION_MESSAGE: Final = "__airflow_user_action__"
"""Airflow 3.3 cancels the trigger of a killed task with this message (``_USER_ACTION_CANCEL_MSG`` of its
triggerer), and of one that moved to another triggerer too."""

LONGEST_SECONDS: Final = 300.0
"""The longest single wait. Deadlines are times of day, but a timer counts by a clock that stands still while a
laptop sleeps and that nobody corrects: so the time of day is looked at this often."""

_OTHER_VERSION: Final = (
    "This trigger was stored in format {0!r}; this version of airflow-provider-agent-platform reads format {1}. "
    "Workers and triggerers must run the same version."
)


class TriggerArgumentsError(TypeError, ValueError):
    """The kwargs of a trigger make no sense.

    A ``TypeError`` too: it is the only error of a constructor that Airflow's triggerer takes as a failure of
    this one trigger. Any other ends the whole triggerer.
    """


class TrainingJobTrigger(BaseTrigger):
    """Wait, without a worker slot, until a training job ends or one of its clocks does.

    :param job_name: full resource name, ``projects/../locations/../customJobs/..`` (or
        ``hyperparameterTuningJobs``).
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: service account, or chain of them, to act as.
    :param poll_interval: seconds between two reads of the state; shared: the smallest of all waiters counts.
    :param queue_deadline: ISO 8601 time by which the job must have been RUNNING once.
    :param run_timeout: seconds from the job's first start.
    :param execution_deadline: ISO 8601 time of Airflow's ``execution_timeout``, which Airflow ignores while
        deferred.
    :param try_number: the try that deferred; a kill is only obeyed while this try owns the job.
    :param cancel_bound: seconds to wait for the end of a job that was cancelled because a clock ended.
    :param base_output_directory: with ``checkpoint_interval``: where to look for the newest checkpoint.
    :param checkpoint_interval: seconds; warn when the newest checkpoint is older than this while the job
        runs.
    :param version: format of these kwargs.
    :raises TriggerArgumentsError: a name, time or version that cannot be read.
    """

    now: Now = staticmethod(utcnow)
    """The clock. Not a kwarg: it cannot be stored."""

    quiet: float = QUIET_SECONDS
    """Seconds after the start in which no event is fired."""

    reader_factory: ReaderFactory = HookReader
    """Makes the calls."""

    def __init__(
        self,
        job_name: str,
        *,
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        poll_interval: float = 30.0,
        queue_deadline: str | None = None,
        run_timeout: float | None = None,
        execution_deadline: str | None = None,
        try_number: int = 1,
        cancel_bound: float = 300.0,
        base_output_directory: str | None = None,
        checkpoint_interval: float | None = None,
        version: int = TRIGGER_VERSION,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is not annotated
        self.job_name = job_name
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.poll_interval = poll_interval
        self.queue_deadline = queue_deadline
        self.run_timeout = run_timeout
        self.execution_deadline = execution_deadline
        self.try_number = try_number
        self.cancel_bound = cancel_bound
        self.base_output_directory = base_output_directory
        self.checkpoint_interval = checkpoint_interval
        self.version = version
        try:
            if version != TRIGGER_VERSION:
                raise ValueError(_OTHER_VERSION.format(version, TRIGGER_VERSION))
            self.clocks = Clocks.parse(
                queue_deadline=queue_deadline, run_timeout=run_timeout, execution_deadline=execution_deadline
            )
            self._key = PollKey.of(job_name, gcp_conn_id=gcp_conn_id, impersonation_chain=impersonation_chain)
        except ValueError as error:
            raise TriggerArgumentsError(str(error)) from error
        self._kill: asyncio.Task[bool] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Answer the class path and the kwargs that make this trigger again."""
        return TRIGGER_CLASS_PATH, {
            "version": self.version,
            "job_name": self.job_name,
            "gcp_conn_id": self.gcp_conn_id,
            "impersonation_chain": self.impersonation_chain,
            "poll_interval": self.poll_interval,
            "queue_deadline": self.queue_deadline,
            "run_timeout": self.run_timeout,
            "execution_deadline": self.execution_deadline,
            "try_number": self.try_number,
            "cancel_bound": self.cancel_bound,
            "base_output_directory": self.base_output_directory,
            "checkpoint_interval": self.checkpoint_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; then yield one event. Its answer depends on the kwargs and the job alone, so it may run
        anew."""
        try:
            event = await self._wait()
        except asyncio.CancelledError as error:
            # Here, and not only in on_kill(), which Airflow 3.3 sometimes does not reach (see kill.py).
            if self._killed_by_user(error):
                self._start_kill()
            raise
        yield TriggerEvent(event.to_dict())  # type: ignore[no-untyped-call]  # Airflow's is not annotated

    async def on_kill(self) -> None:
        """Cancel the job of a killed task, unless the task goes on elsewhere. Survives being cancelled
        itself."""
        await asyncio.shield(self._start_kill())

    # --- inside --------------------------------------------------------------------------------

    async def _wait(self) -> TrainingJobEvent:
        watch = JobWatch(
            self.job_name,
            clocks=self.clocks,
            cancel_bound=self.cancel_bound,
            began=self.now(),
            quiet=self.quiet,
        )
        poller = poller_for(self._key, reader_factory=self.reader_factory)
        beside = CheckpointsBeside(
            base_output_directory=self.base_output_directory,
            interval=self.checkpoint_interval,
            gcp_conn_id=self.gcp_conn_id,
            impersonation_chain=self.impersonation_chain,
            log=self.log.log,
            ti=self.task_instance,
        )
        subscription = poller.subscribe(self.job_name, interval=self.poll_interval)
        try:
            while True:
                step = watch.step(self.now())
                for line in watch.take_lines():
                    await log_lines.write(self.log, line.level, line.text)
                if step.event is not None:
                    return step.event
                if step.do is Do.READ:
                    await self._read(poller, watch)
                elif step.do is Do.CANCEL:
                    await self._cancel(poller, watch)
                else:
                    await self._next(subscription, watch, step.until)
                if watch.started_at is not None:
                    beside.start(watch.started_at)
        finally:
            beside.stop()
            subscription.close()

    async def _next(
        self, subscription: Subscription, watch: JobWatch, until: pendulum.DateTime | None
    ) -> None:
        view = None
        try:
            while view is None:
                view = await subscription.next(until=until, now=self.now(), longest=LONGEST_SECONDS)
                if until is None or self.now() >= until:
                    break
        except JobGoneError as error:
            watch.gone(str(error))
        except PollRefusedError as error:
            watch.refused(error.code, error.message)
        else:
            if view is not None:
                self._take(view, watch)

    async def _read(self, poller: Poller, watch: JobWatch) -> None:
        try:
            view = await poller.read(self.job_name)
        except JobGoneError as error:
            watch.gone(str(error))
        except Exception as error:
            watch.read_failed(trouble.brief(error), self.now())
        else:
            self._take(view, watch, fresh=True)

    def _take(self, view: JobView, watch: JobWatch, *, fresh: bool = False) -> None:
        # Not of an end: the operator is resumed and says it.
        if watch.observe(view, self.now(), fresh=fresh) and not view.ended:
            live_state.publish(self.task_instance, view)

    async def _cancel(self, poller: Poller, watch: JobWatch) -> None:
        try:
            sent, view = await poller.cancel(self.job_name)
        except Exception as error:
            watch.cancel_failed(trouble.brief(error), self.now())
            # The answer may have been lost after the cancel took effect: then it is not sent again.
            await self._read(poller, watch)
        else:
            if sent:
                watch.cancel_sent()
                poller.nudge()
            elif view is not None:
                self._take(view, watch)

    def _killed_by_user(self, error: asyncio.CancelledError) -> bool:
        timeout: datetime.datetime | None = getattr(self, "timeout_after", None)
        if timeout is not None:
            aware = timeout if timeout.tzinfo else timeout.replace(tzinfo=datetime.timezone.utc)
            if aware < self.now():
                return False  # the deferral timed out: the resumed operator cancels
        if not hasattr(BaseTrigger, "on_kill"):
            return True  # Airflow before 3.3 does not say; the ownership check finds out
        return bool(error.args) and error.args[0] == USER_ACTION_MESSAGE

    def _start_kill(self) -> asyncio.Task[bool]:
        if self._kill is None:
            self._kill = kill.start(
                ti=self.task_instance,
                key=self._key,
                job_name=self.job_name,
                try_number=self.try_number,
                reader_factory=self.reader_factory,
            )
        return self._kill
