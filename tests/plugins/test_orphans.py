"""Jobs of tasks that a user has ended: cancelled once if nobody has done it, and left alone in every other case."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.agent_platform.hooks.training_job import TUNING_JOB, TrainingJobHook
from airflow_provider.agent_platform.jobs.identity import TaskIdentity
from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts
from airflow_provider.agent_platform.plugins import database
from airflow_provider.agent_platform.plugins.ended_task import EndedTask
from airflow_provider.agent_platform.plugins.orphans import PAUSES, Sweep, end_orphans

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.emulator import Emulator

pytestmark = pytest.mark.agent_platform_emulator(runner="simulated", speed=60)

PROJECT, REGION, OTHER = "laptop", "us-central1", "europe-west4"


def ended(task_id: str = "train", **changes: Any) -> EndedTask:
    ids: dict[str, Any] = {"dag_id": "dag", "run_id": "run", "task_id": task_id, "map_index": -1}
    where: dict[str, Any] = {
        "key": TaskIdentity(**ids).key,
        "job_type": "custom_job",
        "project_id": PROJECT,
        "regions": (REGION,),
        "gcp_conn_id": "google_cloud_default",
    }
    return EndedTask(**ids, where=Whereabouts(**{**where, **changes}))


def submit(task_id: str = "train", *, region: str = REGION, job_type: str = "custom_job") -> str:
    """Start a job of a task that runs for long; answer its name."""
    identity = TaskIdentity(dag_id="dag", run_id="run", task_id=task_id)
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {
            "image_uri": "gcr.io/p/i:1",
            "env": [{"name": "EMULATE_RUN_SECONDS", "value": "100000"}],
        },
    }
    job: dict[str, Any] = {"display_name": "runs", "labels": identity.labels(epoch=0, try_number=1)}
    if job_type == TUNING_JOB:
        job["trial_job_spec"] = {"worker_pool_specs": [pool]}
        job["max_trial_count"] = job["parallel_trial_count"] = 1
        job["study_spec"] = {
            "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {"parameter_id": "rate", "double_value_spec": {"min_value": 0.1, "max_value": 0.2}}
            ],
        }
    else:
        job["job_spec"] = {"worker_pool_specs": [pool]}
    with TrainingJobHook() as hook:
        return str(hook.create(job, project_id=PROJECT, region=region, job_type=job_type).name)


def state(name: str) -> str:
    with TrainingJobHook() as hook:
        return str(hook.get(name).state.name.removeprefix("JOB_STATE_"))


@pytest.fixture(autouse=True)
def airflow_says(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Airflow's database says of a task, by its id; and what was written to the audit log."""
    says: dict[str, Any] = {"train": (True, "failed"), "tune": (True, "failed"), "trace": []}
    monkeypatch.setattr(database, "task_state", lambda task: says[task.task_id])
    monkeypatch.setattr(database, "leave_trace", lambda task, text: says["trace"].append(text))
    return says


@pytest.mark.parametrize("answer", [(True, "failed"), (True, "success"), (True, "skipped"), (False, None)])
def test_a_job_whose_task_has_ended_is_cancelled_once_and_the_audit_log_says_so(
    agent_platform_emulator: Emulator, airflow_says: dict[str, Any], answer: tuple[bool, str | None]
) -> None:
    airflow_says["train"] = answer
    name = submit()
    end_orphans([ended()])
    end_orphans([ended()])
    assert state(name) in {"CANCELLING", "CANCELLED"}
    assert agent_platform_emulator.control.calls()["CancelCustomJob"] == 1
    (line,) = airflow_says["trace"]
    assert name in line


@pytest.mark.parametrize("answer", ["deferred", "running", "queued", "up_for_retry", "restarting", None])
def test_a_task_that_goes_on_keeps_its_job(
    agent_platform_emulator: Emulator, airflow_says: dict[str, Any], answer: str | None
) -> None:
    airflow_says["train"] = (True, answer)
    name = submit()
    end_orphans([ended()])
    assert state(name) not in {"CANCELLING", "CANCELLED"}
    assert airflow_says["trace"] == []


def test_jobs_of_both_kinds_in_every_region_are_found_and_those_of_others_are_not(
    agent_platform_emulator: Emulator,
) -> None:
    ours = [submit(), submit(region=OTHER), submit("tune", job_type=TUNING_JOB)]
    others = submit("evaluate")
    end_orphans([ended(regions=(REGION, OTHER)), ended("tune", job_type=TUNING_JOB)])
    assert {state(name) for name in ours} <= {"CANCELLING", "CANCELLED"}
    assert state(others) not in {"CANCELLING", "CANCELLED"}


def test_many_tasks_that_were_ended_together_cost_one_listing(
    agent_platform_emulator: Emulator, airflow_says: dict[str, Any]
) -> None:
    tasks = [f"train{number}" for number in range(5)]
    airflow_says.update({task_id: (True, "failed") for task_id in tasks})
    names = [submit(task_id) for task_id in tasks]
    end_orphans([ended(task_id) for task_id in tasks])
    assert {state(name) for name in names} <= {"CANCELLING", "CANCELLED"}
    calls = agent_platform_emulator.control.calls()
    assert calls["ListCustomJobs"] == 1
    assert "ListHyperparameterTuningJobs" not in calls, "an identity may not be allowed to list them"


@pytest.mark.parametrize("region", ["us-nowhere1", "not a region"])
def test_a_region_that_cannot_be_asked_does_not_keep_the_others_from_being_swept(
    agent_platform_emulator: Emulator, caplog: pytest.LogCaptureFixture, region: str
) -> None:
    name = submit()
    end_orphans([ended(regions=(region, REGION))])
    assert state(name) in {"CANCELLING", "CANCELLED"}
    assert [
        record
        for record in caplog.records
        if record.levelno == logging.WARNING and "could not be told" in record.getMessage()
    ]


def test_a_connection_that_does_not_exist_is_a_line_of_the_log(
    agent_platform_emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    end_orphans([ended(gcp_conn_id="no_such_connection")])
    assert "no_such_connection" in caplog.text


def test_tasks_ended_within_the_first_pause_are_looked_after_together_twice_and_later_ones_anew() -> None:
    looks: list[set[EndedTask]] = []
    slept: list[float] = []

    def look(tasks: Iterable[EndedTask]) -> None:
        looks.append(set(tasks))

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            assert sweep.add(ended("second")) is None

    sweep = Sweep(look, sleep)
    for task_id in ("first", "third"):
        thread = sweep.add(ended(task_id))
        assert thread is not None
        thread.join(10)
    assert looks == [{ended("first"), ended("second")}] * 2 + [{ended("third")}] * 2
    assert slept == [*PAUSES, *PAUSES]


def test_a_process_that_cannot_start_a_thread_now_looks_after_the_task_with_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[set[EndedTask]] = []
    sweep = Sweep(lambda tasks: looks.append(set(tasks)), lambda _: None)
    with monkeypatch.context() as patch:

        def no_more(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", no_more)
        with pytest.raises(RuntimeError):
            sweep.add(ended("first"))
    thread = sweep.add(ended("second"))
    assert thread is not None
    thread.join(10)
    assert looks[0] == {ended("first"), ended("second")}


def test_a_sweep_that_fails_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    looks: list[str] = []

    def look(tasks: Iterable[EndedTask]) -> None:
        looks.extend(task.task_id for task in tasks)
        raise RuntimeError("no database")

    sweep = Sweep(look, lambda _: None)
    for task_id in ("first", "second"):
        thread = sweep.add(ended(task_id))
        assert thread is not None
        thread.join(10)
    assert looks == ["first", "first", "second", "second"]
    assert "no database" in caplog.text


def test_a_job_that_somebody_cancelled_meanwhile_is_left_to_them(
    agent_platform_emulator: Emulator, monkeypatch: pytest.MonkeyPatch, airflow_says: dict[str, Any]
) -> None:
    name = submit()

    def cancelled_by_the_trigger(task: EndedTask) -> tuple[bool, str]:
        with TrainingJobHook() as hook:
            hook.cancel(name)
        return True, "failed"

    monkeypatch.setattr(database, "task_state", cancelled_by_the_trigger)
    end_orphans([ended()])
    assert agent_platform_emulator.control.calls()["CancelCustomJob"] == 1
    assert airflow_says["trace"] == []


@pytest.mark.parametrize("broken", ["task_state", "leave_trace"])
def test_trouble_with_one_task_does_not_keep_the_others_from_being_swept(
    agent_platform_emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
    airflow_says: dict[str, Any],
    broken: str,
) -> None:
    tasks = [f"train{number}" for number in range(3)]
    airflow_says.update({task_id: (True, "failed") for task_id in tasks})
    names = [submit(task_id) for task_id in tasks]
    works = getattr(database, broken)
    failed: list[EndedTask] = []

    def once(task: EndedTask, *more: Any) -> Any:
        if not failed:
            failed.append(task)
            raise RuntimeError("database is locked")
        return works(task, *more)

    monkeypatch.setattr(database, broken, once)
    end_orphans([ended(task_id) for task_id in tasks])
    cancelled = [name for name in names if state(name) in {"CANCELLING", "CANCELLED"}]
    assert len(cancelled) == (2 if broken == "task_state" else 3)


def test_a_connection_that_fails_costs_one_line_however_many_tasks(
    agent_platform_emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    end_orphans([ended(f"train{number}", gcp_conn_id="no_such_connection") for number in range(9)])
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "and 8 more were ended" in line
