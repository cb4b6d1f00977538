"""
One job as the platform shows it: :class:`JobRecord`.

Enters: plain values, read from a resource of the API by the caller. Leaves: the evidence for ``classify``,
and durations. Not here: what the job costs (``ledger``).
"""

from __future__ import annotations

from dataclasses import dataclass

import pendulum

from airflow_provider.agent_platform.policy.kinds import EndedBy
from airflow_provider.agent_platform.policy.outcome import FailureEvidence
from airflow_provider.agent_platform.policy.progress import Step
from airflow_provider.agent_platform.policy.states import is_live


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
    :param max_tries: ``ti.max_tries`` when it was submitted, the same for all tries of an epoch; None: not told.
    :param resume_step: newest complete step when it was submitted; None: there was none; UNKNOWN_STEP: not
        known.
    :param strategy: "SPOT", "STANDARD", "FLEX_START", or None for the platform's default.
    :param machine_type: machine type of the first pool.
    :param disable_retries: ``scheduling.disable_retries``.
    :param cancelled_by_us: whether its cancel is known to be our own.
    :param run_index: how many jobs of the epoch came before it.
    :param timeout_seconds: ``scheduling.timeout`` in seconds, of each trial for a tuning job; None when not
        known.
    :param ended_by: what the trigger saw beyond the state (its event's type), for the job just waited for. A
        job that is gone from the platform (LOST) is not listed any more: the caller adds its record with
        ``ended_by=EndedBy.LOST``.
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
    max_tries: int | None = None
    resume_step: Step = None
    strategy: str | None = None
    machine_type: str | None = None
    disable_retries: bool = False
    cancelled_by_us: bool = False
    run_index: int = 0
    timeout_seconds: float | None = None
    ended_by: EndedBy | None = None

    @property
    def started(self) -> bool:
        """Whether it was RUNNING once, that is, all its workers were available."""
        return self.start_time is not None

    @property
    def order(self) -> tuple[bool, float, int, str]:
        """Sort key, oldest first. A job without a creation time was made just now."""
        created = self.create_time.timestamp() if self.create_time else 0.0
        return self.create_time is None, created, self.run_index, self.name

    def alive_at(self, time: pendulum.DateTime | None) -> bool:
        """Whether this job existed and had not ended at a time. Not known is no."""
        if time is None or self.create_time is None or time < self.create_time:
            return False
        if is_live(self.state):
            return True
        return self.end_time is not None and time < self.end_time

    def queued_seconds(self, now: pendulum.DateTime | None = None) -> float:
        """
        Seconds from its creation to its start, or to its end when it never started.

        :param now: the clock, for a job that still waits; without it the job's ``update_time``.
        """
        return _between(self.create_time, self.start_time or self._until(now))

    def run_seconds(self, now: pendulum.DateTime | None = None) -> float:
        """
        Seconds from its start to its end; 0 when it never started.

        :param now: the clock, for a job that still runs; without it the job's ``update_time``.
        """
        return _between(self.start_time, self._until(now))

    def evidence(self) -> FailureEvidence:
        """What ``classify`` needs to know about this job."""
        return FailureEvidence(
            state=self.state,
            code=self.error_code,
            message=self.error_message or "",
            strategy=self.strategy,
            ever_started=self.started,
            region=self.region,
            disable_retries=self.disable_retries,
            cancelled_by_us=self.cancelled_by_us,
            ended_by=self.ended_by,
            run_seconds=self.run_seconds() if self.start_time and self.end_time else None,
            # A tuning job's is the limit of each trial, and it runs for longer than one of them.
            timeout_seconds=self.timeout_seconds if self.job_type == "custom_job" else None,
        )

    def _until(self, now: pendulum.DateTime | None) -> pendulum.DateTime | None:
        if self.end_time is not None:
            return self.end_time
        if now is not None and is_live(self.state):
            return now
        return self.update_time


def _between(start: pendulum.DateTime | None, end: pendulum.DateTime | None) -> float:
    if start is None or end is None:
        return 0.0
    # The service's own times may be a little out of order.
    return max(0.0, (end - start).total_seconds())
