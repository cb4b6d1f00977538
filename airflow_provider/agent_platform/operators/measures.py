"""Numbers about ended jobs and decisions, for Airflow's metrics.

In: ledger entries and verdicts. Out: calls of ``triggers.metrics``, where the names are. Counted when the decision is
taken, in the worker; a crash in between may count one twice.
"""

from __future__ import annotations

from airflow_provider.agent_platform.operators.verdict import Verdict
from airflow_provider.agent_platform.policy.decide import Action
from airflow_provider.agent_platform.policy.ledger import LedgerEntry
from airflow_provider.agent_platform.triggers import metrics


def ended(entry: LedgerEntry) -> None:
    """Measure how long an ended job waited and ran."""
    kind = entry.outcome.kind if entry.outcome is not None else None
    tags = {"kind": "SUCCESS" if kind is None else kind.value, "region": entry.record.region}
    metrics.seconds(metrics.JOB_QUEUE_SECONDS, entry.queued_seconds, tags=tags)
    metrics.seconds(metrics.JOB_RUN_SECONDS, entry.run_seconds, tags=tags)


def decided(verdict: Verdict, region: str) -> None:
    """Count a decision, and a requeue if it is one."""
    decision = verdict.decision
    kind = decision.kind.value if decision.kind is not None else "SUCCESS"
    tags = {"kind": kind, "region": region}
    metrics.incr(metrics.JOB_DECISIONS, tags={**tags, "action": decision.action.value})
    if decision.action is Action.REQUEUE:
        metrics.incr(metrics.JOB_REQUEUES, tags=tags)
