"""Carry out the steps of the lifecycle: defer or wait, return or raise; and what to do when a wait itself breaks.

In: an operator with rendered arguments, the context of its try. Out: a deferral, a result, or a typed error. Which step
comes next is decided in ``lifecycle``. The deferrable and the plain mode differ here and nowhere else.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pendulum
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_provider.agent_platform.exceptions import TrainingJobError
from airflow_provider.agent_platform.jobs.durations import seconds_of
from airflow_provider.agent_platform.operators import notes
from airflow_provider.agent_platform.operators.assembly import Assembly, assemble
from airflow_provider.agent_platform.operators.steps import Carried, Done, Step, WaitForJob, WaitUntil
from airflow_provider.agent_platform.triggers.clocks import Clocks, utcnow
from airflow_provider.agent_platform.triggers.events import EXECUTION_TIMEOUT, TrainingJobEvent, parse_event
from airflow_provider.agent_platform.triggers.training_job import TrainingJobTrigger
from airflow_provider.agent_platform.triggers.trouble import brief
from airflow_provider.agent_platform.triggers.waiting import wait_for_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk.definitions.context import Context
    from airflow.sdk.exceptions import TaskDeferralError

    from airflow_provider.agent_platform.operators.base import TrainingJobBaseOperator

MAX_VANISHED: Final = 3
"""Triggers that may vanish in one try (a crashed triggerer, a broken upgrade) before the try fails."""

CANCEL_BOUND: Final = 300.0
"""Seconds to wait for the end of a job that was cancelled because a clock ended."""

FIRST_EVENT_SECONDS: Final = 5
"""Airflow may fail a try whose trigger fires while the deferring process still ends (apache/airflow#71580)."""


class Conduct:
    """One start or resume of one task.

    :param operator: with rendered arguments.
    :param context: of the try.
    """

    def __init__(self, operator: TrainingJobBaseOperator, context: Context) -> None:
        self.operator = operator
        self.context = context
        self.log = operator.log
        self._assembly: Assembly | None = None

    # -- the ways in

    def start(self) -> Any:
        """Start a try."""

        def first(assembly: Assembly) -> Step:
            notes.own(self.context, "", assembly.where)
            return assembly.lifecycle.start()

        return self._run(first)

    def after_job(self, event: Any, *, stale: bool) -> Any:
        """Go on after the wait for a job.

        :raises UnreadableEventError: the event is none of ours; it is never taken for a success.
        """
        parsed = parse_event(event)
        return self._run(lambda assembly: assembly.lifecycle.resumed(parsed, stale=stale))

    def after_pause(self, carried: Any) -> Any:
        """Go on after a wait without a job."""
        return self._run(lambda assembly: assembly.lifecycle.waited(Carried.parse(carried)))

    def after_vanished_trigger(self, error: TaskDeferralError) -> Any:
        """Wait again, in the same try; a bounded number of times."""
        count = notes.vanished_again(self.context)
        if count > MAX_VANISHED:
            self.log.error(
                "The trigger vanished %d times in this try; giving up on it. The job goes on: the next try, or a "
                "clear of this task, adopts it.",
                count,
            )
            raise error
        self.log.warning(
            "The trigger vanished (%s; %d of %d in this try). The job goes on; waiting for it again.",
            error,
            count,
            MAX_VANISHED,
        )
        return self._run(lambda assembly: assembly.lifecycle.start())

    def after_timeout(self) -> None:
        """Airflow ended the deferral without telling the trigger: end the job before the task fails."""

        def cancel(assembly: Assembly) -> Step:
            for name in assembly.kill.out_of_time():
                assembly.lifecycle.job_name = name
            return Done(result={})

        try:
            self._run(cancel, announce=False)
        except Exception as error:
            # The task has to fail with the timeout, which Airflow's own error tells.
            self.log.error(
                "The deferral timed out, and the job of this task could not be cancelled (%s). The next try, or a clear, "
                "adopts or ends it; or cancel it in the console.",
                brief(error),
            )

    def on_kill(self) -> None:
        """Decide about the job: the worker is told to stop."""
        if self._assembly is not None:
            self._assembly.kill.on_kill()

    # -- carrying out

    def _run(self, first: Callable[[Assembly], Step], *, announce: bool = True) -> Any:
        assembly = assemble(self.operator, self.context)
        self._assembly = assembly
        try:
            try:
                done = self._to_the_end(assembly, first(assembly))
            except AirflowTaskTimeout:
                self.log.warning("execution_timeout ended in the worker.")
                done = self._to_the_end(assembly, _out_of_time(assembly))
            if announce:
                notes.announce(self.context, self.operator.outlets, done.result, self.log)
            return done.result
        except TrainingJobError:
            raise
        except Exception:
            if assembly.lifecycle.job_name is not None:
                self.log.warning(
                    "This try ends with an error that is not the job's: %s goes on if it has not ended. The next try, "
                    "or a clear of this task, adopts it.",
                    assembly.lifecycle.job_name,
                )
            raise
        finally:
            self.operator.job_name = assembly.lifecycle.job_name or self.operator.job_name
            self._assembly = None
            assembly.hook.close()

    def _to_the_end(self, assembly: Assembly, step: Step) -> Done:
        while not isinstance(step, Done):
            step = self._carry_out(assembly, step)
        return step

    def _carry_out(self, assembly: Assembly, step: WaitForJob | WaitUntil) -> Step:
        self.operator.job_name = assembly.lifecycle.job_name
        if isinstance(step, WaitForJob):
            notes.remember(self.context, step.ledger, self.log)
            if self.operator.deferrable:
                self._defer_for_job(assembly, step)
            return assembly.lifecycle.resumed(self._wait_for_job(assembly, step), stale=step.stale)
        moment = _moment(assembly, step)
        if self.operator.deferrable:
            self._defer_until(assembly, step, moment)
        assembly.lifecycle.sleep(max(0.0, (moment - utcnow()).total_seconds()))
        return assembly.lifecycle.waited(step.carried)

    def _defer_for_job(self, assembly: Assembly, step: WaitForJob) -> NoReturn:
        notes.own(self.context, step.record.name, assembly.where)
        clocks = _clocks(assembly, step)
        interval = self.operator.checkpoint_interval
        trigger = TrainingJobTrigger(
            step.record.name,
            gcp_conn_id=self.operator.gcp_conn_id,
            impersonation_chain=self.operator.impersonation_chain,
            poll_interval=self._poll_seconds(),
            queue_deadline=_iso(clocks.queue_deadline),
            run_timeout=clocks.run_timeout,
            execution_deadline=_iso(clocks.execution_deadline),
            try_number=assembly.task.try_number,
            cancel_bound=CANCEL_BOUND,
            base_output_directory=_watched_directory(assembly, step),
            checkpoint_interval=None if interval is None else seconds_of(interval),
        )
        self.operator.defer(
            trigger=trigger,
            method_name="execute_complete",
            kwargs={"stale": step.stale},
            timeout=_defer_timeout(assembly),
        )

    def _defer_until(self, assembly: Assembly, step: WaitUntil, moment: pendulum.DateTime) -> NoReturn:
        # Airflow's own trigger: nothing of ours has to run while no job is on the platform.
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        self.operator.defer(
            trigger=DateTimeTrigger(moment=moment),
            method_name="execute_requeue",
            kwargs={"carried": step.carried.to_dict()},
            timeout=_defer_timeout(assembly),
        )

    def _wait_for_job(self, assembly: Assembly, step: WaitForJob) -> TrainingJobEvent:
        return wait_for_job(
            assembly.hook,
            step.record.name,
            clocks=_clocks(assembly, step),
            poll_interval=self._poll_seconds(),
            cancel_bound=CANCEL_BOUND,
            log=self.log,
            on_change=lambda view: notes.show_live(self.context, view),
            sleep=assembly.lifecycle.sleep,
        )

    def _poll_seconds(self) -> float:
        return max(1.0, seconds_of(self.operator.poll_interval))


def _out_of_time(assembly: Assembly) -> Step:
    """Airflow's alarm rang in this process: go on as if the clock of the trigger had ended, so that both modes fail alike."""
    names = assembly.kill.out_of_time()
    if not names:
        return (
            assembly.lifecycle.start()
        )  # it ended just now, or there was none: submitting is refused by then
    return assembly.lifecycle.resumed(TrainingJobEvent(type=EXECUTION_TIMEOUT, job_name=names[-1]))


def _clocks(assembly: Assembly, step: WaitForJob) -> Clocks:
    deadline = assembly.task.execution_deadline
    if step.stale:
        # It is being cancelled already: only its end matters.
        return Clocks(execution_deadline=deadline)
    limit = assembly.request.run_timeout
    return Clocks(
        queue_deadline=step.queue_deadline,
        run_timeout=None if limit is None else limit.total_seconds(),
        execution_deadline=deadline,
    )


def _moment(assembly: Assembly, step: WaitUntil) -> pendulum.DateTime:
    moment = max(step.moment, utcnow().add(seconds=FIRST_EVENT_SECONDS))
    deadline = assembly.task.execution_deadline
    return moment if deadline is None else min(moment, deadline)


def _watched_directory(assembly: Assembly, step: WaitForJob) -> str | None:
    """Where the trigger looks for checkpoints; the trials of a tuning job each have a folder of their own."""
    if step.stale or step.record.job_type != "custom_job":
        return None
    return assembly.request.base_output_directory


def _defer_timeout(assembly: Assembly) -> timedelta | None:
    """A net under the trigger, which holds ``execution_timeout`` itself and cancels the job first."""
    deadline = assembly.task.execution_deadline
    if deadline is None:
        return None
    seconds = max(0.0, (deadline - utcnow()).total_seconds())
    return timedelta(seconds=seconds + 2 * CANCEL_BOUND)


def _iso(moment: pendulum.DateTime | None) -> str | None:
    return None if moment is None else moment.isoformat()
