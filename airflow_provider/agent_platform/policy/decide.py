"""
What follows from ledger + outcome + progress: SUCCEED, REQUEUE, RETRY or FAIL, with a reason a person can act on.

Enters: values only, the clock's ``now`` among them. Leaves: one :class:`Decision`. Pure and total: the same ledger gives the
same decision, jitter included, so that a process killed in between comes to the same answer. Not here: doing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pendulum

from airflow_provider.agent_platform.policy.kinds import FailureKind
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.outcome import Outcome
from airflow_provider.agent_platform.policy.placement import Placement, PlacementOptions
from airflow_provider.agent_platform.policy.progress import Progress
from airflow_provider.agent_platform.policy.rules import FailureRule


class Action(str, Enum):
    """What is done after an end."""

    SUCCEED = "SUCCEED"
    REQUEUE = "REQUEUE"
    """A new job inside the same Airflow try, after a wait. Costs no retry."""
    RETRY = "RETRY"
    """A new job in a new Airflow try."""
    FAIL = "FAIL"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """
    What the user allows to be spent in one epoch.

    :param retries: the task's ``retries``: buys ``retries + 1`` charged runs, whoever makes them.
    :param max_jobs: ceiling of jobs and refused submits together.
    :param queue_timeout: how long all jobs together may wait to start; None: for ever.
    :raises ValueError: on a negative ``retries``, a ``max_jobs`` under 1, a ``queue_timeout`` that is not positive.
    """

    retries: int
    max_jobs: int = 50
    queue_timeout: pendulum.Duration | None = None

    @property
    def runs(self) -> int:
        """How many charged runs it buys."""
        return self.retries + 1


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """
    Submits that the platform refused since the last job: there is no job, so the ledger does not know them.

    The lifecycle carries it through the requeue's deferral.

    :param count: how many, the one just classified among them.
    :param since: when the first was refused.
    """

    count: int = 0
    since: pendulum.DateTime | None = None


NO_REFUSALS = Refusals()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """
    What to do, why, when and where. Picklable; travels in ``TrainingJobError.decision``.

    :param action: what to do.
    :param kind: the kind it is done for; None for a success. QUEUE_TIMEOUT when a wait for capacity or quota ran out.
    :param reason: why, in a sentence for a person.
    :param delay: how long to wait first; None: at once (SUCCEED, FAIL).
    :param at: when that is.
    :param placement: where the next job goes; None when there is none, or no options were given.
    :param runs_happened: runs of the epoch so far.
    :param runs_charged: runs charged so far.
    :param budget_left: charged runs that are left.
    :param rule: index of the ``failure_rules`` entry that decided; None: the default table.
    """

    action: Action
    kind: FailureKind | None
    reason: str
    delay: pendulum.Duration | None = None
    at: pendulum.DateTime | None = None
    placement: Placement | None = None
    runs_happened: int = 0
    runs_charged: int = 0
    budget_left: int = 0
    rule: int | None = None


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
    :param own_try: whether the job belongs to the try that asks. A CANCELLED job of an earlier try does not fail a new one.
    :param tries_left: Airflow tries after this one; RETRY without any is a FAIL that says so. None: not known.
    :param refusals: refused submits since the last job, this one among them.
    :param retry_delay: the task's own ``retry_delay`` where the user set one: RETRY then waits exactly that, unless a rule gives a
        delay. None: the kind's back-off with full jitter.
    :param seed: something constant of the task instance (its key), so that tasks that fail together do not come back together.
    """
    raise NotImplementedError


def platform_retries(ledger: Ledger, budget: Budget, override: bool | None = None) -> bool:
    """
    Whether the next job leaves the platform's own retries on (``disable_retries`` is the opposite).

    :param ledger: jobs of the epoch so far; the first job leaves them on.
    :param override: the operator's ``platform_retries``; None decides.
    :return: False for a later job when the rest of the budget could not pay for its run and the platform's three more.
    """
    raise NotImplementedError


def queue_deadline(
    ledger: Ledger, budget: Budget, now: pendulum.DateTime, *, refusals: Refusals = NO_REFUSALS
) -> pendulum.DateTime | None:
    """
    When the job that is live, or submitted now, must have started. Absolute; carry it through re-deferrals.

    :return: None without a ``queue_timeout``. Not in the past by more than what was overdrawn.
    """
    raise NotImplementedError
