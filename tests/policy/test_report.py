"""What a person reads."""

from __future__ import annotations

import pendulum

from airflow_provider.agent_platform.policy.decide import Refusals
from airflow_provider.agent_platform.policy.decision import Decision
from airflow_provider.agent_platform.policy.failures import FailureKind
from airflow_provider.agent_platform.policy.outcome import Outcome
from airflow_provider.agent_platform.policy.report import decision_line, evidence_of, failure_message
from tests.policy.builders import (
    INTERNAL,
    LOW_ON_MEMORY,
    QUOTA,
    STOCKOUT,
    T0,
    a_job,
    a_job_of,
    a_ledger,
    a_refusal,
    a_success,
    an_outcome,
    decided,
    exited,
)

NAME = "projects/1/locations/us-central1/customJobs/0"
K = FailureKind


def outcome_of(job: object) -> Outcome:
    last = a_ledger(job).last  # type: ignore[arg-type]
    assert last is not None
    assert last.outcome is not None
    return last.outcome


def test_a_decision_is_one_line_with_all_its_numbers() -> None:
    job = a_job(error_message=exited(139, rest=' Termination reason: Error. \nTraceback\n "quoted"'))

    assert decision_line(outcome_of(job), decided(job, retries=3), job_name=NAME) == (
        'Decision: kind=CRASH next=FAIL when=now reason="the platform already ran this 4 times, and retries=3 buys 4 '
        'runs" evidence="workerpool0-0 exited with 139 = segmentation fault (SIGSEGV)" runs_happened=4 runs_charged=4 '
        f"budget_left=0 row=crash job={NAME}"
    )


def test_a_decision_to_wait_says_until_when_in_utc() -> None:
    job = a_job_of(K.STOCKOUT)
    decision = decided(
        job, regions=["us-central1", "us-west1"], now=T0.in_timezone("Europe/Zurich").add(hours=1)
    )

    line = decision_line(outcome_of(job), decision, job_name=NAME)
    assert decision.at is not None
    assert decision.at.timezone_name == "Europe/Zurich"
    assert " next=REQUEUE when=2026-03-01T01:00:00Z reason=" in line
    assert "\n" not in line


def test_a_refused_submit_has_no_job_in_its_line() -> None:
    refused = a_refusal(QUOTA, 8)
    decision = decided(outcome=refused, refusals=Refusals(count=1, since=T0), now=T0)

    line = decision_line(refused, decision)
    assert line.startswith("Decision: kind=QUOTA next=")
    assert line.endswith(" row=quota-at-submit job=none")


def test_a_success_has_no_kind_in_its_line() -> None:
    job = a_success()

    line = decision_line(outcome_of(job), decided(job), job_name=NAME)
    assert line.startswith("Decision: kind=none next=SUCCEED ")
    assert " row=succeeded " in line


def test_quotes_and_line_breaks_cannot_break_the_line() -> None:
    outcome = an_outcome('A "new"\ttext')
    line = decision_line(outcome, decided(a_job_of(K.UNKNOWN), retries=1))

    assert "evidence=\"A 'new' text\"" in line


# --- evidence --------------------------------------------------------------------------------------------------


def test_the_evidence_is_the_replica_and_its_exit_code() -> None:
    assert evidence_of(an_outcome(exited(1))) == "workerpool0-0 exited with 1 = general error"
    assert evidence_of(an_outcome(exited("9(SIGKILL)", "master 0"))) == (
        "master 0 exited with 9 = killed, often for its use of memory (SIGKILL)"
    )
    assert evidence_of(an_outcome(exited(128, rest=" Termination reason: StartError."))) == (
        "workerpool0-0 exited with 128 = the container could not be started, termination reason StartError"
    )


def test_else_it_is_the_first_line_of_the_text() -> None:
    assert evidence_of(an_outcome("\nOne.\nTwo.")) == "One."
    assert evidence_of(an_outcome(LOW_ON_MEMORY)) == LOW_ON_MEMORY


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = "a" * 500 + "z" * 500
    short = evidence_of(an_outcome(text))

    assert short == "a" * 76 + " [...] " + "z" * 76
    assert evidence_of(an_outcome("a" * 160)) == "a" * 160
    assert len(evidence_of(an_outcome("a" * 161))) == 159


def test_else_it_is_the_state() -> None:
    assert evidence_of(an_outcome("")) == "JOB_STATE_FAILED without an error text (no-error)"


# --- the message -----------------------------------------------------------------------------------------------


def test_the_message_of_a_crash_tells_all_that_a_person_on_call_needs() -> None:
    text = exited(139, "workerpool1-1", " Termination reason: Error. ") + exited(1, "workerpool1-0", "")
    job = a_job(error_message=text, error_code=3)

    message = failure_message(
        outcome_of(job),
        decided(job, retries=3),
        job_name=NAME,
        console_url="https://console.cloud.google.com/x",
        log_tail=["loading", "Segmentation fault (core dumped)"],
    )

    assert message == (
        "CRASH: workerpool1-1 exited with 139 = segmentation fault (SIGSEGV)\n"
        "Decision: FAIL - the platform already ran this 4 times, and retries=3 buys 4 runs.\n"
        "All that failed: workerpool1-1, workerpool1-0\n"
        "So far: 4 runs happened at most, 4 charged, 0 left\n"
        "Next: nothing: the task fails now, without a retry\n"
        "What to do: A crash in native code: look for a library mismatch (CUDA, NCCL) or too little memory.\n"
        f"Job: {NAME} in us-central1\n"
        "Console: https://console.cloud.google.com/x\n"
        "The platform's text (code 3):\n"
        f"    {text}\n"
        "Last lines of the log of workerpool1-1:\n"
        "    loading\n"
        "    Segmentation fault (core dumped)"
    )


def test_the_message_of_a_retry_says_when_and_where() -> None:
    job = a_job_of(K.INTERNAL, error_code=None)
    own = pendulum.duration(seconds=90)

    message = failure_message(outcome_of(job), decided(job, retries=9, retry_delay=own), log_tail=["one"])

    assert message == (
        f"INTERNAL: {INTERNAL}\n"
        "Decision: RETRY - the platform had an internal error: an Airflow retry in 1 min 30 s.\n"
        "So far: 3 runs happened at most, 3 charged, 7 left\n"
        "Next: a new job in the next Airflow try, after 1 min 30 s (at 2026-03-01T01:01:30Z) in us-central1\n"
        "What to do: As a rule not the training code's fault; a wrong image URI has been seen to end so too.\n"
        "The platform's text:\n"
        f"    {INTERNAL}\n"
        "Last lines of the log of the job:\n"
        "    one"
    )


def test_a_message_without_a_placement_names_no_region() -> None:
    decision = Decision(
        action=decided(a_job_of(K.STOCKOUT)).action,
        kind=K.STOCKOUT,
        reason="r",
        delay=pendulum.duration(seconds=5),
        at=T0,
    )

    assert "Next: a new job inside this try, after 5 s (at 2026-03-01T00:00:00Z)\n" in failure_message(
        an_outcome(STOCKOUT), decision
    )


def test_the_message_of_a_refused_spec_names_the_fields() -> None:
    refused = a_refusal("List of found errors:\t1.Field: a.b; Message: No.\t2.Field: c; Message: Nor.\t", 3)
    message = failure_message(refused, decided(outcome=refused, refusals=Refusals(count=1, since=T0), now=T0))

    assert "\nField a.b: No.\nField c: Nor.\n" in message
    assert "Job:" not in message
    assert "Console:" not in message
    assert "Last lines" not in message
    assert "All that failed" not in message
    assert "Quota:" not in message


def test_the_message_of_a_quota_names_the_metrics() -> None:
    refused = a_refusal(QUOTA + ", x.com/y", 8)
    message = failure_message(refused, decided(outcome=refused, refusals=Refusals(count=1, since=T0), now=T0))

    assert "\nQuota: aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus, x.com/y\n" in message


def test_the_kind_is_the_decisions_where_it_differs() -> None:
    decision = Decision(action=decided(a_job_of(K.USER_CODE)).action, kind=K.QUEUE_TIMEOUT, reason="r")

    assert failure_message(an_outcome(STOCKOUT), decision).startswith("QUEUE_TIMEOUT: Resources are")


def test_a_success_can_be_told_too() -> None:
    job = a_success()
    message = failure_message(outcome_of(job), decided(job))

    assert message == (
        "SUCCEEDED: JOB_STATE_SUCCEEDED without an error text (succeeded)\n"
        "Decision: SUCCEED - the job succeeded.\n"
        "So far: 1 run happened at most, 0 charged, 1 left\n"
        "Next: nothing: the job succeeded"
    )


def test_a_single_replica_is_not_listed() -> None:
    assert "All that failed" not in failure_message(an_outcome(exited(1)), decided(a_job()))


def test_a_job_without_a_region_is_named_alone() -> None:
    assert f"\nJob: {NAME}\n" in failure_message(an_outcome("x"), decided(a_job_of(K.UNKNOWN)), job_name=NAME)


def test_a_long_traceback_keeps_its_last_line() -> None:
    text = exited(1) + "\n".join(f"  line {number}" for number in range(1000)) + "\nValueError: the end"
    message = failure_message(an_outcome(text), decided(a_job()))

    assert len(message) < 3200
    assert "    ValueError: the end" in message
    assert " [...] " in message
    assert "    The replica workerpool0-0 exited" in message


def test_a_blank_text_is_left_out() -> None:
    assert "The platform's text" not in failure_message(an_outcome("  \n"), decided(a_job()))
