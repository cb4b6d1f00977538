"""
What a failure that never goes away costs: the number of jobs and runs, with plain Airflow retries and with
this policy.

Enters: a kind and ``retries``. Leaves: counts, made by playing ``decide`` against a platform that always
ends a job alike, with no progress. For docs/failures.md and the tests. Not here: any promise about a real
job, which may well succeed the second time.
"""

from __future__ import annotations

from dataclasses import dataclass

import pendulum

from airflow_provider.agent_platform.policy.decide import (
    NO_REFUSALS,
    Action,
    Budget,
    Refusals,
    decide,
    platform_retries,
)
from airflow_provider.agent_platform.policy.failures import classify
from airflow_provider.agent_platform.policy.job import JobRecord
from airflow_provider.agent_platform.policy.kinds import EndedBy, FailureKind, FailurePhase
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.outcome import FailureEvidence
from airflow_provider.agent_platform.policy.progress import Progress
from airflow_provider.agent_platform.policy.states import JobState

_ENOUGH_JOBS = 10
"""How many jobs more than its runs a kind must get until it counts as a wait; the real ceiling only takes longer."""

_START = pendulum.datetime(2026, 1, 1)
_INSUFFICIENT = "Resources are insufficient in region: us-central1. Please try a different region."


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One typical end of a kind: what the platform would say."""

    kind: FailureKind
    state: JobState = JobState.FAILED
    code: int | None = None
    message: str = ""
    strategy: str | None = None
    started: bool = True
    ended_by: EndedBy | None = None
    phase: FailurePhase = FailurePhase.JOB


def _exited(status: int) -> str:
    return f"The replica workerpool0-0 exited with a non-zero status of {status}. Termination reason: Error."


SAMPLES: tuple[Sample, ...] = (
    Sample(kind=FailureKind.USER_CODE, code=3, message=_exited(1)),
    Sample(kind=FailureKind.CRASH, code=3, message=_exited(139)),
    Sample(kind=FailureKind.CANNOT_START, code=3, message=_exited(127)),
    Sample(
        kind=FailureKind.OUT_OF_MEMORY,
        code=8,
        message="Replicas low on memory: workerpool0. Specify a machine with larger memory and try again.",
    ),
    Sample(
        kind=FailureKind.OUT_OF_DISK, code=8, message="Replicas low on disk: workerpool0. Specify a larger"
    ),
    Sample(kind=FailureKind.STOCKOUT, code=8, message=_INSUFFICIENT, started=False),
    Sample(kind=FailureKind.PREEMPTED, code=8, message=_INSUFFICIENT, strategy="SPOT"),
    Sample(
        kind=FailureKind.QUOTA,
        code=8,
        message="The following quota metrics exceed quota limits: "
        "aiplatform.googleapis.com/custom_model_training_cpus",
        started=False,
    ),
    Sample(kind=FailureKind.INTERNAL, code=13, message="Internal error occurred for the current attempt."),
    Sample(
        kind=FailureKind.INVALID_REQUEST,
        code=3,
        message="List of found errors:\t1.Field: job_spec; Message: bad.",
        phase=FailurePhase.SUBMIT,
    ),
    Sample(
        kind=FailureKind.PERMISSION_DENIED,
        code=7,
        message="Permission 'aiplatform.customJobs.create' denied on resource",
        phase=FailurePhase.SUBMIT,
    ),
    Sample(kind=FailureKind.CANCELLED, state=JobState.CANCELLED, code=1),
    Sample(kind=FailureKind.RUN_TIMEOUT, state=JobState.CANCELLED, code=1, ended_by=EndedBy.RUN_TIMEOUT),
    Sample(
        kind=FailureKind.QUEUE_TIMEOUT,
        state=JobState.CANCELLED,
        code=1,
        started=False,
        ended_by=EndedBy.QUEUE_TIMEOUT,
    ),
    Sample(kind=FailureKind.LOST, state=JobState.RUNNING, ended_by=EndedBy.LOST),
    Sample(kind=FailureKind.UNKNOWN, code=2, message="Something that nobody has seen yet."),
)
"""One end per kind, in the order of the kinds."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """
    What it comes to when every job ends alike.

    :param jobs: jobs submitted (for a refused submit: create calls).
    :param runs: runs of the whole job, at most; for STOCKOUT attempts to get machines.
    :param tries: Airflow tries used.
    :param waits: whether it is a wait that ``queue_timeout`` or ``max_jobs`` ends.
    """

    jobs: int
    runs: int
    tries: int
    waits: bool = False


def record_of(sample: Sample, index: int, *, disable_retries: bool = False) -> JobRecord:
    """The sample as the ``index``-th job of an epoch, an hour after the one before."""
    created = _START.add(hours=index)
    return JobRecord(
        name=f"projects/1/locations/us-central1/customJobs/{index}",
        region="us-central1",
        state=sample.state,
        error_code=sample.code,
        error_message=sample.message or None,
        create_time=created,
        start_time=created.add(minutes=5) if sample.started else None,
        end_time=created.add(minutes=30),
        strategy=sample.strategy,
        disable_retries=disable_retries,
        run_index=index,
        ended_by=sample.ended_by,
    )


def plain(sample: Sample, retries: int) -> Forecast:
    """With Airflow's own retries: every end is a failed try, until there is none left."""
    tries = retries + 1
    runs = _outcome_runs(sample)
    return Forecast(jobs=tries, runs=tries * runs, tries=tries)


def ours(sample: Sample, retries: int) -> Forecast:
    """With this policy, by playing it."""
    budget = Budget(retries=retries, max_jobs=retries + _ENOUGH_JOBS)
    records: list[JobRecord] = []
    calls, tries = 0, 1
    while True:
        calls += 1
        refusals = NO_REFUSALS
        ledger = Ledger.of(records, newest_step=None)
        if sample.phase is FailurePhase.SUBMIT:
            refusals = Refusals(count=calls)
            outcome = classify(_refusal(sample))
        else:
            off = not platform_retries(ledger, budget)
            records.append(record_of(sample, len(records), disable_retries=off))
            ledger = Ledger.of(records, newest_step=None)
            outcome = classify(records[-1].evidence())
        now = _START.add(hours=calls)
        decision = decide(ledger, outcome, Progress.NOT_ADVANCED, (), budget, now, refusals=refusals)
        if not decision.submits:
            break
        tries += decision.action is Action.RETRY
    return Forecast(jobs=calls, runs=ledger.runs_happened, tries=tries, waits=calls >= budget.max_jobs)


def _refusal(sample: Sample) -> FailureEvidence:
    return FailureEvidence(
        state=JobState.UNSPECIFIED, code=sample.code, message=sample.message, phase=sample.phase
    )


def _outcome_runs(sample: Sample) -> int:
    evidence = _refusal(sample) if sample.phase is FailurePhase.SUBMIT else record_of(sample, 0).evidence()
    return classify(evidence).runs_happened
