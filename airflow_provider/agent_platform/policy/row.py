"""
One row of the failure table: its conditions, and what it says.

Data's shape only. Not here: the rows (``table``) and how they are matched (``failures``).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.agent_platform.policy.kinds import EndedBy, FailureKind, FailurePhase
from airflow_provider.agent_platform.policy.states import JobState


@dataclass(frozen=True, kw_only=True)
class FailureRow:
    """
    One row: all given conditions must hold; a condition that is not given holds always.

    :param id: stable name, for logs, docs and tests.
    :param kind: what it is called; None is success.
    :param phases: where the error was met.
    :param states: states of the job (phase JOB).
    :param codes: gRPC codes. Never the only condition of a row in phase JOB: the same code stands for many
        kinds.
    :param pattern: regular expression that the text must *begin* with.
    :param exit_codes: exit code of the first failing replica.
    :param reasons: termination reason of the first failing replica.
    :param strategies: scheduling strategies.
    :param started: whether the job was RUNNING once.
    :param ended_by: what our own watching says.
    :param cancelled_by_us: whether the cancel is known to be our own.
    :param timed_out: whether it ran for its whole ``scheduling.timeout``.
    :param empty: whether there is no error text.
    :param runs: runs of the whole job it stands for, at most: the API has no attempt counter.
    :param runs_alone: the same for a job with ``disable_retries`` that had started; None: no difference.
    :param charged: runs it charges unless the checkpoint advanced; ``runs_alone`` limits it.
    :param hint: what a person can do.
    :param source: where the fact is from, with its mark.
    """

    id: str
    kind: FailureKind | None
    phases: frozenset[FailurePhase] = frozenset({FailurePhase.JOB})
    states: frozenset[JobState] = frozenset()
    codes: frozenset[int] = frozenset()
    pattern: str | None = None
    exit_codes: frozenset[int] = frozenset()
    reasons: frozenset[str] = frozenset()
    strategies: frozenset[str] = frozenset()
    started: bool | None = None
    ended_by: frozenset[EndedBy] = frozenset()
    cancelled_by_us: bool | None = None
    timed_out: bool | None = None
    empty: bool | None = None
    runs: int
    runs_alone: int | None = None
    charged: int
    hint: str = ""
    source: str
