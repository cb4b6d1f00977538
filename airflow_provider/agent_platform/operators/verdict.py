"""From an end to what Airflow hears: classify, decide, build the error a person reads, ask the task's retry policy.

In: ledger entries, refused creates, events. Out: a :class:`Verdict`, or a typed exception to raise. The rules are in
``policy``; this module only brings them their input and carries their answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pendulum

from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.exceptions import TrainingJobError, error_for
from airflow_provider.agent_platform.hooks.api_retry import api_error_parts
from airflow_provider.agent_platform.jobs.console import console_url
from airflow_provider.agent_platform.operators.request import TrainingRequest
from airflow_provider.agent_platform.operators.steps import Carried
from airflow_provider.agent_platform.operators.task import TaskFacts
from airflow_provider.agent_platform.policy.decide import Action, Decision, Refusals, decide
from airflow_provider.agent_platform.policy.failures import classify
from airflow_provider.agent_platform.policy.kinds import FailureKind, FailurePhase
from airflow_provider.agent_platform.policy.ledger import JobRecord, Ledger, LedgerEntry
from airflow_provider.agent_platform.policy.outcome import FailureEvidence, Outcome
from airflow_provider.agent_platform.policy.placement import Placement
from airflow_provider.agent_platform.policy.progress import Progress
from airflow_provider.agent_platform.policy.report import decision_line, failure_message
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.clocks import Now
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent

if TYPE_CHECKING:
    from airflow.sdk import RetryPolicy

LogTail = Callable[[str, str | None], Sequence[str]]
"""Fetches the last lines of a replica's log by job name and replica; [] when they cannot be had."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How it ended and what follows.

    :param outcome: how a job ended, or why a create was refused.
    :param decision: what follows.
    """

    outcome: Outcome
    decision: Decision

    def line(self, job_name: str | None) -> str:
        """Return the one line that the task's log gets for this decision."""
        return decision_line(self.outcome, self.decision, job_name=job_name)


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """Decides for one try.

    :param request: what the user wants.
    :param task: who is running.
    :param context: Airflow's context, for the retry policy.
    :param retry_policy: the task's; ours unless the user gave another.
    :param retry_delay: the task's own ``retry_delay`` where the user set one.
    :param log_tail: fetches log lines for the error.
    :param log: the task's log.
    :param now: the clock.
    """

    request: TrainingRequest
    task: TaskFacts
    context: Mapping[str, Any]
    retry_policy: RetryPolicy | None
    retry_delay: pendulum.Duration | None
    log_tail: LogTail
    log: TaskLogger
    now: Now

    def on_end(self, ledger: Ledger, entry: LedgerEntry, *, own_try: bool) -> Verdict:
        """Decide on an ended job.

        :param entry: the ledger's last entry.
        :param own_try: the job was submitted by the try that asks.
        """
        outcome = entry.outcome or classify(entry.record.evidence())
        return self._decide(
            ledger, outcome, entry.progress, own_try=own_try, try_number=entry.record.try_number
        )

    def on_refusal(self, ledger: Ledger, error: Exception, placement: Placement, carried: Carried) -> Verdict:
        """Decide on a create that the service refused: there is no job, nothing is charged."""
        code, message = api_error_parts(error)
        outcome = classify(
            FailureEvidence(
                state=JobState.UNSPECIFIED,
                code=code,
                message=message,
                phase=FailurePhase.SUBMIT,
                region=placement.region,
                strategy=placement.strategy,
            )
        )
        since = pendulum.parse(carried.waiting_since) if carried.waiting_since else self.now()
        assert isinstance(since, pendulum.DateTime)
        return self._decide(
            ledger,
            outcome,
            Progress.NOT_ADVANCED,
            own_try=True,
            try_number=self.task.try_number,
            refusals=Refusals(count=carried.refusals, since=since),
        )

    def error(self, verdict: Verdict, job_name: str | None) -> TrainingJobError:
        """Return the exception of a verdict, with all that a person on call needs in its text."""
        tail = self.log_tail(job_name, verdict.outcome.replica) if job_name else ()
        url = console_url(job_name) if job_name else None
        return error_for(
            verdict.outcome,
            verdict.decision,
            job_name=job_name,
            message=failure_message(
                verdict.outcome, verdict.decision, job_name=job_name, console_url=url, log_tail=tail
            ),
            console_url=url,
        )

    def ask_policy(self, verdict: Verdict, record: JobRecord, ledger: Ledger) -> None:
        """Ask the task's retry policy about an ended job of an earlier try, as if the error had been raised there.

        Airflow consults no policy when a worker is killed. Then the try that starts asks: ours fails again what it
        failed before, a user's own that retries such errors gets its new job.

        :raises TrainingJobError: the policy fails it, or the ceiling of jobs is reached.
        """
        error = self.error(verdict, record.name)
        if ledger.jobs >= self.request.budget.max_jobs:
            raise error
        if self.retry_policy is None:
            if verdict.decision.action is Action.FAIL:
                raise error
            return
        answer = self.retry_policy.evaluate(
            error,
            record.try_number,
            self.task.max_tries,
            self.context,  # type: ignore[arg-type]
        )
        if answer.action.value == "fail":
            raise error
        self.log.info(
            "The job of try %d ended with %s; the retry policy allows another one%s.",
            record.try_number,
            error.kind.value,
            f" ({answer.reason})" if answer.reason else "",
        )

    def unreadable(self, event: TrainingJobEvent) -> TrainingJobError:
        """Return the error of a job whose state the service refuses to tell; the job is left as it is."""
        outcome = classify(
            FailureEvidence(
                state=event.state or JobState.UNSPECIFIED,
                code=event.error_code,
                message=event.error_message or event.message or "",
                phase=FailurePhase.SUBMIT,
            )
        )
        decision = Decision(
            action=Action.FAIL,
            kind=outcome.kind,
            reason=(
                f"the service refuses to tell the state of {event.job_name}, so it was neither awaited any longer nor "
                "cancelled. It may still run and cost money: check it in the console. Clear the task once access works "
                "again; it adopts a job that is still live"
            ),
        )
        return self.error(Verdict(outcome=outcome, decision=decision), event.job_name)

    def unlisted(self, error: Exception) -> TrainingJobError:
        """Return the error of a task whose jobs the service refuses to tell: nothing can be adopted or submitted.

        A retry where there is one, since it would adopt a job of an earlier try.
        """
        code, message = api_error_parts(error)
        outcome = classify(
            FailureEvidence(state=JobState.UNSPECIFIED, code=code, message=message, phase=FailurePhase.SUBMIT)
        )
        decision = Decision(
            action=Action.RETRY if self.task.another_try_comes else Action.FAIL,
            kind=outcome.kind,
            reason=(
                "the service refuses to tell the jobs of this task, so nothing was submitted or cancelled. One of an "
                "earlier try may still run and cost money: the next try, or a clear, adopts it once access works"
            ),
        )
        return self.error(Verdict(outcome=outcome, decision=decision), None)

    def out_of_time(self, deadline: pendulum.DateTime, *, ending: str | None = None) -> TrainingJobError:
        """Return the error of a task whose ``execution_timeout`` ended while no job of its epoch was on the platform.

        :param deadline: when it ended.
        :param ending: the job of an earlier epoch that is being cancelled.
        """
        reason = (
            f"execution_timeout ended at {deadline.to_iso8601_string()} while the task waited to submit its next job. "
            + (f"{ending} is being cancelled" if ending else "No job of this task is on the platform")
        )
        decision = Decision(action=Action.FAIL, kind=FailureKind.RUN_TIMEOUT, reason=reason)
        outcome = Outcome(kind=FailureKind.RUN_TIMEOUT, row="execution-timeout", runs_happened=0)
        return self.error(Verdict(outcome=outcome, decision=decision), None)

    def _decide(
        self,
        ledger: Ledger,
        outcome: Outcome,
        progress: Progress,
        *,
        own_try: bool,
        try_number: int,
        refusals: Refusals | None = None,
    ) -> Verdict:
        extra = {} if refusals is None else {"refusals": refusals}
        decision = decide(
            ledger,
            outcome,
            progress,
            tuple(self.request.failure_rules),
            self.request.budget,
            self.now(),
            options=self.request.placement,
            own_try=own_try,
            tries_left=max(0, self.task.max_tries + 1 - try_number),
            retry_delay=self.retry_delay,
            seed=self.task.identity.key,
            **extra,
        )
        return Verdict(outcome=outcome, decision=decision)
