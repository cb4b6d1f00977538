"""How a wait may end oddly: refused, lost and found again, given up on, or beside a job nobody saw."""

from __future__ import annotations

import logging
from typing import Any

import pendulum
import pytest
from google.api_core import exceptions as api
from google.cloud import aiplatform_v1 as v1

from airflow_provider.agent_platform.exceptions import JobLostError, PermissionDeniedError, TrainingJobError
from airflow_provider.agent_platform.hooks.errors import ConfigurationError
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.operators.steps import Done, WaitForJob, WaitUntil
from airflow_provider.agent_platform.policy.rules import FailureRule
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from tests.operators.setting import Setting
from tests.operators.test_lifecycle import CRASHED, EXIT_1, NO_CAPACITY, first_job

DENIED = api.PermissionDenied("Permission 'aiplatform.customJobs.list' denied")  # type: ignore[no-untyped-call]


def test_a_wait_whose_reads_were_refused_ends_with_what_to_do_though_they_still_are() -> None:
    setting = Setting()
    name = first_job(setting)
    setting.platform.before_list["labels.airflow-ti"] = DENIED
    event = TrainingJobEvent(type="refused", job_name=name, state=3, error_code=7, message="no permission")
    with pytest.raises(PermissionDeniedError, match="It may still run and cost money"):
        setting.lifecycle().resumed(event)
    assert setting.platform.cancels == []


def test_a_job_that_was_called_lost_and_is_there_is_waited_for() -> None:
    setting = Setting(retries=0)
    name = first_job(setting)
    setting.platform.run(name)
    step = setting.resume(name, "lost")
    assert isinstance(step, WaitForJob)
    assert step.record.name == name
    assert setting.platform.creates == [name]


def test_a_success_needs_no_readable_checkpoints_even_if_the_training_had_to_resume() -> None:
    setting = Setting(options={"resume": "always"})
    name = first_job(setting)
    setting.checkpoints.problem = "no permission to list gs://bucket/run"
    setting.platform.end(name, "SUCCEEDED")
    assert isinstance(setting.resume(name), Done)


def test_an_outage_that_begins_with_the_success_does_not_fail_it(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting()
    name = first_job(setting)
    setting.platform.end(name, "SUCCEEDED")
    read = setting.platform.get

    def once(asked: str, **kwargs: Any) -> Any:
        monkeypatch.setattr(setting.platform, "get", down)
        return read(asked, **kwargs)

    def down(*_: object, **__: object) -> None:
        raise api.ServiceUnavailable("down")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(setting.platform, "get", once)
    step = setting.resume(name)
    assert isinstance(step, Done)
    assert step.result["name"] == name


def test_a_failure_is_told_even_if_the_training_had_to_resume_and_cannot() -> None:
    setting = Setting(options={"resume": "always"})
    name = first_job(setting)
    setting.checkpoints.problem = "no permission to list gs://bucket/run"
    setting.platform.end(name, "FAILED", EXIT_1, 3)
    with pytest.raises(TrainingJobError, match="exited with"):
        setting.resume(name)


@pytest.mark.parametrize("clock", ["queue_timeout", "run_timeout", "execution_timeout"])
def test_a_job_that_could_not_be_cancelled_is_named_in_the_log(
    clock: str, caplog: pytest.LogCaptureFixture
) -> None:
    setting = Setting(queue_timeout=pendulum.duration(minutes=1))
    name = first_job(setting)
    text = f"{clock}: the job could not be cancelled within 5 min: the cancel failed (PermissionDenied)"
    event = TrainingJobEvent(type=clock, job_name=name, state=3, message=text)
    with caplog.at_level(logging.WARNING), pytest.raises(TrainingJobError):
        setting.lifecycle().resumed(event)
    assert f"{name}: {text}" in caplog.text


def test_a_create_refused_for_capacity_goes_to_the_next_region() -> None:
    setting = Setting(regions=("us-central1", "europe-west4"))
    setting.platform.before_create = [api.ResourceExhausted(NO_CAPACITY)]  # type: ignore[no-untyped-call]
    step = setting.start()
    assert isinstance(step, WaitUntil)
    step = setting.wait_over(step.carried)
    assert isinstance(step, WaitForJob)
    assert step.record.region == "europe-west4"


def test_a_fallback_region_without_quota_is_left_again() -> None:
    setting = Setting(regions=("us-central1", "europe-west4"))
    name = first_job(setting)
    setting.platform.end(name, "FAILED", NO_CAPACITY, 8)
    no_quota = "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_cpus"
    setting.platform.before_create = [api.ResourceExhausted(no_quota)]  # type: ignore[no-untyped-call]
    step = setting.resume(name)
    while isinstance(step, WaitUntil):
        setting.platform.time.moment = step.moment
        step = setting.wait_over(step.carried)
    assert isinstance(step, WaitForJob)
    assert step.record.region == "us-central1"


def test_a_job_from_before_a_clear_that_shows_up_late_is_cancelled_beside_the_new_one() -> None:
    setting = Setting()
    old = first_job(setting)
    setting.platform.hidden_from_list = 1
    step = setting.clear().start()
    assert isinstance(step, WaitForJob)
    assert setting.platform.cancels == [old]
    assert step.record.name != old


def test_a_ledger_that_may_not_be_read_is_a_typed_error() -> None:
    setting = Setting(retries=1)
    setting.platform.before_list["labels.airflow-ti"] = DENIED
    for action in ("RETRY", "FAIL"):
        with pytest.raises(PermissionDeniedError, match="may still run and cost money") as caught:
            setting.start()
        assert caught.value.decision is not None
        assert caught.value.decision.action.value == action
        setting.next_try()
    assert setting.platform.creates == []


@pytest.mark.parametrize("error", [SpecError([]), ConfigurationError("no credentials")])
def test_what_the_user_has_to_correct_is_not_taken_for_an_answer_of_the_service(error: Exception) -> None:
    setting = Setting(retries=3)
    setting.platform.before_create = [error]
    with pytest.raises(type(error)) as caught:
        setting.start()
    assert caught.value is error


def test_a_second_job_that_shows_up_beside_a_success_is_cancelled_and_not_waited_for() -> None:
    setting = Setting()
    name = first_job(setting)
    second = v1.CustomJob(setting.platform.jobs[name])
    second.name = f"{name[:-1]}2"
    setting.platform.jobs[second.name] = second
    setting.platform.run(second.name)
    setting.platform.end(name, "SUCCEEDED")
    step = setting.resume(name)
    assert isinstance(step, Done)
    assert step.result["name"] == name
    assert setting.platform.cancels == [second.name]


def test_a_job_that_was_deleted_takes_no_progress_from_those_before_it() -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.checkpoints.save(500, setting.platform.time.now())
    setting.platform.end(name, "FAILED", CRASHED, 3)
    step = setting.next_try().start()
    assert isinstance(step, WaitForJob)
    del setting.platform.jobs[step.record.name]
    with pytest.raises(JobLostError) as caught:
        setting.resume(step.record.name, "lost")
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "RETRY"
    assert caught.value.decision.runs_charged == 1


def test_a_job_that_is_waited_out_before_the_next_one_has_been_cancelled() -> None:
    rule = FailureRule(kinds=["RUN_TIMEOUT"], action="requeue")
    setting = Setting(options={"failure_rules": (rule,)})
    name = first_job(setting)
    setting.platform.run(name)
    step = setting.resume(name, "run_timeout")
    assert isinstance(step, WaitForJob)
    assert setting.platform.cancels == [name]


def test_execution_timeout_while_a_job_from_before_a_clear_ends_names_that_job() -> None:
    setting = Setting()
    name = first_job(setting)
    setting.execution_deadline = setting.platform.time.now()
    with pytest.raises(TrainingJobError, match="is being cancelled") as caught:
        setting.clear().start()
    assert name in str(caught.value)
    assert "No job of this task" not in str(caught.value)
