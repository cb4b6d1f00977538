"""
``classify``: what kind of end is this?

Enters: a :class:`FailureEvidence`. Leaves: an :class:`Outcome`. The rows of ``table`` are tried in order,
the first match wins, the last row of a phase is the explicit default. Not here: what is done about it
(``decide``).
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.agent_platform.policy import texts
from airflow_provider.agent_platform.policy.exit_codes import signal_of
from airflow_provider.agent_platform.policy.kinds import EndedBy, FailureKind, FailurePhase
from airflow_provider.agent_platform.policy.outcome import FailureEvidence, FoundError, Outcome
from airflow_provider.agent_platform.policy.row import FailureRow
from airflow_provider.agent_platform.policy.rules import FailureRule
from airflow_provider.agent_platform.policy.states import is_live, state_name
from airflow_provider.agent_platform.policy.table import FAILURES

__all__ = [
    "FAILURES",
    "EndedBy",
    "FailureEvidence",
    "FailureKind",
    "FailurePhase",
    "FailureRow",
    "FailureRule",
    "FoundError",
    "Outcome",
    "classify",
]


def classify(evidence: FailureEvidence, rules: Sequence[FailureRule] = ()) -> Outcome:
    """
    Say how a job ended, or why a submit was refused.

    :param evidence: what is known. In phase JOB the state must be an end, or ``ended_by`` must be set.
    :param rules: the task's ``failure_rules``. Accepted so that every caller passes the same things; a rule
        changes what is done (``decide``), never what a failure is called.
    :return: kind None for a success.
    :raises ValueError: in phase JOB, for a job that is live and that nothing of ours ended: there is nothing
        to say yet.
    """
    if evidence.phase is FailurePhase.JOB and evidence.ended_by is None and is_live(evidence.state):
        raise ValueError(
            f"a job in {state_name(evidence.state)} has not ended, so it has no outcome; "
            "read it again until it has"
        )
    text = texts.normalised(evidence.message)
    first = texts.first_exit(text)
    row = next(row for row in FAILURES if _matches(row, evidence, text, first))
    exit_code = first.exit_code if first else None
    named = texts.replicas_in(text)
    return Outcome(
        kind=row.kind,
        row=row.id,
        phase=evidence.phase,
        runs_happened=_limited(row.runs, row, evidence),
        runs_charged=_limited(row.charged, row, evidence),
        replica=named[0] if named else None,
        replicas=named,
        exit_code=exit_code,
        signal=_signal(first),
        termination_reason=first.reason if first else None,
        region=evidence.region or texts.region_in(text),
        quota_metrics=texts.quota_metrics_in(text),
        found_errors=texts.found_errors_in(text),
        hint=row.hint,
        message=evidence.message,
        code=evidence.code,
        state=evidence.state,
    )


def _limited(runs: int, row: FailureRow, evidence: FailureEvidence) -> int:
    if evidence.disable_retries and evidence.ever_started and row.runs_alone is not None:
        return min(runs, row.runs_alone)
    return runs


def _signal(first: texts.Exit | None) -> str | None:
    if first is None or first.exit_code is None:
        return None
    return first.signal or signal_of(first.exit_code)


def _matches(row: FailureRow, evidence: FailureEvidence, text: str, first: texts.Exit | None) -> bool:
    return (
        evidence.phase in row.phases
        and (not row.states or evidence.phase is not FailurePhase.JOB or evidence.state in row.states)
        and (not row.codes or evidence.code in row.codes)
        and (not row.ended_by or evidence.ended_by in row.ended_by)
        and (not row.strategies or evidence.strategy in row.strategies)
        and (row.started is None or evidence.ever_started is row.started)
        and (row.cancelled_by_us is None or evidence.cancelled_by_us is row.cancelled_by_us)
        and (row.timed_out is None or _timed_out(evidence) is row.timed_out)
        and (row.empty is None or (not text) is row.empty)
        and (not row.exit_codes or (first is not None and first.exit_code in row.exit_codes))
        and (not row.reasons or (first is not None and first.reason in row.reasons))
        and (row.pattern is None or texts.begins_with(row.pattern, text))
    )


def _timed_out(evidence: FailureEvidence) -> bool:
    if evidence.run_seconds is None or not evidence.timeout_seconds:
        return False
    return evidence.run_seconds >= evidence.timeout_seconds
