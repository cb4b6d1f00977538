"""
The failure table as data, and ``classify``: what kind of end is this?

Enters: a :class:`FailureEvidence`. Leaves: an :class:`Outcome`. Rows are tried in order, the first match wins, the last row of a
phase is the explicit default. Not here: what is done about it (``decide``).
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.agent_platform.policy.kinds import EndedBy, FailureKind, FailurePhase
from airflow_provider.agent_platform.policy.outcome import FailureEvidence, FoundError, Outcome
from airflow_provider.agent_platform.policy.rules import FailureRule

__all__ = [
    "EndedBy",
    "FailureEvidence",
    "FailureKind",
    "FailurePhase",
    "FailureRule",
    "FoundError",
    "Outcome",
    "classify",
]


def classify(evidence: FailureEvidence, rules: Sequence[FailureRule] = ()) -> Outcome:
    """
    Say how a job ended, or why a submit was refused.

    :param evidence: what is known. In phase JOB the state must be an end, or ``ended_by`` must be set.
    :param rules: accepted for symmetry; a rule changes what is done (``decide``), never what a failure is called.
    :return: kind None for a success.
    :raises ValueError: in phase JOB, for a job that is live and that nothing of ours ended: there is nothing to classify yet.
    """
    raise NotImplementedError
