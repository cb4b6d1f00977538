"""Which kind an end is. The texts are those of public logs and documents."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.agent_platform.policy.failures import (
    FAILURES,
    EndedBy,
    FailureEvidence,
    FailureKind,
    FailurePhase,
    FailureRule,
    classify,
)
from airflow_provider.agent_platform.policy.outcome import FoundError
from airflow_provider.agent_platform.policy.states import JobState
from tests.policy.builders import (
    INTERNAL,
    LOW_ON_DISK,
    LOW_ON_MEMORY,
    QUOTA,
    STOCKOUT,
    a_refusal,
    an_outcome,
    exited,
)

K = FailureKind
TRACEBACK = "\nTraceback (most recent call last):\n  File 'train.py', line 3\nValueError: no"
START_ERROR = (
    " Termination reason: StartError. \n Termination log message: failed to create containerd task: fa"
)
ACT_AS = "You do not have permission to act as service_account: me@x.iam.gserviceaccount.com. (or it may not exist)."
DENIED = (
    "Permission 'aiplatform.customJobs.create' denied on resource "
    "'//aiplatform.googleapis.com/projects/p/locations/l' (or it may not exist)."
)
BUCKET = (
    "The Cloud Storage bucket of `gs://b/x` is in location `us`. It must be in the same regional location as the "
    "service location `us-central1`."
)
FOUND = "List of found errors:\t1.Field: job_spec.worker_pool_specs[0].machine_spec; Message: Missing.\t"

ENDS: list[tuple[str, K, str]] = [
    (exited(1) + TRACEBACK, K.USER_CODE, "user-code"),
    (exited(1, rest=""), K.USER_CODE, "user-code"),
    (exited(137), K.USER_CODE, "user-code"),
    (exited(255), K.USER_CODE, "user-code"),
    (exited("9(SIGKILL)", "master 0", ""), K.USER_CODE, "user-code"),
    (exited(6), K.CRASH, "crash"),
    (exited(11), K.CRASH, "crash"),
    (exited(134), K.CRASH, "crash"),
    (exited(139), K.CRASH, "crash"),
    (exited("11(SIGSEGV)", "worker 1", ""), K.CRASH, "crash"),
    (exited(126), K.CANNOT_START, "cannot-start"),
    (exited(127), K.CANNOT_START, "cannot-start"),
    (exited(128, rest="."), K.CANNOT_START, "cannot-start"),
    (exited(128, rest=START_ERROR), K.CANNOT_START, "start-error"),
    (exited(1, rest=START_ERROR), K.CANNOT_START, "start-error"),
    (exited(1, rest=" Termination reason: ContainerCannotRun."), K.CANNOT_START, "start-error"),
    (exited(137, rest=" Termination reason: OOMKilled."), K.OUT_OF_MEMORY, "oom-killed"),
    (LOW_ON_MEMORY, K.OUT_OF_MEMORY, "low-on-memory"),
    (LOW_ON_DISK, K.OUT_OF_DISK, "low-on-disk"),
    ("The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
     K.OUT_OF_MEMORY, "ran-out-of-memory"),
    ("The replica master 0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
     K.OUT_OF_MEMORY, "ran-out-of-memory"),
    (INTERNAL, K.INTERNAL, "internal"),
    (STOCKOUT, K.STOCKOUT, "stockout"),
    ("Resources are insufficient in region: us-central1.", K.STOCKOUT, "stockout"),
    ("Resources are insufficient in region: us-central1. Try a different region or use another", K.STOCKOUT, "stockout"),
    (QUOTA, K.QUOTA, "quota"),
    (QUOTA + ", ", K.QUOTA, "quota"),
    (ACT_AS, K.PERMISSION_DENIED, "act-as"),
    (DENIED, K.PERMISSION_DENIED, "permission"),
    (BUCKET, K.INVALID_REQUEST, "bucket-region"),
    (FOUND, K.INVALID_REQUEST, "found-errors"),
    ("Machine type n1-standard-3 is not supported.", K.INVALID_REQUEST, "refused-spec"),
    ('Accelerator "NVIDIA_L4" is not supported for machine type "n1-standard-4"', K.INVALID_REQUEST, "refused-spec"),
    ("EnvVar names must be unique.", K.INVALID_REQUEST, "refused-spec"),
    ("Too many hyperparameter tuning metrics were written by Hyperparameter Tuning Trial #1.",
     K.USER_CODE, "too-many-metrics"),
    ("Something that nobody has seen.", K.UNKNOWN, "unknown"),
    ("", K.UNKNOWN, "no-error"),
    ("  \n", K.UNKNOWN, "no-error"),
]  # fmt: skip


@pytest.mark.parametrize("code", [None, 1, 3, 8, 13, 14])
@pytest.mark.parametrize(("message", "kind", "row"), ENDS)
def test_a_failed_job_is_classified_by_its_text_whatever_the_code(
    message: str, kind: K, row: str, code: int | None
) -> None:
    outcome = an_outcome(message, code=code)

    assert (outcome.kind, outcome.row) == (kind, row)
    assert outcome.code == code
    assert outcome.message == message
    assert outcome.state == JobState.FAILED
    assert outcome.phase is FailurePhase.JOB
    assert not outcome.succeeded


@pytest.mark.parametrize("code", [3, 8, 13])
def test_a_code_alone_says_nothing(code: int) -> None:
    assert an_outcome("A new text.", code=code).kind is K.UNKNOWN


QUOTED = [INTERNAL, STOCKOUT, QUOTA, LOW_ON_MEMORY, LOW_ON_DISK, ACT_AS, DENIED, FOUND, exited(139, "workerpool9-9"),
          "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
          " Termination reason: StartError."]  # fmt: skip


@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize("before", [TRACEBACK + "\n", "\n", " Termination reason: Error. \n"])
def test_a_traceback_that_quotes_the_platform_stays_the_users(quoted: str, before: str) -> None:
    outcome = an_outcome(exited(1, rest="") + before + quoted, strategy="SPOT", ever_started=True)

    assert outcome.kind is K.USER_CODE
    assert outcome.replica == "workerpool0-0"
    assert outcome.exit_code == 1
    assert outcome.quota_metrics == ()
    assert outcome.found_errors == ()
    assert outcome.region is None


@pytest.mark.parametrize("quoted", [exited(1), INTERNAL, LOW_ON_MEMORY])
def test_a_platform_text_inside_another_sentence_is_not_taken_for_it(quoted: str) -> None:
    assert an_outcome(f"We saw: {quoted}").kind is K.UNKNOWN


def test_the_first_failing_replica_decides_and_all_are_named() -> None:
    several = exited(139, "ps 0", " Termination reason: Error. ") + exited(
        1, "ps 1", " Termination reason: Error. "
    )

    outcome = an_outcome(several)

    assert outcome.kind is K.CRASH
    assert outcome.replica == "ps 0"
    assert outcome.replicas == ("ps 0", "ps 1")
    assert outcome.exit_code == 139
    assert outcome.signal == "SIGSEGV"
    assert an_outcome(exited(1, "ps 1", "") + exited(139, "ps 0", "")).kind is K.USER_CODE


def test_what_the_text_names_is_in_the_outcome() -> None:
    outcome = an_outcome(exited("9(SIGKILL)", "master 0", " Termination reason: Error."))

    assert (outcome.exit_code, outcome.signal, outcome.termination_reason) == (9, "SIGKILL", "Error")
    assert an_outcome(exited(1)).signal is None
    assert an_outcome("The replica ps 0 ran out of memory.").signal is None
    assert an_outcome(INTERNAL).exit_code is None
    assert an_outcome(INTERNAL).termination_reason is None
    assert an_outcome(LOW_ON_MEMORY).replica == "workerpool0"
    assert an_outcome(INTERNAL).replica is None
    assert an_outcome(INTERNAL).replicas == ()
    assert an_outcome(STOCKOUT).region == "us-central1"
    assert an_outcome(STOCKOUT, region="europe-west4").region == "europe-west4"
    assert an_outcome(QUOTA).quota_metrics == (
        "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",
    )
    assert an_outcome(FOUND).found_errors == (
        FoundError(field="job_spec.worker_pool_specs[0].machine_spec", message="Missing."),
    )


@pytest.mark.parametrize(
    ("strategy", "started", "kind", "row", "charged"),
    [
        ("SPOT", True, K.PREEMPTED, "preempted", 1),
        ("LOW_COST", True, K.PREEMPTED, "preempted", 1),
        ("SPOT", False, K.STOCKOUT, "stockout", 0),
        ("STANDARD", True, K.STOCKOUT, "stockout-after-start", 1),
        ("STANDARD", False, K.STOCKOUT, "stockout", 0),
        ("FLEX_START", False, K.STOCKOUT, "stockout", 0),
        (None, False, K.STOCKOUT, "stockout", 0),
        (None, True, K.STOCKOUT, "stockout-after-start", 1),
    ],
)
def test_a_spot_job_that_had_started_was_preempted(
    strategy: str | None, started: bool, kind: K, row: str, charged: int
) -> None:
    outcome = an_outcome(STOCKOUT, strategy=strategy, ever_started=started)

    assert (outcome.kind, outcome.row, outcome.runs_charged) == (kind, row, charged)


RUNS = [
    (exited(1), {}, 1, 1),
    (exited(127), {}, 1, 1),
    (exited(134), {}, 4, 4),
    (exited(134), {"disable_retries": True}, 4, 4),
    (INTERNAL, {}, 3, 3),
    (INTERNAL, {"disable_retries": True, "ever_started": True}, 1, 1),
    (INTERNAL, {"disable_retries": True}, 3, 3),
    (INTERNAL, {"ever_started": True}, 3, 3),
    (LOW_ON_MEMORY, {}, 1, 0),
    (LOW_ON_DISK, {}, 1, 0),
    (STOCKOUT, {}, 4, 0),
    (STOCKOUT, {"disable_retries": True}, 4, 0),
    (STOCKOUT, {"strategy": "SPOT", "ever_started": True}, 7, 1),
    (QUOTA, {}, 0, 0),
    (ACT_AS, {}, 0, 0),
    ("New.", {}, 1, 1),
    ("", {"state": JobState.CANCELLED, "ever_started": True}, 1, 0),
    ("", {"state": JobState.CANCELLED}, 0, 0),
    ("", {"state": JobState.CANCELLED, "ended_by": EndedBy.RUN_TIMEOUT}, 1, 1),
    ("", {"state": JobState.CANCELLED, "ended_by": EndedBy.QUEUE_TIMEOUT}, 0, 0),
    ("", {"state": JobState.RUNNING, "ended_by": EndedBy.LOST}, 1, 1),
    ("", {"state": JobState.SUCCEEDED}, 1, 0),
]


@pytest.mark.parametrize(("message", "evidence", "happened", "charged"), RUNS)
def test_an_end_stands_for_the_runs_of_its_row(
    message: str, evidence: dict[str, Any], happened: int, charged: int
) -> None:
    outcome = an_outcome(message, **evidence)

    assert (outcome.runs_happened, outcome.runs_charged) == (happened, charged)


CANCELLED = {"state": JobState.CANCELLED, "code": 1}
STATES: list[tuple[dict[str, Any], K | None, str]] = [
    ({"state": JobState.SUCCEEDED}, None, "succeeded"),
    ({"state": JobState.SUCCEEDED, "message": exited(1)}, None, "succeeded"),
    ({"state": JobState.SUCCEEDED, "ended_by": EndedBy.RUN_TIMEOUT}, None, "succeeded"),
    ({"state": JobState.EXPIRED}, K.UNKNOWN, "expired"),
    ({"state": JobState.EXPIRED, "message": STOCKOUT}, K.STOCKOUT, "stockout"),
    ({"state": JobState.PARTIALLY_SUCCEEDED}, K.UNKNOWN, "partially-succeeded"),
    ({**CANCELLED, "ever_started": True}, K.CANCELLED, "cancelled"),
    (CANCELLED, K.CANCELLED, "cancelled-before-start"),
    ({**CANCELLED, "message": exited(1), "ever_started": True}, K.CANCELLED, "cancelled"),
    ({**CANCELLED, "cancelled_by_us": True}, K.CANCELLED, "cancelled-by-us"),
    ({**CANCELLED, "ended_by": EndedBy.QUEUE_TIMEOUT}, K.QUEUE_TIMEOUT, "queue-timeout"),
    ({**CANCELLED, "ended_by": EndedBy.RUN_TIMEOUT}, K.RUN_TIMEOUT, "run-timeout"),
    ({**CANCELLED, "ended_by": EndedBy.EXECUTION_TIMEOUT}, K.RUN_TIMEOUT, "execution-timeout"),
    ({**CANCELLED, "ended_by": EndedBy.LOST}, K.LOST, "lost"),
    ({"state": JobState.CANCELLING, "ended_by": EndedBy.RUN_TIMEOUT}, K.RUN_TIMEOUT, "run-timeout"),
    ({"state": JobState.RUNNING, "ended_by": EndedBy.LOST}, K.LOST, "lost"),
    ({"state": 42, "ended_by": EndedBy.LOST}, K.LOST, "lost"),
    ({"state": JobState.FAILED, "message": STOCKOUT, "ended_by": EndedBy.QUEUE_TIMEOUT}, K.QUEUE_TIMEOUT, "queue-timeout"),
    ({"state": JobState.FAILED, "message": exited(1), "ended_by": EndedBy.RUN_TIMEOUT}, K.USER_CODE, "user-code"),
    ({**CANCELLED, "run_seconds": 3600.0, "timeout_seconds": 3600.0}, K.RUN_TIMEOUT, "scheduling-timeout"),
    ({**CANCELLED, "run_seconds": 3599.0, "timeout_seconds": 3600.0, "ever_started": True}, K.CANCELLED, "cancelled"),
    ({**CANCELLED, "run_seconds": 3600.0, "timeout_seconds": None, "ever_started": True}, K.CANCELLED, "cancelled"),
    ({**CANCELLED, "run_seconds": 0.0, "timeout_seconds": 0.0, "ever_started": True}, K.CANCELLED, "cancelled"),
    ({**CANCELLED, "run_seconds": None, "timeout_seconds": 5.0}, K.CANCELLED, "cancelled-before-start"),
    ({"state": JobState.FAILED, "run_seconds": 9.0, "timeout_seconds": 5.0}, K.RUN_TIMEOUT, "scheduling-timeout"),
    ({"state": JobState.FAILED, "run_seconds": 9.0, "timeout_seconds": 5.0, "message": exited(1)},
     K.USER_CODE, "user-code"),
    ({**CANCELLED, "message": "The job ran longer than its timeout of 5 seconds."}, K.RUN_TIMEOUT, "timeout-text"),
    ({**CANCELLED, "message": "Job timed out."}, K.RUN_TIMEOUT, "timeout-text"),
    ({**CANCELLED, "message": "Cancelled by a user.\nNot a timeout."}, K.CANCELLED, "cancelled-before-start"),
]  # fmt: skip


@pytest.mark.parametrize(("evidence", "kind", "row"), STATES)
def test_states_and_our_own_clocks_are_evidence_too(
    evidence: dict[str, Any], kind: K | None, row: str
) -> None:
    outcome = classify(FailureEvidence(**evidence))

    assert (outcome.kind, outcome.row) == (kind, row)
    assert outcome.succeeded is (kind is None)


@pytest.mark.parametrize("state", [0, 1, 2, 3, 6, 8, 10, 42])
def test_a_live_job_has_no_outcome(state: int) -> None:
    with pytest.raises(ValueError, match=r"^a job in JOB_STATE_\w+ has not ended, so it has no outcome; read it again until it has$"):  # fmt: skip
        classify(FailureEvidence(state=state))


REFUSALS: list[tuple[int | None, str, K, str]] = [
    (8, QUOTA, K.QUOTA, "quota-at-submit"),
    (8, "429 " + QUOTA, K.QUOTA, "quota-at-submit"),
    (None, QUOTA, K.QUOTA, "quota-at-submit"),
    (8, "Quota exceeded for aiplatform.googleapis.com/create_requests per minute", K.QUOTA, "rate-limit"),
    (3, ACT_AS, K.PERMISSION_DENIED, "act-as"),
    (
        3,
        "List of found errors:\t1.Field: job_spec.service_account; Message: " + ACT_AS,
        K.PERMISSION_DENIED,
        "act-as",
    ),
    (3, "400 " + FOUND, K.INVALID_REQUEST, "found-errors"),
    (7, DENIED, K.PERMISSION_DENIED, "permission"),
    (7, "Vertex AI API has not been used in project", K.PERMISSION_DENIED, "denied-at-submit"),
    (16, "Request had invalid authentication credentials.", K.PERMISSION_DENIED, "denied-at-submit"),
    (9, BUCKET, K.INVALID_REQUEST, "bucket-region"),
    (9, "Not now.", K.INVALID_REQUEST, "invalid-at-submit"),
    (3, "Bad.", K.INVALID_REQUEST, "invalid-at-submit"),
    (5, "Not found.", K.INVALID_REQUEST, "invalid-at-submit"),
    (11, "Out of range.", K.INVALID_REQUEST, "invalid-at-submit"),
    (12, "Unimplemented.", K.INVALID_REQUEST, "invalid-at-submit"),
    (8, STOCKOUT, K.STOCKOUT, "stockout-at-submit"),
    (14, "The service is currently unavailable.", K.UNKNOWN, "unknown-at-submit"),
    (13, "Internal error encountered.", K.UNKNOWN, "unknown-at-submit"),
    (None, "", K.UNKNOWN, "unknown-at-submit"),
    (4, "", K.UNKNOWN, "unknown-at-submit"),
]


@pytest.mark.parametrize(("code", "message", "kind", "row"), REFUSALS)
def test_a_refused_submit_is_classified_and_charges_nothing(
    code: int | None, message: str, kind: K, row: str
) -> None:
    outcome = a_refusal(message, code)

    assert (outcome.kind, outcome.row) == (kind, row)
    assert (outcome.runs_happened, outcome.runs_charged) == (0, 0)
    assert outcome.phase is FailurePhase.SUBMIT


def test_the_hint_for_a_missing_act_as_names_it() -> None:
    assert "iam.serviceAccounts.actAs" in a_refusal(ACT_AS, 3).hint
    assert "bucket" in a_refusal(BUCKET, 9).hint


@pytest.mark.parametrize(
    ("code", "kind", "row"),
    [(5, K.LOST, "gone"), (7, K.PERMISSION_DENIED, "denied-at-poll"), (16, K.PERMISSION_DENIED, "denied-at-poll"),
     (14, K.UNKNOWN, "unknown-at-poll"), (13, K.UNKNOWN, "unknown-at-poll"), (8, K.UNKNOWN, "unknown-at-poll"),
     (None, K.UNKNOWN, "unknown-at-poll")],
)  # fmt: skip
def test_a_failed_read_says_nothing_about_the_job_save_that_it_is_gone(
    code: int | None, kind: K, row: str
) -> None:
    outcome = classify(
        FailureEvidence(state=JobState.RUNNING, code=code, message=INTERNAL, phase=FailurePhase.POLL)
    )

    assert (outcome.kind, outcome.row) == (kind, row)


def test_a_users_rule_never_changes_the_name_of_an_end() -> None:
    evidence = FailureEvidence(state=JobState.FAILED, message=exited(1))

    assert classify(evidence, [FailureRule(exit_codes=[1], action="requeue")]) == classify(evidence)


def test_every_row_of_the_table_is_reached_by_a_test() -> None:
    reached = {row for _, _, row in ENDS} | {row for _, _, row in STATES} | {row for *_, row in REFUSALS}
    reached |= {"preempted", "stockout-after-start", "gone", "denied-at-poll", "unknown-at-poll"}

    assert {row.id for row in FAILURES} == reached


def test_the_ids_of_the_rows_are_unique_and_every_row_has_a_source() -> None:
    ids = [row.id for row in FAILURES]

    assert len(set(ids)) == len(ids)
    assert all(row.source for row in FAILURES)
    assert all(row.hint or row.kind is None for row in FAILURES)
    assert {row.kind for row in FAILURES} == {None, *FailureKind}


def test_no_row_of_an_ended_job_rests_on_a_code_alone() -> None:
    assert [row.id for row in FAILURES if row.codes and FailurePhase.JOB in row.phases] == []


def test_a_row_never_charges_more_than_happened() -> None:
    assert all(row.charged <= row.runs for row in FAILURES)
