"""
What follows from ledger + outcome + progress: SUCCEED, REQUEUE, RETRY or FAIL, with a reason a person can
act on.

Enters: values only, the clock's ``now`` among them. Leaves: one :class:`Decision`. Pure and total: the same
ledger gives the same decision, jitter included, so that a process killed in between comes to the same
answer. Not here: doing it.

The order of the questions: success; a rule of the user, else the kind's default; a cancel of an earlier try;
then, for whatever would submit, the limits that hold over all of them: ``max_jobs``, the budget of charged
runs, ``queue_timeout``, Airflow's own tries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider.agent_platform.policy.actions import ACTIONS, Action
from airflow_provider.agent_platform.policy.decision import (
    NO_REFUSALS,
    PLATFORM_RETRIES,
    Budget,
    Decision,
    Refusals,
)
from airflow_provider.agent_platform.policy.delays import full_jitter
from airflow_provider.agent_platform.policy.kinds import FailureKind
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.outcome import Outcome
from airflow_provider.agent_platform.policy.placement import (
    CLIMBS,
    Climb,
    Placement,
    PlacementOptions,
    next_placement,
    same_placement,
)
from airflow_provider.agent_platform.policy.progress import Progress
from airflow_provider.agent_platform.policy.queueing import queue_deadline, queue_seconds_left
from airflow_provider.agent_platform.policy.rules import FailureRule, first_matching
from airflow_provider.agent_platform.policy.table import CANCELLED_BY_US
from airflow_provider.agent_platform.policy.words import count_of, seconds_in_words

__all__ = [
    "NO_REFUSALS",
    "Action",
    "Budget",
    "Decision",
    "Progress",
    "Refusals",
    "decide",
    "platform_retries",
    "queue_deadline",
]


def decide(
    ledger: Ledger,
    outcome: Outcome,
    progress: Progress,
    rules: Sequence[FailureRule],
    budget: Budget,
    now: pendulum.DateTime,
    *,
    options: PlacementOptions | None = None,
    own_try: bool = True,
    tries_left: int | None = None,
    refusals: Refusals = NO_REFUSALS,
    retry_delay: pendulum.Duration | None = None,
    seed: str = "",
) -> Decision:
    """
    Decide what follows from the end of a job, or from a refused submit.

    :param ledger: the epoch's jobs; ``outcome`` is that of ``ledger.last``, or of a refused submit after it.
    :param outcome: how it ended.
    :param progress: whether it advanced the checkpoint.
    :param rules: the task's ``failure_rules``; the first that matches wins over the table.
    :param budget: what may be spent.
    :param now: the clock.
    :param options: regions and machines; without them there is nothing to climb to and ``placement`` is None.
    :param own_try: whether the job belongs to the try that asks. A CANCELLED job of an earlier try does not
        fail a new one.
    :param tries_left: Airflow tries after this one; RETRY without any is a FAIL that says so. None: not
        known.
    :param refusals: refused submits since the last job, this one among them.
    :param retry_delay: the task's own ``retry_delay`` where the user set one: RETRY then waits exactly that,
        unless a rule gives a delay. None: the kind's back-off with full jitter.
    :param seed: something constant of the task instance (its key), so that tasks that fail together do not
        come back together.
    """
    case = _Case(
        ledger=ledger,
        outcome=outcome,
        progress=progress,
        rules=rules,
        budget=budget,
        now=now,
        options=options,
        own_try=own_try,
        tries_left=tries_left,
        refusals=refusals,
        retry_delay=retry_delay,
        seed=seed,
    )
    return case.decision()


def platform_retries(ledger: Ledger, budget: Budget, override: bool | None = None) -> bool:
    """
    Whether the next job leaves the platform's own retries on (``disable_retries`` is the opposite).

    Runs whose progress is not known count here at their full number: nothing is multiplied on a hope.

    :param ledger: jobs of the epoch so far; the first job leaves them on.
    :param override: the operator's ``platform_retries``; None decides.
    :return: False for a later job when the rest of the budget could not pay for its run and the platform's
        three more.
    """
    if override is not None:
        return override
    return ledger.jobs == 0 or budget.runs - ledger.runs_at_worst > PLATFORM_RETRIES


@dataclass(frozen=True, kw_only=True)
class _Case:
    """One question to ``decide``, so that its steps need not hand twelve values on."""

    ledger: Ledger
    outcome: Outcome
    progress: Progress
    rules: Sequence[FailureRule]
    budget: Budget
    now: pendulum.DateTime
    options: PlacementOptions | None
    own_try: bool
    tries_left: int | None
    refusals: Refusals
    retry_delay: pendulum.Duration | None
    seed: str

    def decision(self) -> Decision:
        kind = self.outcome.kind
        if kind is None:
            return self._ended(Action.SUCCEED, None, "the job succeeded")
        action, why = self._wanted(kind)
        if action is Action.FAIL:
            return self._ended(Action.FAIL, kind, why)
        limit = self._limit(kind, action, why)
        if limit is not None:
            return self._ended(Action.FAIL, *limit)
        return self._submitted(kind, action, why, self._placement())

    # --- what is asked for
    # -------------------------------------------------------------------------------------

    @property
    def _rule(self) -> FailureRule | None:
        return first_matching(self.rules, self.outcome)

    @property
    def _rule_index(self) -> int | None:
        rule = self._rule
        return None if rule is None else list(self.rules).index(rule)

    def _wanted(self, kind: FailureKind) -> tuple[Action, str]:
        default = ACTIONS[kind]
        rule = self._rule
        if rule is not None:
            return Action(rule.action.upper()), f"failure_rules[{self._rule_index}] says {rule.action}"
        if kind is FailureKind.CANCELLED and (not self.own_try or self.outcome.row == CANCELLED_BY_US):
            return Action.REQUEUE, "the job of an earlier try was cancelled"
        if CLIMBS.get(kind) is Climb.MACHINE and self._placement() is None:
            return Action.FAIL, f"{default.why}, and machine_types has no larger one left"
        advanced = self.progress is Progress.ADVANCED
        if advanced and default.free_if_advanced:
            return Action.REQUEUE, f"{default.why}, but it got further than where it started"
        if not advanced and default.action is Action.REQUEUE and self.outcome.runs_charged:
            # A requeue costs nothing, so what is charged cannot be one: a job that ran before it lost its machines.
            return Action.RETRY, f"{default.why} for a job that had started"
        return default.action, default.why

    # --- what is allowed
    # ---------------------------------------------------------------------------------------

    def _limit(self, kind: FailureKind, action: Action, why: str) -> tuple[FailureKind, str] | None:
        """The limit that forbids a new job: kind and reason. None: it may be submitted."""
        budget = self.budget
        submitted = self.ledger.jobs + self.refusals.count
        if submitted >= budget.max_jobs:
            return kind, (
                f"{count_of(submitted, 'job')} submitted for this task since it was last cleared, "
                f"and max_jobs={budget.max_jobs} allows no more"
            )
        if self._left <= 0:
            return kind, self._spent()
        seconds = queue_seconds_left(self.ledger, budget, self.now, refusals=self.refusals)
        if seconds is not None and seconds <= 0 and budget.queue_timeout is not None:
            waited = seconds_in_words(budget.queue_timeout.total_seconds() - seconds)
            limit = seconds_in_words(budget.queue_timeout.total_seconds())
            reason = f"{why}: waited {waited} to start, and queue_timeout is {limit}"
            # A cancel that is found after a crash may well have been our own, at the end of this very clock.
            ran_out = ACTIONS[kind].waits or kind is FailureKind.CANCELLED
            return FailureKind.QUEUE_TIMEOUT if ran_out else kind, reason
        # A try that starts after the failed one is itself the retry: it asks about an end that is not its
        # own.
        if action is Action.RETRY and self.own_try and self.tries_left is not None and self.tries_left <= 0:
            return kind, (
                f"{why}, and Airflow has no try left for it "
                f"(the budget still has {count_of(self._left, 'run')}); raise retries"
            )
        return None

    @property
    def _left(self) -> int:
        return self.budget.runs - self.ledger.runs_charged - self.ledger.runs_held

    def _spent(self) -> str:
        charged, held = self.ledger.runs_charged, self.ledger.runs_held
        ran = count_of(charged + held, "time")
        unknown = f" ({held} of them with unknown progress)" if held else ""
        return (
            f"the platform already ran this {ran}{unknown}, "
            f"and retries={self.budget.retries} buys {count_of(self.budget.runs, 'run')}"
        )

    # --- where and when
    # ----------------------------------------------------------------------------------------

    def _placement(self) -> Placement | None:
        if self.options is None:
            return None
        placement = next_placement(self.ledger, self.outcome, self.options)
        if placement is None and self._rule is not None:
            # The user asked for another job on the same machine.
            return same_placement(self.ledger, self.options)
        return placement

    def _delay(self, kind: FailureKind, action: Action) -> pendulum.Duration:
        rule = self._rule
        if rule is not None and isinstance(rule.delay, pendulum.Duration):
            return self._within_queue(kind, rule.delay)
        if action is Action.RETRY and self.retry_delay is not None:
            return self.retry_delay
        if kind is FailureKind.CANCELLED:
            return pendulum.duration()
        attempt = self._in_a_row(kind)
        if CLIMBS.get(kind) is Climb.REGION:
            regions = len(self.options.regions) if self.options else 1
            if attempt % regions:
                # A region that has not been tried in this round may have room now.
                return pendulum.duration()
            attempt //= regions
        drawn = full_jitter(ACTIONS[kind].backoff, attempt=attempt, seed=self._seed)
        return self._within_queue(kind, drawn)

    def _within_queue(self, kind: FailureKind, delay: pendulum.Duration) -> pendulum.Duration:
        """Leave the next job as long to start as is spent on waiting for it."""
        left = queue_seconds_left(self.ledger, self.budget, self.now, refusals=self.refusals)
        if left is None or not ACTIONS[kind].waits:
            return delay
        return min(delay, pendulum.duration(seconds=left / 2))

    def _in_a_row(self, kind: FailureKind) -> int:
        """How often it has just ended like this without getting further, one after the other, at least once."""
        number = self.refusals.count
        for entry in reversed(self.ledger.entries):
            if entry.duplicate:
                continue
            if entry.outcome is None or entry.outcome.kind is not kind:
                break
            if entry.progress is Progress.ADVANCED:
                # It ran for a while: what follows is no repeated attempt at the same door.
                break
            number += 1
        return max(1, number)

    @property
    def _seed(self) -> str:
        last = self.ledger.last
        name = last.record.name if last else ""
        return f"{self.seed}|{name}|{self.ledger.jobs}|{self.refusals.count}"

    # --- the answer
    # --------------------------------------------------------------------------------------------

    def _ended(self, action: Action, kind: FailureKind | None, reason: str) -> Decision:
        return self._answer(action, kind, reason, delay=None, placement=None)

    def _submitted(
        self, kind: FailureKind, action: Action, why: str, placement: Placement | None
    ) -> Decision:
        delay = self._delay(kind, action)
        where = _where(placement, same_placement(self.ledger, self.options) if self.options else None)
        when = f"in {seconds_in_words(delay.total_seconds())}" if delay.total_seconds() else "at once"
        what = "submitting again inside this try" if action is Action.REQUEUE else "an Airflow retry"
        return self._answer(action, kind, f"{why}: {what} {when}{where}", delay=delay, placement=placement)

    def _answer(
        self,
        action: Action,
        kind: FailureKind | None,
        reason: str,
        *,
        delay: pendulum.Duration | None,
        placement: Placement | None,
    ) -> Decision:
        return Decision(
            action=action,
            kind=kind,
            reason=reason,
            delay=delay,
            at=None if delay is None else self.now + delay,
            placement=placement,
            runs_happened=self.ledger.runs_happened,
            runs_charged=self.ledger.runs_charged,
            budget_left=max(0, self._left),
            rule=self._rule_index,
        )


def _where(new: Placement | None, old: Placement | None) -> str:
    """Say what changes about the place."""
    if new is None or old is None:
        return ""
    words = []
    if new.region != old.region:
        words.append(f"in {new.region}")
    if new.machine_type != old.machine_type:
        words.append(f"on {new.machine_type}")
    return "".join(f", {word}" for word in words)
