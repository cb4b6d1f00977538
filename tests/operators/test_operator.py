"""The operator against the emulator: what it defers with, what it returns, and what it does when its wait breaks."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferralTimeout,
    TaskDeferred,
)

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.exceptions import RunTimeoutError
from airflow_provider.agent_platform.hooks.errors import ConfigurationError, EmulatorUnreachableError
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.jobs.identity import TaskIdentity
from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts
from airflow_provider.agent_platform.links.training_job import TrainingJobLink
from airflow_provider.agent_platform.operators import conduct, notes
from airflow_provider.agent_platform.operators.custom_job import CustomJobOperator
from airflow_provider.agent_platform.policy.decide import Action
from airflow_provider.agent_platform.triggers.events import UnreadableEventError
from airflow_provider.agent_platform.triggers.ownership import LIVE_XCOM_KEY, OWNER_XCOM_KEY, Owner
from airflow_provider.agent_platform.triggers.waiting import wait_for_job
from tests.operators.context import context_of

CONNECTION = {"conn_type": "google_cloud_platform", "extra": {"project": "p", "region": "us-central1"}}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(speed=60, runner="simulated") as running:
        yield running


@pytest.fixture(autouse=True)
def _pointed_at_it(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", emulator.grpc_target)
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(CONNECTION))
    emulator.control.reset()


def operator(seconds: float = 30, **more: Any) -> CustomJobOperator:
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {
            "image_uri": "image",
            "env": [{"name": "EMULATE_RUN_SECONDS", "value": str(seconds)}],
        },
    }
    with DAG("dag", schedule=None):
        return CustomJobOperator(task_id="train", **{"worker_pool_specs": [pool], "poll_interval": 1, **more})


def deferred(task: CustomJobOperator, context: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    return caught.value


def state_of(name: str) -> str:
    with TrainingJobHook() as hook:
        return str(hook.get(name).state.name)


def test_it_defers_at_once_and_says_who_owns_the_job() -> None:
    task, xcoms = operator(), {}  # type: ignore[var-annotated]
    found = deferred(task, context_of(task, xcoms=xcoms))
    path, kwargs = found.trigger.serialize()
    assert path == "airflow_provider.agent_platform.triggers.training_job.TrainingJobTrigger"
    assert found.method_name == "execute_complete"
    owner = Owner.parse(json.loads(json.dumps(xcoms[OWNER_XCOM_KEY])))
    assert owner is not None
    assert (owner.try_number, owner.job_name) == (1, kwargs["job_name"])
    assert owner.where == Whereabouts(
        key=TaskIdentity(dag_id="dag", run_id="run", task_id="train").key,
        job_type="custom_job",
        project_id="p",
        regions=("us-central1",),
        gcp_conn_id="google_cloud_default",
    )
    assert json.loads(json.dumps(kwargs)) == kwargs


def test_before_anything_is_submitted_it_is_said_where_the_jobs_will_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingJobHook, "create", killed)
    task, xcoms = operator(impersonation_chain=["a@x", "b@x"]), {}  # type: ignore[var-annotated]
    with pytest.raises(KeyboardInterrupt):
        task.execute(context_of(task, xcoms=xcoms))
    owner = Owner.parse(xcoms[OWNER_XCOM_KEY])
    assert owner is not None
    assert owner.job_name == ""
    assert owner.where is not None
    assert owner.where.impersonation_chain == ("a@x", "b@x")


def test_the_link_is_right_while_the_job_runs() -> None:
    task = operator()
    found = deferred(task, context_of(task))
    job_id = found.trigger.serialize()[1]["job_name"].rpartition("/")[2]
    assert job_id in TrainingJobLink().get_link(task, ti_key=None)  # type: ignore[arg-type]


def test_the_display_name_is_dag_and_task() -> None:
    task = operator()
    name = deferred(task, context_of(task)).trigger.serialize()[1]["job_name"]
    with TrainingJobHook() as hook:
        assert hook.get(name).display_name == "dag.train"


def test_the_plain_mode_waits_and_returns_plain_json() -> None:
    task, xcoms = operator(seconds=0, deferrable=False), {}  # type: ignore[var-annotated]
    result = task.execute(context_of(task, xcoms=xcoms))
    assert xcoms[LIVE_XCOM_KEY]["state"] == "JOB_STATE_SUCCEEDED"
    assert json.loads(json.dumps(result)) == result
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    assert [job["runs"] for job in result["jobs"]] == [1]
    assert set(result) == {
        "name", "state", "region", "display_name", "create_time", "start_time", "end_time",
        "base_output_directory", "checkpoint", "step", "jobs",
    }  # fmt: skip


def test_an_event_of_unknown_shape_is_never_a_success() -> None:
    task = operator()
    with pytest.raises(UnreadableEventError):
        task.execute_complete(context_of(task), event={"version": 99, "status": "success"})


def test_a_vanished_trigger_waits_again_and_costs_no_try(monkeypatch: pytest.MonkeyPatch) -> None:
    task, xcoms = operator(seconds=600), {}  # type: ignore[var-annotated]
    context = context_of(task, xcoms=xcoms)
    first = deferred(task, context).trigger.serialize()[1]["job_name"]
    for _ in range(conduct.MAX_VANISHED):
        with pytest.raises(TaskDeferred) as caught:
            task.resume_execution("__fail__", {"error": "Trigger failure"}, context)
        assert caught.value.trigger.serialize()[1]["job_name"] == first
    with pytest.raises(TaskDeferralError):
        task.resume_execution("__fail__", {"error": "Trigger failure"}, context)
    assert state_of(first) in ("JOB_STATE_PENDING", "JOB_STATE_RUNNING")


def test_a_deferral_that_timed_out_cancels_the_job(emulator: Emulator) -> None:
    task = operator(seconds=600)
    context = context_of(task)
    deferred(task, context)
    with pytest.raises(TaskDeferralTimeout):
        task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    assert emulator.control.calls()["CancelCustomJob"] == 1


def test_a_deferral_that_timed_out_while_the_service_is_down_still_fails_with_the_timeout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = operator(seconds=600)
    context = context_of(task)
    deferred(task, context)

    def down(*_: object, **__: object) -> None:
        raise ConnectionError("the service is down")

    monkeypatch.setattr(TrainingJobHook, "list_jobs", down)
    with pytest.raises(TaskDeferralTimeout):
        task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    assert "the service is down" in capsys.readouterr().out


def alarm(*_: object, **__: object) -> None:
    """What Airflow does in a worker whose ``execution_timeout`` has ended."""
    raise AirflowTaskTimeout


def test_an_execution_timeout_in_the_worker_cancels_the_job_and_fails_as_it_does_while_deferred(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operator(seconds=600, deferrable=False, retries=3)
    monkeypatch.setattr(conduct, "wait_for_job", alarm)
    with pytest.raises(RunTimeoutError) as caught:
        task.execute(context_of(task))
    decision = caught.value.decision
    assert decision is not None
    assert decision.action is Action.FAIL
    assert emulator.control.calls()["CancelCustomJob"] == 1


def test_an_execution_timeout_in_the_middle_of_a_create_finds_the_job(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operator(seconds=600, deferrable=False, retries=3)
    create = TrainingJobHook.create

    def interrupted(self: TrainingJobHook, *args: Any, **kwargs: Any) -> Any:
        create(self, *args, **kwargs)
        raise AirflowTaskTimeout

    monkeypatch.setattr(TrainingJobHook, "create", interrupted)
    with pytest.raises(RunTimeoutError):
        task.execute(context_of(task))
    calls = emulator.control.calls()
    assert (calls["CreateCustomJob"], calls["CancelCustomJob"]) == (1, 1)


def test_a_job_that_succeeded_in_the_second_of_the_alarm_has_succeeded(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operator(seconds=0, deferrable=False)

    def late(*args: Any, **kwargs: Any) -> None:
        wait_for_job(*args, **kwargs)
        raise AirflowTaskTimeout

    monkeypatch.setattr(conduct, "wait_for_job", late)
    assert task.execute(context_of(task))["state"] == "JOB_STATE_SUCCEEDED"
    assert "CancelCustomJob" not in emulator.control.calls()


def test_an_alarm_before_anything_was_submitted_submits_nothing(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operator(execution_timeout=timedelta(seconds=-1))
    listed = TrainingJobHook.list_jobs

    def once(self: TrainingJobHook, **kwargs: Any) -> Any:
        monkeypatch.setattr(TrainingJobHook, "list_jobs", listed)
        raise AirflowTaskTimeout

    monkeypatch.setattr(TrainingJobHook, "list_jobs", once)
    with pytest.raises(RunTimeoutError):
        task.execute(context_of(task))
    assert "CreateCustomJob" not in emulator.control.calls()


def test_execution_timeout_becomes_an_absolute_deadline() -> None:
    task = operator(execution_timeout=timedelta(hours=1))
    kwargs = deferred(task, context_of(task)).trigger.serialize()[1]
    assert kwargs["execution_deadline"] is not None


@pytest.mark.parametrize("extra", [{"project": "p"}, {"region": "us-central1"}])
def test_without_project_or_region_nothing_is_submitted(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]
) -> None:
    connection = {"conn_type": "google_cloud_platform", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(connection))
    task = operator()
    with pytest.raises(ConfigurationError, match="region" if "project" in extra else "project"):
        task.execute(context_of(task))
    assert "CreateCustomJob" not in emulator.control.calls()


def test_an_emulator_that_is_not_running_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", "127.0.0.1:1")
    task = operator()
    with pytest.raises(EmulatorUnreachableError, match="agent-platform-emulator"):
        task.execute(context_of(task))


def test_a_try_that_breaks_beside_a_job_says_that_the_job_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = notes.own

    def broken(context: Any, job_name: str, where: Whereabouts) -> None:
        if job_name:
            raise RuntimeError("the API server does not answer")
        own(context, job_name, where)

    monkeypatch.setattr(notes, "own", broken)
    monkeypatch.setattr(CustomJobOperator, "log", logging.getLogger("tests.operator"))
    task = operator()
    with caplog.at_level("WARNING"), pytest.raises(RuntimeError):
        task.execute(context_of(task))
    assert task.job_name is not None
    assert f"{task.job_name} goes on if it has not ended" in caplog.text
