"""
What one end takes from the budget: charged, held, or nothing.

Enters: an outcome, whether the checkpoint advanced, the user's rules. Leaves: a :class:`Cost`. Not here: how
often a job ran (``table``), the sums (``ledger``), and what a spent budget means (``decide``).

Unknown progress *neither charges nor frees*. It does not charge, because the run may have done hours of work
that the budget must not pay for; it does not free, because it may have done none, and would loop. So it is
*held*: it takes one place of the ``retries + 1``, as the Airflow try does that it costs, until a later read
of the checkpoints settles it. A held place is free again when the run turns out to have advanced, and
becomes the run's full charge when it has not. This way the budget is never overdrawn by what is not known,
the number of jobs stays within ``retries + 1`` without counting on ``max_jobs``, and a storage outage costs
one try and not the four of a crash. Two readings were refused: "as if it had not advanced" fails a task of
three retries for one unreadable bucket, and "charges nothing at all" multiplies the platform's retries by
ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider.agent_platform.policy.outcome import Outcome
from airflow_provider.agent_platform.policy.progress import Progress
from airflow_provider.agent_platform.policy.rules import FailureRule, first_matching


@dataclass(frozen=True, kw_only=True)
class Cost:
    """
    What one end takes from the budget.

    :param charged: runs taken.
    :param held: 1 while it would be charged but its progress is not known.
    :param at_stake: what is charged should it turn out that a held job has not advanced.
    """

    charged: int = 0
    held: int = 0
    at_stake: int = 0


NOTHING = Cost()


def charge(outcome: Outcome, progress: Progress, rules: Sequence[FailureRule]) -> Cost:
    """
    Say what an end takes from the budget.

    :param outcome: how the job ended.
    :param progress: whether it advanced the checkpoint.
    :param rules: the task's ``failure_rules``: "requeue" charges nothing (the user asked for a free one;
        ``max_jobs`` bounds it), "retry" at least one run (it costs an Airflow retry).
    """
    runs = outcome.runs_charged
    rule = first_matching(rules, outcome)
    if rule is not None and rule.action == "requeue":
        return NOTHING
    if rule is not None and rule.action == "retry":
        runs = max(1, runs)
    if runs == 0 or progress is Progress.ADVANCED:
        return NOTHING
    if progress is Progress.UNKNOWN:
        return Cost(held=1, at_stake=runs)
    return Cost(charged=runs)
