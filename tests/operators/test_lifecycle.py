"""The lifecycle: one job, whatever crashes; each test is a story of starts, resumes and what the platform did."""

from __future__ import annotations

from typing import Any

import pendulum
import pytest
from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from airflow_provider.agent_platform.exceptions import (
    CancelledError,
    CrashError,
    JobLostError,
    PreemptedError,
    TrainingJobError,
    UserCodeError,
)
from airflow_provider.agent_platform.operators.steps import Done, Step, WaitForJob, WaitUntil
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from tests.operators.setting import Setting, environment_of

EXIT_1 = "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error."
CRASHED = "The replica workerpool0-0 exited with a non-zero status of 139."
NO_CAPACITY = "Resources are insufficient in region: us-central1. Please try a different region or use a different accelerator."


def first_job(setting: Setting) -> str:
    step = setting.start()
    assert isinstance(step, WaitForJob)
    return step.record.name


def until_a_job_is_waited_for(setting: Setting, name: str) -> Step:
    step = setting.resume(name)
    while isinstance(step, WaitUntil):
        setting.platform.time.moment = step.moment
        step = setting.wait_over(step.carried)
    return step


def test_the_first_start_submits_one_job_that_says_whose_it_is() -> None:
    setting = Setting()
    name = first_job(setting)
    assert setting.platform.creates == [name]
    labels = dict(setting.platform.last.labels)
    assert labels["airflow-epoch"] == "0"
    assert labels["airflow-try"] == "1"
    assert labels["airflow-managed"] == "true"
    assert environment_of(setting.platform.last) == {"AIRFLOW_RUN_INDEX": "0"}


def test_a_second_start_adopts_the_live_job() -> None:
    setting = Setting()
    name = first_job(setting)
    step = setting.next_try().start()
    assert isinstance(step, WaitForJob)
    assert step.record.name == name
    assert setting.platform.creates == [name]


def test_a_job_that_succeeded_while_nobody_looked_is_simply_read() -> None:
    setting = Setting()
    name = first_job(setting)
    setting.platform.end(name, "SUCCEEDED")
    step = setting.next_try().start()
    assert isinstance(step, Done)
    assert step.result["name"] == name
    assert step.result["state"] == "JOB_STATE_SUCCEEDED"
    assert setting.platform.creates == [name]


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"])
def test_only_succeeded_is_a_success(state: str) -> None:
    setting = Setting()
    name = first_job(setting)
    setting.platform.end(name, state, EXIT_1, 3)
    with pytest.raises(TrainingJobError):
        setting.resume(name)


def test_an_unknown_state_is_waited_for() -> None:
    setting = Setting()
    name = first_job(setting)
    setting.platform.jobs[name]._pb.state = 42
    step = setting.resume(name)
    assert isinstance(step, WaitForJob)
    assert step.record.name == name


def test_a_user_error_fails_without_another_job() -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.end(name, "FAILED", EXIT_1, 3)
    with pytest.raises(UserCodeError) as caught:
        setting.resume(name)
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "FAIL"
    assert caught.value.exit_code == 1
    assert "console.cloud.google.com" in str(caught.value)


def test_a_try_after_a_sigkill_fails_a_user_error_again() -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.end(name, "FAILED", EXIT_1, 3)
    with pytest.raises(UserCodeError):
        setting.next_try().start()
    assert setting.platform.creates == [name]


def test_a_users_own_policy_gets_its_new_job_for_a_user_error() -> None:
    policy = ExceptionRetryPolicy(rules=[RetryRule(exception=UserCodeError, action=RetryAction.RETRY)])
    setting = Setting(retries=3, retry_policy=policy)
    name = first_job(setting)
    setting.platform.end(name, "FAILED", EXIT_1, 3)
    step = setting.next_try().start()
    assert isinstance(step, WaitForJob)
    assert len(setting.platform.creates) == 2


def test_a_users_own_policy_that_fails_a_crash_is_obeyed_at_the_start_of_a_try() -> None:
    policy = ExceptionRetryPolicy(rules=[RetryRule(exception=CrashError, action=RetryAction.FAIL)])
    setting = Setting(retries=9, retry_policy=policy)
    name = first_job(setting)
    setting.platform.end(name, "FAILED", CRASHED, 3)
    with pytest.raises(CrashError):
        setting.next_try().start()


def test_no_policy_gets_past_the_ceiling_of_jobs() -> None:
    policy = ExceptionRetryPolicy(rules=[RetryRule(exception=UserCodeError, action=RetryAction.RETRY)])
    setting = Setting(retries=9, retry_policy=policy, max_jobs=2)
    for _ in range(2):
        setting.start()
        setting.platform.end(setting.platform.creates[-1], "FAILED", EXIT_1, 3)
        setting.next_try()
    with pytest.raises(UserCodeError):
        setting.start()
    assert len(setting.platform.creates) == 2


def test_a_crash_is_retried_with_the_platforms_retries_off_when_they_cannot_be_paid() -> None:
    setting = Setting(retries=5)
    name = first_job(setting)
    setting.platform.end(name, "FAILED", CRASHED, 3)
    with pytest.raises(CrashError) as caught:
        setting.resume(name)
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "RETRY"
    setting.next_try().start()
    assert not setting.platform.jobs[name].job_spec.scheduling.disable_retries
    assert setting.platform.last.job_spec.scheduling.disable_retries


def test_a_crash_that_used_up_the_budget_fails_and_says_so() -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.end(name, "FAILED", CRASHED, 3)
    with pytest.raises(CrashError, match=r"already r[au]n") as caught:
        setting.resume(name)
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "FAIL"


def test_a_stockout_goes_to_the_next_region_inside_the_try() -> None:
    setting = Setting(regions=("us-central1", "europe-west4"))
    name = first_job(setting)
    setting.platform.end(name, "FAILED", NO_CAPACITY, 8)
    step = until_a_job_is_waited_for(setting, name)
    assert isinstance(step, WaitForJob)
    assert step.record.region == "europe-west4"
    assert len(setting.platform.creates) == 2
    assert dict(setting.platform.last.labels)["airflow-try"] == "1"


def test_a_preemption_with_progress_costs_no_retry_and_resumes() -> None:
    setting = Setting(retries=0, strategy="SPOT")
    for step_reached in (50, 100, 150):
        setting.start()
        name = setting.platform.creates[-1]
        setting.platform.run(name)
        setting.checkpoints.save(step_reached, setting.platform.time.now())
        setting.platform.end(name, "FAILED", NO_CAPACITY, 8)
        step = until_a_job_is_waited_for(setting, name)
        assert isinstance(step, WaitForJob)
        environment = environment_of(setting.platform.last)
        assert environment["AIRFLOW_RESUME_FROM"].endswith(f"checkpoint-{step_reached}")
        assert environment["AIRFLOW_RESUME_STEP"] == str(step_reached)
    setting.platform.end(setting.platform.creates[-1], "SUCCEEDED")
    done = setting.resume(setting.platform.creates[-1])
    assert isinstance(done, Done)
    assert [job["resumed_from_step"] for job in done.result["jobs"]] == [None, 50, 100, 150]
    assert sum(job["charged"] for job in done.result["jobs"]) == 0 or done.result["jobs"][-1]["charged"] <= 1


def test_a_preemption_without_progress_is_paid_for() -> None:
    setting = Setting(retries=0, strategy="SPOT")
    name = first_job(setting)
    setting.platform.run(name)
    setting.platform.end(name, "FAILED", NO_CAPACITY, 8)
    with pytest.raises(PreemptedError):
        setting.resume(name)


def test_a_cancel_from_outside_fails_the_try_it_happens_in() -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.end(name, "CANCELLED", code=1)
    with pytest.raises(CancelledError) as caught:
        setting.resume(name)
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "FAIL"


def test_a_cancelled_job_of_an_earlier_try_does_not_fail_a_new_try() -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.end(name, "CANCELLED", code=1)
    step = setting.next_try().start()
    if isinstance(step, WaitUntil):
        setting.platform.time.moment = step.moment
        step = setting.wait_over(step.carried)
    assert isinstance(step, WaitForJob)
    assert len(setting.platform.creates) == 2


def test_a_job_that_was_deleted_is_lost() -> None:
    setting = Setting(retries=1)
    name = first_job(setting)
    del setting.platform.jobs[name]
    with pytest.raises(JobLostError) as caught:
        setting.resume(name, "lost")
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "RETRY"


def test_an_error_that_is_not_there_yet_is_waited_for_at_the_start_of_a_try() -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.end(name, "FAILED")
    step = setting.next_try().start()
    assert isinstance(step, WaitForJob)
    assert step.record.name == name
    assert setting.platform.creates == [name]


def test_a_live_job_with_changed_labels_is_ended_before_another_is_submitted() -> None:
    setting = Setting()
    name = first_job(setting)
    setting.platform.jobs[name].labels["airflow-epoch"] = "changed"
    step = setting.next_try().start()
    assert isinstance(step, WaitForJob)
    assert step.stale
    assert setting.platform.cancels == [name]
    assert setting.platform.creates == [name]


class TestClear:
    def test_after_success_trains_afresh_and_ignores_the_old_checkpoints(self) -> None:
        setting = Setting(strategy="SPOT")
        name = first_job(setting)
        setting.checkpoints.save(1000, setting.platform.time.now())
        setting.platform.end(name, "SUCCEEDED")
        assert isinstance(setting.resume(name), Done)
        setting.clear().start()
        second = setting.platform.creates[-1]
        assert "AIRFLOW_RESUME_FROM" not in environment_of(setting.platform.last)
        # And it stays so within the new epoch: only what the new training wrote counts.
        setting.platform.run(second)
        setting.checkpoints.save(50, setting.platform.time.now())
        setting.platform.end(second, "FAILED", NO_CAPACITY, 8)
        until_a_job_is_waited_for(setting, second)
        assert environment_of(setting.platform.last)["AIRFLOW_RESUME_STEP"] == "50"

    def test_after_failure_resumes(self) -> None:
        setting = Setting()
        name = first_job(setting)
        setting.checkpoints.save(300, setting.platform.time.now())
        setting.platform.end(name, "FAILED", EXIT_1, 3)
        with pytest.raises(UserCodeError):
            setting.resume(name)
        setting.clear().start()
        assert environment_of(setting.platform.last)["AIRFLOW_RESUME_STEP"] == "300"
        assert dict(setting.platform.last.labels)["airflow-epoch"] == "1"

    def test_of_a_running_job_ends_it_first(self) -> None:
        setting = Setting()
        name = first_job(setting)
        setting.platform.run(name)
        step = setting.clear().start()
        assert isinstance(step, WaitForJob)
        assert step.stale
        assert step.record.name == name
        assert setting.platform.cancels == [name]
        assert setting.platform.creates == [name]
        setting.platform.end(name, "CANCELLED", code=1)
        after = setting.resume(name)
        assert isinstance(after, WaitForJob)
        assert not after.stale
        assert len(setting.platform.creates) == 2

    def test_of_a_running_job_that_is_deleted_meanwhile_trains_anew(self) -> None:
        setting = Setting()
        name = first_job(setting)
        step = setting.clear().start()
        assert isinstance(step, WaitForJob)
        del setting.platform.jobs[name]
        event = TrainingJobEvent(type="lost", job_name=name)
        after = setting.lifecycle().resumed(event, stale=step.stale)
        assert isinstance(after, WaitForJob)
        assert after.record.name != name

    def test_of_a_job_whose_end_does_not_come_gives_up_at_the_execution_timeout(self) -> None:
        setting = Setting()
        name = first_job(setting)
        step = setting.clear().start()
        assert isinstance(step, WaitForJob)
        setting.execution_deadline = setting.platform.time.now()
        event = TrainingJobEvent(type="execution_timeout", job_name=name, state=6)
        with pytest.raises(TrainingJobError, match="execution_timeout"):
            setting.lifecycle().resumed(event, stale=step.stale)
        assert len(setting.platform.creates) == 1

    def test_of_a_job_that_is_being_cancelled_already_cancels_no_second_time(self) -> None:
        setting = Setting()
        name = first_job(setting)
        setting.platform.cancel(name)
        setting.clear().start()
        assert setting.platform.cancels == [name]


@pytest.mark.parametrize(("mode", "expected"), [("always", "300"), ("never", None), ("retries", None)])
def test_resume_modes_after_a_success(mode: Any, expected: str | None) -> None:
    setting = Setting(options={"resume": mode})
    name = first_job(setting)
    setting.checkpoints.save(300, setting.platform.time.now())
    setting.platform.end(name, "SUCCEEDED")
    setting.clear().start()
    assert environment_of(setting.platform.last).get("AIRFLOW_RESUME_STEP") == expected


def test_unreadable_checkpoints_do_not_stop_a_training() -> None:
    setting = Setting()
    setting.checkpoints.problem = "no permission to list gs://bucket/run"
    name = first_job(setting)
    assert dict(setting.platform.jobs[name].labels)["airflow-resume-step"] == "unknown"


def test_unreadable_checkpoints_stop_a_training_that_must_resume() -> None:
    setting = Setting(options={"resume": "always"})
    setting.checkpoints.problem = "no permission to list gs://bucket/run"
    with pytest.raises(ValueError, match="resume="):
        setting.start()
    assert setting.platform.creates == []


def test_execution_timeout_between_two_jobs_submits_nothing() -> None:
    setting = Setting(regions=("us-central1", "europe-west4"))
    name = first_job(setting)
    setting.execution_deadline = setting.platform.time.now()
    setting.platform.end(name, "FAILED", NO_CAPACITY, 8)
    with pytest.raises(TrainingJobError, match="execution_timeout"):
        until_a_job_is_waited_for(setting, name)
    assert setting.platform.creates == [name]


@pytest.mark.parametrize("type", ["queue_timeout", "run_timeout", "execution_timeout"])
def test_a_clock_that_ended_fails_with_its_kind(type: str) -> None:
    setting = Setting(queue_timeout=pendulum.duration(minutes=1))
    name = first_job(setting)
    setting.platform.cancel(name)
    setting.platform.end(name, "CANCELLED", code=1)
    with pytest.raises(TrainingJobError) as caught:
        setting.resume(name, type)
    expected = "QUEUE_TIMEOUT" if type == "queue_timeout" else "RUN_TIMEOUT"
    assert caught.value.kind.value == expected
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "FAIL"


def test_a_job_that_succeeded_although_its_clock_ended_is_a_success() -> None:
    setting = Setting()
    name = first_job(setting)
    setting.platform.end(name, "SUCCEEDED")
    assert isinstance(setting.resume(name, "run_timeout"), Done)
