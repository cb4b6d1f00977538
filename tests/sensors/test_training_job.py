"""The sensor: what it returns, how it fails, what a timeout and soft_fail make of it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferralTimeout,
    TaskDeferred,
)
from google.cloud.aiplatform_v1.types import CustomJob

from airflow_provider.agent_platform import exceptions
from airflow_provider.agent_platform.policy.states import ENDS, JobState
from airflow_provider.agent_platform.sensors import training_job
from airflow_provider.agent_platform.sensors.training_job import (
    TrainingJobNotReadableError,
    TrainingJobSensor,
)
from airflow_provider.agent_platform.triggers.training_job_sensor import TrainingJobSensorTrigger
from tests.triggers.fake_service import api_error, job_name
from tests.triggers.virtual_time import START

CONTEXT: Any = {}


class Hook:
    """Answers with the jobs it was given."""

    jobs: dict[str, Any] = {}  # noqa: RUF012 - one test at a time
    error: Exception | None = None
    filters: list[str] = []  # noqa: RUF012

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def project_id(self, given: str | None = None) -> str:
        return given or "project-of-the-connection"

    def region(self, given: str | None = None) -> str:
        return given or "region-of-the-connection"

    def get(self, name: str) -> Any:
        if self.error is not None:
            raise self.error
        if name not in self.jobs:
            raise api_error("NotFound", "no such job")
        return self.jobs[name]

    def list_jobs(self, *, filter: str, **arguments: Any) -> list[Any]:
        if self.error is not None:
            raise self.error
        self.filters.append(filter)
        return list(self.jobs.values())


@pytest.fixture(autouse=True)
def hook(monkeypatch: Any) -> type[Hook]:
    monkeypatch.setattr(training_job, "TrainingJobHook", Hook)
    monkeypatch.setattr(Hook, "jobs", {})
    monkeypatch.setattr(Hook, "filters", [])
    monkeypatch.setattr(Hook, "error", None)
    return Hook


def put(number: int, state: int, error: tuple[int, str] | None = None, seconds: float = 0) -> str:
    name = job_name(number)
    job = CustomJob(name=name, state=state, display_name="train")
    CustomJob.pb(job).create_time.FromDatetime(START.add(seconds=seconds))
    if state != JobState.QUEUED:
        CustomJob.pb(job).start_time.FromDatetime(START.add(seconds=seconds + 100))
    if state in ENDS:
        CustomJob.pb(job).end_time.FromDatetime(START.add(seconds=seconds + 200))
    if error is not None:
        CustomJob.pb(job).error.code, CustomJob.pb(job).error.message = error
    Hook.jobs[name] = job
    return name


def sensor(**arguments: Any) -> TrainingJobSensor:
    made = TrainingJobSensor(task_id="wait", **arguments)
    made.now = lambda: START.add(hours=1)
    return made


def event(kind: str = "ended", **values: Any) -> dict[str, Any]:
    return {"version": 1, "type": kind, "job_name": job_name(1), "state": 4, **values}


# --- deferrable -------------------------------------------------------------------------------------


def test_a_job_that_has_succeeded_already_is_answered_at_once() -> None:
    name = put(1, JobState.SUCCEEDED)
    assert sensor(job_name=name).execute(CONTEXT) == {
        "name": name,
        "state": "JOB_STATE_SUCCEEDED",
        "region": "us-central1",
        "display_name": "train",
        "create_time": "2026-01-31T12:00:00Z",
        "start_time": "2026-01-31T12:01:40Z",
        "end_time": "2026-01-31T12:03:20Z",
    }


def test_a_live_job_is_waited_for_deferred_within_airflows_timeout() -> None:
    name = put(1, JobState.RUNNING)
    one = sensor(
        job_name=name, timeout=3600, poll_interval=45, gcp_conn_id="other", impersonation_chain=["a@b"]
    )
    with pytest.raises(TaskDeferred) as caught:
        one.execute(CONTEXT)
    assert caught.value.timeout == datetime.timedelta(hours=1)
    assert caught.value.method_name == "execute_complete"
    assert isinstance(caught.value.trigger, TrainingJobSensorTrigger)
    kwargs = caught.value.trigger.serialize()[1]
    assert (kwargs["job_name"], kwargs["poll_interval"]) == (name, 45)
    assert (kwargs["gcp_conn_id"], kwargs["impersonation_chain"]) == ("other", ["a@b"])


def test_labels_defer_with_the_place_of_the_connection() -> None:
    with pytest.raises(TaskDeferred) as caught:
        sensor(labels={"team": "vision"}, job_type="hyperparameter_tuning_job").execute(CONTEXT)
    assert isinstance(caught.value.trigger, TrainingJobSensorTrigger)
    kwargs = caught.value.trigger.serialize()[1]
    assert kwargs["labels"] == {"team": "vision"}
    assert (kwargs["project_id"], kwargs["region"], kwargs["job_type"]) == (
        "project-of-the-connection",
        "region-of-the-connection",
        "hyperparameter_tuning_job",
    )
    assert Hook.filters == ['labels.team="vision"']


def test_of_several_jobs_with_the_labels_the_newest_counts() -> None:
    put(1, JobState.FAILED, (3, "exited"), seconds=0)
    newest = put(2, JobState.SUCCEEDED, seconds=500)
    assert sensor(labels={"a": "b"}).execute(CONTEXT)["name"] == newest


def test_a_resumed_sensor_returns_the_job() -> None:
    put(1, JobState.SUCCEEDED)
    assert sensor(job_name=job_name(1)).execute_complete(CONTEXT, event())["name"] == job_name(1)


@pytest.mark.parametrize(
    ("state", "error", "kind"),
    [
        (
            JobState.FAILED,
            (3, "The replica workerpool0-0 exited with a non-zero status of 1."),
            "UserCodeError",
        ),
        (JobState.FAILED, (8, "Replicas low on memory: workerpool0."), "OutOfMemoryError"),
        (JobState.CANCELLED, (1, ""), "CancelledError"),
        (JobState.EXPIRED, None, None),
        (JobState.PARTIALLY_SUCCEEDED, None, None),
    ],
)
def test_any_other_end_is_a_typed_error_with_the_text_and_the_console(
    state: JobState, error: Any, kind: str | None
) -> None:
    put(1, state, error)
    with pytest.raises(exceptions.TrainingJobError) as caught:
        sensor(job_name=job_name(1)).execute_complete(CONTEXT, event(state=int(state)))
    if kind is not None:
        assert type(caught.value).__name__ == kind
    assert "https://console" in str(caught.value)
    assert caught.value.job_name == job_name(1)
    if error and error[1]:
        assert error[1] in str(caught.value)


def test_a_lost_job_and_a_refusal_are_errors_of_their_own() -> None:
    with pytest.raises(exceptions.JobLostError):
        sensor(job_name=job_name(1)).execute_complete(CONTEXT, event("lost", state=None))
    with pytest.raises(TrainingJobNotReadableError, match="denied for 5 min"):
        sensor(job_name=job_name(1)).execute_complete(
            CONTEXT, event("refused", state=None, message="denied for 5 min")
        )
    with pytest.raises(exceptions.JobLostError):
        sensor(job_name=job_name(9)).execute(CONTEXT)


def test_an_event_of_unknown_shape_is_no_success() -> None:
    with pytest.raises(ValueError, match="not readable"):
        sensor(job_name=job_name(1)).execute_complete(CONTEXT, {"status": "success"})


def test_an_outage_at_the_first_look_does_not_fail_the_sensor() -> None:
    Hook.error = api_error("ServiceUnavailable", "503")
    with pytest.raises(TaskDeferred):
        sensor(job_name=job_name(1)).execute(CONTEXT)


def test_a_refusal_at_the_first_look_is_said_at_once() -> None:
    Hook.error = api_error("Forbidden", "denied")
    with pytest.raises(Exception, match="denied"):
        sensor(job_name=job_name(1)).execute(CONTEXT)


# --- timeout and soft_fail --------------------------------------------------------------------------


def _resume(one: TrainingJobSensor, error: BaseException, monkeypatch: Any) -> Any:
    def fail(*arguments: Any, **kwargs: Any) -> Any:
        raise error

    from airflow.sdk.bases.operator import BaseOperator

    monkeypatch.setattr(BaseOperator, "resume_execution", fail)
    return one.resume_execution("__fail__", {}, CONTEXT)


def test_a_deferral_that_timed_out_is_a_sensor_timeout_that_says_what_for(monkeypatch: Any) -> None:
    one = sensor(job_name=job_name(1), timeout=60)
    with pytest.raises(AirflowSensorTimeout, match=r"customJobs/1 has not ended within .* 60 s; it was left"):
        _resume(one, TaskDeferralTimeout("Trigger timeout"), monkeypatch)


def test_soft_fail_skips_on_a_timeout(monkeypatch: Any) -> None:
    with pytest.raises(AirflowSkipException):
        _resume(sensor(job_name=job_name(1), soft_fail=True), TaskDeferralTimeout("x"), monkeypatch)


def test_a_vanished_trigger_is_an_error(monkeypatch: Any) -> None:
    with pytest.raises(TaskDeferralError):
        _resume(sensor(job_name=job_name(1)), TaskDeferralError("Trigger failure"), monkeypatch)


@pytest.mark.parametrize("deferrable", [True, False])
def test_soft_fail_skips_when_the_job_failed_however_it_was_noticed(deferrable: bool) -> None:
    put(1, JobState.FAILED, (3, "exited"))
    one = sensor(job_name=job_name(1), soft_fail=True, deferrable=deferrable)
    with pytest.raises(AirflowSkipException, match="exited"):
        one.execute(CONTEXT)
    with pytest.raises(AirflowSkipException, match="exited"):
        one.execute_complete(CONTEXT, event(state=5))


# --- not deferrable ---------------------------------------------------------------------------------


def test_poking_goes_on_while_the_job_lives_and_answers_when_it_succeeded() -> None:
    one = sensor(job_name=put(1, JobState.RUNNING), deferrable=False)
    assert one.poke(CONTEXT) is False
    put(1, JobState.SUCCEEDED)
    answer: Any = one.poke(CONTEXT)
    assert answer.is_done
    assert answer.xcom_value["name"] == job_name(1)


def test_poking_waits_for_a_late_error() -> None:
    one = sensor(job_name=put(1, JobState.FAILED), deferrable=False)
    one.now = lambda: START.add(seconds=260)  # a minute after the end
    assert one.poke(CONTEXT) is False
    one.now = lambda: START.add(seconds=330)
    with pytest.raises(exceptions.TrainingJobError):
        one.poke(CONTEXT)


def test_poking_survives_an_outage() -> None:
    Hook.error = api_error("ServiceUnavailable", "503")
    assert sensor(job_name=job_name(1), deferrable=False).poke(CONTEXT) is False


# --- arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "exactly one"),
        ({"job_name": "x", "labels": {"a": "b"}}, "exactly one"),
        ({"labels": {}}, "labels is empty"),
        ({"labels": {"a": "b"}, "job_type": "pipeline"}, "job_type is 'pipeline'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sensor(**arguments)


def test_what_a_user_would_template_is_templated() -> None:
    assert set(TrainingJobSensor.template_fields) >= {"job_name", "labels", "project_id", "region"}
