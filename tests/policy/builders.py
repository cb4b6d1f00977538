"""Jobs, ends and ledgers for the policy's tests. In: what a test cares about. Out: records with the rest filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pendulum

from airflow_provider.agent_platform.policy.decide import Budget, Decision, Progress, decide
from airflow_provider.agent_platform.policy.failures import FailureEvidence, FailurePhase, Outcome, classify
from airflow_provider.agent_platform.policy.job import JobRecord
from airflow_provider.agent_platform.policy.kinds import EndedBy, FailureKind
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.placement import PlacementOptions
from airflow_provider.agent_platform.policy.progress import Step
from airflow_provider.agent_platform.policy.rules import FailureRule
from airflow_provider.agent_platform.policy.states import JobState

T0 = pendulum.datetime(2026, 3, 1)
LOW_ON_MEMORY = "Replicas low on memory: workerpool0. Specify a machine with larger memory and try again."
LOW_ON_DISK = "Replicas low on disk: workerpool0. Specify a larger bootDiskSizeGb https://x and try again."
INTERNAL = "Internal error occurred for the current attempt."
STOCKOUT = "Resources are insufficient in region: us-central1. Please try a different region or use a different accelerator."
QUOTA = "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"


def exited(
    status: int | str, replica: str = "workerpool0-0", rest: str = " Termination reason: Error. \n"
) -> str:
    """The platform's sentence about a failed replica."""
    return f"The replica {replica} exited with a non-zero status of {status}.{rest}"


def a_job(index: int = 0, **changes: Any) -> JobRecord:
    """A job that failed with exit 1: made `index` hours after T0, queued for 10 minutes, ran for 20."""
    created = T0.add(hours=index)
    base = JobRecord(
        name=f"projects/1/locations/us-central1/customJobs/{index}",
        region="us-central1",
        state=JobState.FAILED,
        error_code=3,
        error_message=exited(1),
        create_time=created,
        start_time=created.add(minutes=10),
        end_time=created.add(minutes=30),
        run_index=index,
    )
    return replace(base, **changes)


_KINDS: dict[FailureKind, dict[str, Any]] = {
    FailureKind.USER_CODE: {"error_code": 3, "error_message": exited(1)},
    FailureKind.CRASH: {"error_code": 3, "error_message": exited(139)},
    FailureKind.CANNOT_START: {"error_code": 3, "error_message": exited(127)},
    FailureKind.OUT_OF_MEMORY: {"error_code": 8, "error_message": LOW_ON_MEMORY},
    FailureKind.OUT_OF_DISK: {"error_code": 8, "error_message": LOW_ON_DISK},
    FailureKind.STOCKOUT: {"error_code": 8, "error_message": STOCKOUT, "start_time": None},
    FailureKind.PREEMPTED: {"error_code": 8, "error_message": STOCKOUT, "strategy": "SPOT"},
    FailureKind.QUOTA: {"error_code": 8, "error_message": QUOTA, "start_time": None},
    FailureKind.INTERNAL: {"error_code": 13, "error_message": INTERNAL},
    FailureKind.INVALID_REQUEST: {
        "error_code": 3,
        "error_message": "List of found errors:\t1.Field: a; Message: b.",
    },
    FailureKind.PERMISSION_DENIED: {"error_code": 7, "error_message": "Permission 'a.b' denied on resource"},
    FailureKind.CANCELLED: {"state": JobState.CANCELLED, "error_code": 1, "error_message": None},
    FailureKind.RUN_TIMEOUT: {
        "state": JobState.CANCELLED,
        "error_message": None,
        "ended_by": EndedBy.RUN_TIMEOUT,
    },
    FailureKind.QUEUE_TIMEOUT: {
        "state": JobState.CANCELLED,
        "error_message": None,
        "start_time": None,
        "ended_by": EndedBy.QUEUE_TIMEOUT,
    },
    FailureKind.LOST: {"state": JobState.RUNNING, "error_message": None, "ended_by": EndedBy.LOST},
    FailureKind.UNKNOWN: {"error_code": 2, "error_message": "Something new."},
}


def a_job_of(kind: FailureKind, index: int = 0, **changes: Any) -> JobRecord:
    """A job that ended with a kind."""
    return a_job(index, **{**_KINDS[kind], **changes})


def a_success(index: int = 0, **changes: Any) -> JobRecord:
    """A job that succeeded."""
    return a_job(index, **{"state": JobState.SUCCEEDED, "error_code": None, "error_message": None, **changes})


def a_live_job(index: int = 0, **changes: Any) -> JobRecord:
    """A job that runs."""
    live = {"state": JobState.RUNNING, "error_code": None, "error_message": None, "end_time": None}
    return a_job(index, **{**live, **changes})


def a_ledger(*records: JobRecord, newest: Step = None, rules: Sequence[FailureRule] = ()) -> Ledger:
    """The ledger of some jobs."""
    return Ledger.of(records, newest_step=newest, rules=rules)


def an_outcome(message: str = "", **changes: Any) -> Outcome:
    """What a text is classified as; of a FAILED job unless said otherwise."""
    return classify(FailureEvidence(**{"state": JobState.FAILED, "message": message, **changes}))


def a_refusal(message: str, code: int | None, **changes: Any) -> Outcome:
    """What a refused submit is classified as."""
    return an_outcome(message, state=JobState.UNSPECIFIED, code=code, phase=FailurePhase.SUBMIT, **changes)


def decided(
    *records: JobRecord,
    retries: int = 0,
    newest: Step = None,
    rules: Sequence[FailureRule] = (),
    budget: Budget | None = None,
    now: pendulum.DateTime | None = None,
    outcome: Outcome | None = None,
    regions: Sequence[str] = ("us-central1",),
    machine_types: Sequence[str] = (),
    progress: Progress | None = None,
    **more: Any,
) -> Decision:
    """Decide on the last of some jobs, an hour after it was made."""
    ledger = a_ledger(*records, newest=newest, rules=rules)
    last = ledger.last
    ended = outcome or (last.outcome if last else None)
    assert ended is not None
    return decide(
        ledger,
        ended,
        progress or (last.progress if last else Progress.NOT_ADVANCED),
        rules,
        budget or Budget(retries=retries),
        now or T0.add(hours=len(records)),
        options=PlacementOptions(regions=tuple(regions), machine_types=tuple(machine_types)),
        **more,
    )
