"""
All jobs of one task instance in one epoch, oldest first: what ran, how it ended, what it was charged.

Enters: job records as read from the platform, in any order, and the newest complete checkpoint step. Leaves:
sums. Not here: what follows from the sums (``decide``), and reading records from the platform
(``operators``).

*Happened*, *charged* and *held* are three columns; ``charging`` says what one end costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider.agent_platform.policy.charging import NOTHING, charge
from airflow_provider.agent_platform.policy.failures import classify
from airflow_provider.agent_platform.policy.job import JobRecord
from airflow_provider.agent_platform.policy.outcome import Outcome
from airflow_provider.agent_platform.policy.progress import Progress, Step, Unknown, progress_between
from airflow_provider.agent_platform.policy.rules import FailureRule
from airflow_provider.agent_platform.policy.states import JobState, is_live, state_name

__all__ = ["JobRecord", "Ledger", "LedgerEntry"]

JSON_VERSION = 1
"""Of :meth:`Ledger.to_json`; the UI page reads older ones too."""


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """
    One job with what it means.

    :param outcome: None while the job is live.
    :param reached_step: newest complete step after it: the next job's ``resume_step``, for the last one the
        newest now.
    :param progress: whether it got further.
    :param runs_happened: runs it stands for, whoever made them.
    :param runs_charged: what it takes from the budget.
    :param runs_held: 1 while it would be charged but its progress is not known.
    :param runs_at_stake: what it charges should it turn out that a held job has not advanced.
    :param duplicate: a second job made by a lost reply, cancelled in favour of the older one: never decided
        on.
    :param queued_seconds: from creation to the start, or to its end when it never started.
    :param run_seconds: from its start to its end.
    """

    record: JobRecord
    outcome: Outcome | None
    reached_step: Step
    progress: Progress
    runs_happened: int
    runs_charged: int
    runs_held: int
    runs_at_stake: int = 0
    duplicate: bool = False
    queued_seconds: float = 0.0
    run_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """
        The entry as in the operator's result (XCom).

        A step is a number, None (there is no checkpoint) or "unknown". The keys are read by users' DAGs:
        renaming breaks them.
        """
        kind = self.outcome.kind if self.outcome else None
        return {
            "name": self.record.name,
            "region": self.record.region,
            "state": state_name(self.record.state),
            "kind": kind.value if kind else None,
            "runs": self.runs_happened,
            "charged": self.runs_charged,
            "resumed_from_step": _plain(self.record.resume_step),
            "reached_step": _plain(self.reached_step),
            "queued_seconds": round(self.queued_seconds, 3),
            "run_seconds": round(self.run_seconds, 3),
        }


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The jobs of an epoch, oldest first. Make one with :meth:`of`."""

    entries: tuple[LedgerEntry, ...] = ()

    @classmethod
    def of(
        cls,
        records: Iterable[JobRecord],
        *,
        newest_step: Step,
        rules: Sequence[FailureRule] = (),
        now: pendulum.DateTime | None = None,
    ) -> Ledger:
        """
        Build the ledger of one epoch.

        :param records: the epoch's jobs, in any order.
        :param newest_step: newest complete checkpoint step now; None when there is none, when the task has no
            output directory,
            or with ``resume="never"`` (a job that starts from nothing makes no progress for the next one);
            UNKNOWN_STEP when the storage could not be read.
        :param rules: the task's ``failure_rules``: "requeue" charges nothing, "retry" at least one run.
        :param now: the clock, to count the seconds of live jobs; without it their ``update_time`` is used.
        """
        ordered = sorted(records, key=lambda record: record.order)
        duplicates = _duplicates(ordered)
        kept = [record for record in ordered if record.name not in duplicates]
        # What a job reached is what the next one started from; duplicates started beside a job, not after it.
        following: list[Step] = [*(record.resume_step for record in kept[1:]), newest_step]
        after = {record.name: step for record, step in zip(kept, following, strict=False)}
        entries: list[LedgerEntry] = []
        floor: int | None = None
        for record in ordered:
            duplicate = record.name in duplicates
            reached = record.resume_step if duplicate else after[record.name]
            progress = progress_between(record.resume_step, reached, floor=floor)
            entries.append(_entry(record, reached, progress, duplicate, rules, now))
            floor = max(
                (step for step in (floor, record.resume_step, reached) if isinstance(step, int)), default=None
            )
        return cls(entries=tuple(entries))

    @property
    def jobs(self) -> int:
        """How many jobs were submitted."""
        return len(self.entries)

    @property
    def runs_happened(self) -> int:
        """Runs made, whoever made them."""
        return sum(entry.runs_happened for entry in self.entries)

    @property
    def runs_charged(self) -> int:
        """Runs taken from the budget."""
        return sum(entry.runs_charged for entry in self.entries)

    @property
    def runs_held(self) -> int:
        """Jobs that ended with unknown progress and would be charged without it."""
        return sum(entry.runs_held for entry in self.entries)

    @property
    def runs_at_worst(self) -> int:
        """Runs that would be charged if no job of unknown progress had advanced."""
        return self.runs_charged + sum(entry.runs_at_stake for entry in self.entries)

    @property
    def queued_seconds(self) -> float:
        """Seconds all jobs waited to start."""
        return sum(entry.queued_seconds for entry in self.entries)

    @property
    def run_seconds(self) -> float:
        """Seconds all jobs ran."""
        return sum(entry.run_seconds for entry in self.entries)

    @property
    def last(self) -> LedgerEntry | None:
        """
        The entry to decide on: the newest that succeeded, else the newest that is no duplicate. None when
        there is none.

        A success ends the epoch, so that a job beside it (a duplicate that was not cancelled in time)
        changes nothing.
        """
        done = [entry for entry in self.entries if entry.outcome is not None and entry.outcome.succeeded]
        candidates = done or [entry for entry in self.entries if not entry.duplicate]
        return candidates[-1] if candidates else None

    @property
    def live(self) -> tuple[LedgerEntry, ...]:
        """Entries whose job may still run, oldest first: keep the first, cancel the others."""
        return tuple(entry for entry in self.entries if entry.outcome is None)

    def waited_seconds(self, now: pendulum.DateTime) -> float:
        """
        Seconds spent not running, for ``queue_timeout``: the queues of all jobs, and the pauses after jobs
        that never started.

        The pause after a stockout is a wait for capacity like the queue itself; the delay of an Airflow
        retry is not.
        """
        records = [entry.record for entry in self.entries if not entry.duplicate]
        total = 0.0
        next_start: pendulum.DateTime | None = now
        for record in reversed(records):
            total += record.queued_seconds(now)
            if not record.started and record.end_time is not None and next_start is not None:
                total += max(0.0, (next_start - record.end_time).total_seconds())
            next_start = record.create_time
        return total

    def to_json(self) -> str:
        """The ledger as one compact JSON record, for people and the UI; never read for a decision."""
        jobs = [
            {
                **entry.as_dict(),
                "try": entry.record.try_number,
                "held": entry.runs_held,
                "row": entry.outcome.row if entry.outcome else None,
                "progress": entry.progress.value,
                "duplicate": entry.duplicate,
            }
            for entry in self.entries
        ]
        totals = {"happened": self.runs_happened, "charged": self.runs_charged, "held": self.runs_held}
        return json.dumps({"version": JSON_VERSION, **totals, "jobs": jobs}, separators=(",", ":"))


def _entry(
    record: JobRecord,
    reached: Step,
    progress: Progress,
    duplicate: bool,
    rules: Sequence[FailureRule],
    now: pendulum.DateTime | None,
) -> LedgerEntry:
    # A job that our own reads say is gone has an end, whatever state it was in when it was seen last.
    live = record.ended_by is None and is_live(record.state)
    outcome = None if live else classify(record.evidence(), rules)
    cost = NOTHING if outcome is None else charge(outcome, progress, rules)
    return LedgerEntry(
        record=record,
        outcome=outcome,
        reached_step=reached,
        progress=progress,
        runs_happened=int(record.started) if outcome is None else outcome.runs_happened,
        runs_charged=cost.charged,
        runs_held=cost.held,
        runs_at_stake=cost.at_stake,
        duplicate=duplicate,
        queued_seconds=record.queued_seconds(now),
        run_seconds=record.run_seconds(now),
    )


def _duplicates(ordered: Sequence[JobRecord]) -> frozenset[str]:
    """
    Jobs that were cancelled and began while an older one of the epoch was alive.

    No such two are ever wanted, so the overlap itself shows a lost reply: this holds also after a crash of
    whoever cancelled it.
    """
    kept: list[JobRecord] = []
    duplicates: set[str] = set()
    for record in ordered:
        ended = record.state in (JobState.CANCELLED, JobState.CANCELLING)
        if ended and any(older.alive_at(record.create_time) for older in kept):
            duplicates.add(record.name)
        else:
            kept.append(record)
    return frozenset(duplicates)


def _plain(step: Step) -> int | str | None:
    return step.value if isinstance(step, Unknown) else step
