"""
The clock of ``queue_timeout``: how long the jobs of an epoch have waited, and when it is over.

Enters: the ledger, refused submits, the clock. Leaves: seconds and an absolute deadline. Not here: watching
the clock (the trigger does) and what its end means (``decide``).
"""

from __future__ import annotations

import pendulum

from airflow_provider.agent_platform.policy.decision import NO_REFUSALS, Budget, Refusals
from airflow_provider.agent_platform.policy.ledger import Ledger


def waited_seconds(ledger: Ledger, refusals: Refusals, now: pendulum.DateTime) -> float:
    """Seconds all jobs, and the submits refused after the last one, have waited to start."""
    total = ledger.waited_seconds(now)
    last = ledger.last
    counted = last is not None and not last.record.started and last.record.end_time is not None
    if refusals.since is not None and not counted:
        total += max(0.0, (now - refusals.since).total_seconds())
    return total


def queue_seconds_left(
    ledger: Ledger, budget: Budget, now: pendulum.DateTime, *, refusals: Refusals = NO_REFUSALS
) -> float | None:
    """Seconds that are left of ``queue_timeout``; negative when overdrawn, None without one."""
    if budget.queue_timeout is None:
        return None
    return budget.queue_timeout.total_seconds() - waited_seconds(ledger, refusals, now)


def queue_deadline(
    ledger: Ledger, budget: Budget, now: pendulum.DateTime, *, refusals: Refusals = NO_REFUSALS
) -> pendulum.DateTime | None:
    """
    When the job that is live, or submitted now, must have started. Absolute: carry it through re-deferrals.

    :return: None without a ``queue_timeout``; in the past when the time is overdrawn.
    """
    left = queue_seconds_left(ledger, budget, now, refusals=refusals)
    return None if left is None else now.add(seconds=left)
