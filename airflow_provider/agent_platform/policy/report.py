"""
What a person reads: the one-line decision in the log, and the message of a failed task.

Enters: outcome, decision, ledger, log lines. Leaves: text. Pure: fetching the log lines is somebody else's work.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.agent_platform.policy.decide import Decision
from airflow_provider.agent_platform.policy.outcome import Outcome


def decision_line(outcome: Outcome, decision: Decision, *, job_name: str | None = None) -> str:
    """One log line for a decision: kind, evidence, runs happened and charged, budget left, what next, when."""
    raise NotImplementedError


def failure_message(
    outcome: Outcome,
    decision: Decision,
    *,
    job_name: str | None = None,
    console_url: str | None = None,
    log_tail: Sequence[str] = (),
) -> str:
    """
    The text of the exception: what a person on call needs at three in the morning.

    :param job_name: full resource name of the job; None for a refused submit.
    :param console_url: link to the job.
    :param log_tail: last lines of the failing worker's log, oldest first; empty when they could not be had.
    """
    raise NotImplementedError
