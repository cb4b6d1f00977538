"""
The records around a decision: what may be spent, what was refused, what was decided.

Not here: deciding (``decide``).
"""

from __future__ import annotations

from dataclasses import dataclass

import pendulum

from airflow_provider.agent_platform.policy.actions import Action
from airflow_provider.agent_platform.policy.kinds import FailureKind
from airflow_provider.agent_platform.policy.placement import Placement

PLATFORM_RETRIES = 3
"""How often the platform itself repeats a whole job that crashed (D)."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """
    What the user allows to be spent in one epoch.

    :param retries: the task's ``retries``: buys ``retries + 1`` charged runs, whoever makes them.
    :param max_jobs: ceiling of jobs and refused submits together.
    :param queue_timeout: how long all jobs together may wait to start; None: for ever.
    :raises ValueError: on a negative ``retries``, a ``max_jobs`` under 1, a ``queue_timeout`` that is not
        positive.
    """

    retries: int
    max_jobs: int = 50
    queue_timeout: pendulum.Duration | None = None

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ValueError(f"retries is {self.retries}; give 0 or more")
        if self.max_jobs < 1:
            raise ValueError(f"max_jobs is {self.max_jobs}; give 1 or more: the first job counts too")
        if self.queue_timeout is not None and self.queue_timeout.total_seconds() <= 0:
            raise ValueError(
                f"queue_timeout is {self.queue_timeout.total_seconds()} s; "
                "give more than 0, or None for no limit"
            )

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
    :param kind: the kind it is done for; None for a success. QUEUE_TIMEOUT when a wait for capacity or quota
        ran out.
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

    @property
    def submits(self) -> bool:
        """Whether a new job follows."""
        return self.action in (Action.REQUEUE, Action.RETRY)
