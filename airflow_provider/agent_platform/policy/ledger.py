"""
All jobs of one task instance in one epoch, oldest first: what ran, how it ended, what it was charged.

Enters: job records as read from the platform, in any order, and the newest complete checkpoint step. Leaves: sums.
*Happened* and *charged* are two columns; *held* is the third, for runs whose progress is not known (yet).
Not here: what follows from the sums (``decide``), and reading records from the platform (``operators``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider.agent_platform.policy.kinds import EndedBy
from airflow_provider.agent_platform.policy.outcome import FailureEvidence, Outcome
from airflow_provider.agent_platform.policy.progress import Progress, Step
from airflow_provider.agent_platform.policy.rules import FailureRule


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """
    One job as the platform shows it now. Times are aware UTC.

    :param name: full resource name.
    :param region: "us-central1".
    :param job_type: "custom_job" or "hyperparameter_tuning_job".
    :param state: number of the API.
    :param error_code: gRPC code of the job's ``error``; None when there is none.
    :param error_message: text of the job's ``error``; None when there is none.
    :param epoch: from the job's labels.
    :param try_number: Airflow try that submitted it, from the job's labels.
    :param resume_step: newest complete step when it was submitted; None: there was none; UNKNOWN_STEP: not known.
    :param strategy: "SPOT", "STANDARD", "FLEX_START", or None for the platform's default.
    :param machine_type: machine type of the first pool.
    :param disable_retries: ``scheduling.disable_retries``.
    :param cancelled_by_us: whether its cancel is known to be our own.
    :param run_index: how many jobs of the epoch came before it.
    :param timeout_seconds: ``scheduling.timeout`` in seconds; None when not known.
    :param ended_by: what the trigger saw beyond the state (its event's type), for the job just waited for. A job that is
        gone from the platform (LOST) is not listed any more: the caller adds its record with ``ended_by=EndedBy.LOST``.
    """

    name: str
    region: str
    job_type: str = "custom_job"
    state: int
    error_code: int | None = None
    error_message: str | None = None
    create_time: pendulum.DateTime | None = None
    start_time: pendulum.DateTime | None = None
    end_time: pendulum.DateTime | None = None
    update_time: pendulum.DateTime | None = None
    epoch: int = 0
    try_number: int = 1
    resume_step: Step = None
    strategy: str | None = None
    machine_type: str | None = None
    disable_retries: bool = False
    cancelled_by_us: bool = False
    run_index: int = 0
    timeout_seconds: float | None = None
    ended_by: EndedBy | None = None

    def evidence(self) -> FailureEvidence:
        """What ``classify`` needs to know about this job."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """
    One job with what it means.

    :param outcome: None while the job is live.
    :param reached_step: newest complete step after it: the next job's ``resume_step``, for the last one the newest now.
    :param progress: whether it got further.
    :param runs_happened: runs it stands for, whoever made them.
    :param runs_charged: what it takes from the budget.
    :param runs_held: 1 while it would be charged but its progress is not known.
    :param duplicate: a second job made by a lost reply, cancelled by us in favour of the older one: never decided on.
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
    duplicate: bool = False
    queued_seconds: float = 0.0
    run_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """The entry as in the operator's result (XCom): name, region, state, kind, runs, charged, resumed_from_step, ..."""
        raise NotImplementedError


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
        :param newest_step: newest complete checkpoint step now; None when there is none, when the task has no output directory,
            or with ``resume="never"`` (a job that starts from nothing makes no progress for the next one); UNKNOWN_STEP when
            the storage could not be read.
        :param rules: the task's ``failure_rules``: "requeue" charges nothing, "retry" at least one run.
        :param now: the clock, to count the seconds of live jobs; without it their ``update_time`` is used.
        """
        raise NotImplementedError

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
    def queued_seconds(self) -> float:
        """Seconds all jobs waited to start."""
        return sum(entry.queued_seconds for entry in self.entries)

    @property
    def run_seconds(self) -> float:
        """Seconds all jobs ran."""
        return sum(entry.run_seconds for entry in self.entries)

    @property
    def last(self) -> LedgerEntry | None:
        """The entry to decide on: the newest that succeeded, else the newest that is no duplicate. None when empty."""
        raise NotImplementedError

    @property
    def live(self) -> tuple[LedgerEntry, ...]:
        """Entries whose job may still run, oldest first: keep the first, cancel the others."""
        raise NotImplementedError

    def waited_seconds(self, now: pendulum.DateTime) -> float:
        """
        Seconds spent not running, for ``queue_timeout``: the queues of all jobs, and the pauses after jobs that never started.

        The pause after a stockout is a wait for capacity like the queue itself; the delay of an Airflow retry is not.
        """
        raise NotImplementedError

    def to_json(self) -> str:
        """The ledger as one compact JSON record, ``{"version": 1, "jobs": [...], ...}``, for people and the UI; never read for a decision."""
        raise NotImplementedError
