"""The blocking calls, over a real wire, against the emulator."""

from __future__ import annotations

import json
import socket
import time as real_time
from typing import Any

import pytest
from google.api_core import exceptions as api_errors
from google.auth.credentials import AnonymousCredentials

from airflow_provider.agent_platform.emulator.emulator import Emulator
from airflow_provider.agent_platform.hooks import api_retry
from airflow_provider.agent_platform.hooks.errors import (
    ConfigurationError,
    EmulatorUnreachableError,
    TooManyJobsError,
)
from airflow_provider.agent_platform.hooks.training_job import CUSTOM_JOB, TrainingJobHook
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.jobs.identity import TaskIdentity
from airflow_provider.agent_platform.jobs.spec import with_labels
from tests.hooks.samples import PROJECT, REGION, Time, custom_job

WHERE: dict[str, Any] = {"project_id": PROJECT, "region": REGION}


def test_a_job_is_created_read_listed_and_cancelled(hook: TrainingJobHook) -> None:
    created = hook.create(custom_job("one"), **WHERE)
    assert hook.job_type_of(created.name) == CUSTOM_JOB
    assert hook.get(created.name).display_name == "one"
    assert hook.cancel(created.name) is True
    assert [job.name for job in hook.list_jobs(**WHERE)] == [created.name]


def test_a_message_is_created_as_it_is(hook: TrainingJobHook) -> None:
    from airflow_provider.agent_platform.hooks.requests import to_message

    message = to_message(custom_job("as a message"), CUSTOM_JOB)
    assert hook.create(message, **WHERE).display_name == "as a message"


def test_the_jobs_of_a_task_are_found_by_their_label(hook: TrainingJobHook) -> None:
    ours = TaskIdentity(dag_id="d", run_id="r", task_id="t")
    names = set()
    for number in range(3):
        payload = with_labels(custom_job(), ours.labels(epoch=0, try_number=number + 1))
        names.add(hook.create(payload, **WHERE).name)
    other = TaskIdentity(dag_id="d", run_id="r", task_id="u")
    hook.create(with_labels(custom_job(), other.labels(epoch=0, try_number=1)), **WHERE)
    found = hook.list_jobs(**WHERE, filter=ours.ledger_filter(), page_size=2)
    assert {job.name for job in found} == names


def test_every_page_is_read_and_a_list_is_never_shortened(hook: TrainingJobHook, emulator: Emulator) -> None:
    for number in range(5):
        hook.create(custom_job(f"job-{number}"), **WHERE)
    jobs = hook.list_jobs(**WHERE, page_size=2)
    assert sorted(job.display_name for job in jobs) == [f"job-{number}" for number in range(5)]
    assert emulator.control.calls()["ListCustomJobs"] == 3
    with pytest.raises(TooManyJobsError, match="More than 4 jobs"):
        hook.list_jobs(**WHERE, page_size=2, limit=4)


def test_a_read_mask_names_the_fields_to_read(hook: TrainingJobHook) -> None:
    hook.create(custom_job("masked"), **WHERE)
    (job,) = hook.list_jobs(**WHERE, read_mask=["name", "state"])
    assert job.name
    assert not job.display_name


@pytest.mark.parametrize(
    "code", ["UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"]
)
def test_reads_are_repeated_on_what_says_nothing_about_the_job(
    hook: TrainingJobHook, emulator: Emulator, time: Time, code: str
) -> None:
    created = hook.create(custom_job(), **WHERE)
    for method in ("GetCustomJob", "ListCustomJobs"):
        emulator.control.add_fault("rpc_error", match={"method": method}, times=2, code=code, message="x")
    assert hook.get(created.name).name == created.name
    assert len(hook.list_jobs(**WHERE)) == 1
    assert len(time.slept) == 4


def test_a_read_can_be_asked_for_once_only(hook: TrainingJobHook, emulator: Emulator, time: Time) -> None:
    created = hook.create(custom_job(), **WHERE)
    emulator.control.add_fault("rpc_error", match={"method": "GetCustomJob"}, code="UNAVAILABLE", message="x")
    with pytest.raises(api_errors.ServiceUnavailable):
        hook.get(created.name, retry=False)
    assert time.slept == []


@pytest.mark.parametrize(
    "code", ["UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNKNOWN"]
)
def test_a_create_is_never_repeated(hook: TrainingJobHook, emulator: Emulator, time: Time, code: str) -> None:
    emulator.control.add_fault(
        "rpc_error", match={"method": "CreateCustomJob"}, times=5, code=code, message="Too many requests"
    )
    with pytest.raises(api_errors.GoogleAPICallError) as caught:
        hook.create(custom_job(), **WHERE)
    assert emulator.control.calls()["CreateCustomJob"] == 1
    assert time.slept == []
    assert api_retry.is_ambiguous_create(caught.value) is (code != "RESOURCE_EXHAUSTED")
    assert api_retry.is_rate_limited(caught.value) is (code == "RESOURCE_EXHAUSTED")


def test_a_create_whose_reply_is_lost_is_found_by_its_label(
    hook: TrainingJobHook, emulator: Emulator
) -> None:
    ours = TaskIdentity(dag_id="d", run_id="r", task_id="t")
    emulator.control.add_fault(
        "rpc_error", match={"method": "CreateCustomJob"}, code="UNAVAILABLE", message="x", after_effect=True
    )
    with pytest.raises(api_errors.ServiceUnavailable) as caught:
        hook.create(with_labels(custom_job(), ours.labels(epoch=0, try_number=1)), **WHERE)
    assert api_retry.is_ambiguous_create(caught.value)
    assert len(hook.list_jobs(**WHERE, filter=ours.ledger_filter())) == 1


@pytest.mark.parametrize("method", ["CreateCustomJob", "GetCustomJob", "ListCustomJobs", "CancelCustomJob"])
def test_a_call_that_never_answers_ends_at_its_deadline(
    hook: TrainingJobHook, emulator: Emulator, method: str
) -> None:
    name = hook.create(custom_job(), **WHERE).name
    emulator.control.add_fault("rpc_hang", match={"method": method}, times=1)
    calls: dict[str, Any] = {
        "CreateCustomJob": lambda: hook.create(custom_job(), **WHERE, timeout=0.5),
        "GetCustomJob": lambda: hook.get(name, timeout=0.5, retry=False),
        "ListCustomJobs": lambda: hook.list_jobs(**WHERE, timeout=0.5, retry=False),
        "CancelCustomJob": lambda: hook.cancel(name, timeout=0.5, retry=False),
    }
    started = real_time.monotonic()
    with pytest.raises(api_errors.DeadlineExceeded):
        calls[method]()
    assert real_time.monotonic() - started < 10


def test_a_hanging_read_is_repeated_after_its_deadline(hook: TrainingJobHook, emulator: Emulator) -> None:
    name = hook.create(custom_job(), **WHERE).name
    emulator.control.add_fault("rpc_hang", match={"method": "GetCustomJob"}, times=1)
    assert hook.get(name, timeout=0.5).name == name


def test_what_the_service_refuses_is_raised_as_it_said_it(hook: TrainingJobHook) -> None:
    payload = custom_job()
    payload["job_spec"]["worker_pool_specs"][0]["machine_spec"]["machine_type"] = "abacus-1"
    with pytest.raises(api_errors.InvalidArgument, match="abacus-1"):
        hook.create(payload, **WHERE)


def test_a_job_that_is_not_there_is_not_found_and_not_repeated(hook: TrainingJobHook, time: Time) -> None:
    name = f"projects/{PROJECT}/locations/{REGION}/customJobs/1"
    with pytest.raises(api_errors.NotFound) as caught:
        hook.get(name)
    assert api_retry.is_gone(caught.value)
    assert hook.cancel(name) is False
    assert time.slept == []


def test_a_cancel_is_repeated_only_when_it_failed(
    hook: TrainingJobHook, emulator: Emulator, time: Time
) -> None:
    name = hook.create(custom_job(), **WHERE).name
    emulator.control.add_fault(
        "rpc_error", match={"method": "CancelCustomJob"}, times=1, code="UNAVAILABLE", message="x"
    )
    assert hook.cancel(name) is True
    assert emulator.control.calls()["CancelCustomJob"] == 2
    assert len(time.slept) == 1


def test_a_cancel_that_is_refused_is_raised(hook: TrainingJobHook, emulator: Emulator) -> None:
    name = hook.create(custom_job(), **WHERE).name
    emulator.control.add_fault(
        "rpc_error", match={"method": "CancelCustomJob"}, code="PERMISSION_DENIED", message="no"
    )
    with pytest.raises(api_errors.PermissionDenied):
        hook.cancel(name)


def test_a_payload_the_client_cannot_send_is_an_error_before_the_call(
    hook: TrainingJobHook, emulator: Emulator
) -> None:
    with pytest.raises(SpecError, match="cannot send this job"):
        hook.create({**custom_job(), "colour": "red"}, **WHERE)
    assert emulator.control.calls().get("CreateCustomJob", 0) == 0


@pytest.mark.parametrize("job_type", ["custom", "", "batch_prediction_job"])
def test_another_kind_of_job_is_refused(hook: TrainingJobHook, job_type: str) -> None:
    with pytest.raises(ValueError, match="it must be one of custom_job, hyperparameter_tuning_job"):
        hook.list_jobs(**WHERE, job_type=job_type)


def test_one_client_serves_all_calls_of_a_region(hook: TrainingJobHook) -> None:
    first = hook._client(REGION)
    hook.create(custom_job(), **WHERE)
    assert hook._client(REGION) is first
    hook.close()
    assert hook.list_jobs(**WHERE), "a closed hook opens itself again"


def test_the_emulator_gets_no_credentials(hook: TrainingJobHook) -> None:
    assert isinstance(hook.credentials(), AnonymousCredentials)


def test_an_emulator_that_does_not_run_is_one_clear_error_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, time: Time
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", f"127.0.0.1:{port}")
    hook = TrainingJobHook(sleep=time.sleep, clock=time.clock)
    for call in (
        hook.ensure_reachable,
        lambda: hook.create(custom_job(), **WHERE),
        lambda: hook.list_jobs(**WHERE),
    ):
        with pytest.raises(EmulatorUnreachableError, match=f"The emulator at 127.0.0.1:{port}"):
            call()


def test_a_connection_may_name_the_emulator(
    running_emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_emulator.control.reset()
    extra = {"project": PROJECT, "region": REGION, "api_endpoint": running_emulator.grpc_target}
    text = json.dumps({"conn_type": "google_cloud_platform", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_ON_A_LAPTOP", text)
    with TrainingJobHook("on_a_laptop") as hook:
        created = hook.create(custom_job(), project_id=hook.project_id(), region=hook.region())
        assert created.name


# -- project and region


def connection(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    text = json.dumps({"conn_type": "google_cloud_platform", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", text)


def test_the_argument_comes_before_the_connection(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection(monkeypatch, project="theirs", region="europe-west4", base_output_root="gs://conn/x")
    monkeypatch.setenv("AIRFLOW__AGENT_PLATFORM__BASE_OUTPUT_ROOT", "gs://setting/x")
    hook = TrainingJobHook()
    assert (hook.project_id(), hook.region()) == ("theirs", "europe-west4")
    assert (hook.project_id("mine"), hook.region("us-east1")) == ("mine", "us-east1")
    assert hook.base_output_root() == "gs://conn/x"


def test_the_setting_is_the_last_root(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TrainingJobHook().base_output_root() is None
    monkeypatch.setenv("AIRFLOW__AGENT_PLATFORM__BASE_OUTPUT_ROOT", "gs://setting/x")
    assert TrainingJobHook().base_output_root() == "gs://setting/x"


def test_the_environments_project_is_the_last_one(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "from-environment")
    assert TrainingJobHook().project_id() == "from-environment"


def test_no_project_and_no_region_are_clear_errors(emulator: Emulator) -> None:
    hook = TrainingJobHook()
    with pytest.raises(ConfigurationError, match="give project_id, or set the extra field 'project'"):
        hook.project_id()
    with pytest.raises(ConfigurationError, match=r"give region .* or set the extra field 'region'"):
        hook.region()


@pytest.mark.parametrize(
    "region", ["us central1", "US-CENTRAL1", "evil.example.com/", "global", "us-central1\n"]
)
def test_a_region_that_is_none_never_becomes_a_host(emulator: Emulator, region: str) -> None:
    with pytest.raises(ConfigurationError, match="it must look like 'us-central1'"):
        TrainingJobHook().region(region)


@pytest.mark.parametrize("project", ["a/b", "a b", "a\n"])
def test_a_project_that_is_none_never_becomes_a_path(emulator: Emulator, project: str) -> None:
    with pytest.raises(ConfigurationError, match="must be the id or number of a project"):
        TrainingJobHook().project_id(project)
