"""Two live tasks that share an output directory: one line of the log, and nothing else changes."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import pytest
from google.api_core import exceptions as api

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.jobs import variants
from airflow_provider.agent_platform.jobs.identity import TaskIdentity
from airflow_provider.agent_platform.operators import neighbours
from airflow_provider.agent_platform.operators.steps import WaitForJob
from tests.operators.platform import Platform
from tests.operators.setting import Setting


@pytest.fixture(autouse=True)
def _every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tests.lifecycle")


def submit(platform: Platform, run_id: str = "run", **options: Any) -> str:
    step = Setting(platform=platform, run_id=run_id, **options).start()
    assert isinstance(step, WaitForJob)
    return step.record.name


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_live_job_of_another_task_in_the_same_directory_is_named(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    first = submit(platform, "monday")
    assert warnings(caplog) == []
    second = submit(platform, "tuesday")
    (line,) = warnings(caplog)
    assert "gs://bucket/run" in line
    assert first in line
    assert second not in line
    assert "DAG dag, task train, run monday" in line
    assert platform.live == [first, second]


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"])
def test_a_job_that_has_ended_is_no_neighbour(caplog: pytest.LogCaptureFixture, state: str) -> None:
    platform = Platform()
    platform.end(submit(platform, "monday"), state)
    submit(platform, "tuesday")
    assert warnings(caplog) == []


def test_a_job_that_is_being_cancelled_still_writes(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    platform.cancel(submit(platform, "monday"))
    submit(platform, "tuesday")
    assert len(warnings(caplog)) == 1


def test_a_tasks_own_jobs_are_no_neighbours(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    # The reply is lost, and the list lags: a second job of the very same task.
    platform.after_create = [api.ServiceUnavailable("lost"), None]  # type: ignore[no-untyped-call]
    platform.hidden_from_list = 100
    submit(platform)
    assert len(platform.live) == 2
    assert not [line for line in warnings(caplog) if "base_output_directory" in line]


def test_another_directory_is_no_neighbour(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    job = platform.jobs[submit(platform, "monday")]
    job.labels["airflow-output"] = "0" * 20
    submit(platform, "tuesday")
    assert warnings(caplog) == []


def test_every_region_of_the_task_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    first = submit(platform, "monday", regions=("europe-west4",))
    submit(platform, "tuesday", regions=("us-central1", "europe-west4"))
    (line,) = warnings(caplog)
    assert first in line


def test_many_neighbours_are_counted_and_not_all_named(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    for number in range(5):
        submit(platform, f"run-{number}")
    caplog.clear()
    submit(platform, "last")
    (line,) = warnings(caplog)
    assert line.count("customJobs/") == neighbours.MOST_NAMED
    assert "and 2 more" in line


def test_a_list_that_fails_is_a_line_for_those_who_look_for_it(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    submit(platform, "monday")
    platform.before_list = {"labels.airflow-output": api.PermissionDenied("no list")}  # type: ignore[no-untyped-call]
    name = submit(platform, "tuesday")
    assert name in platform.live
    assert warnings(caplog) == []
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert [line for line in said if "cannot be told" in line and "no list" in line]


def test_without_an_output_directory_nobody_is_asked() -> None:
    setting = Setting()
    lifecycle = setting.lifecycle()
    neighbours.warn_of_neighbours(
        lifecycle.hook,
        request=replace(lifecycle.request, base_output_directory=None),
        identity=lifecycle.task.identity,
        log=lifecycle.log,
    )
    assert setting.platform.lists == 0


def test_an_adopted_job_is_not_asked_about_again(caplog: pytest.LogCaptureFixture) -> None:
    platform = Platform()
    submit(platform, "monday")
    setting = Setting(platform=platform, run_id="tuesday")
    setting.start()
    caplog.clear()
    setting.next_try().start()
    assert warnings(caplog) == []


def test_the_service_understands_the_question(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lifecycle = Setting().lifecycle()
    request, mine = lifecycle.request, lifecycle.task.identity
    with Emulator(speed=60, runner="simulated") as emulator:
        monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", emulator.grpc_target)
        with TrainingJobHook() as hook:
            names = []
            for run_id in ("over", "monday", mine.run_id):
                identity = TaskIdentity(dag_id="dag", run_id=run_id, task_id="train")
                labels = identity.labels(
                    epoch=0, try_number=1, output_directory=request.base_output_directory
                )
                job = variants.with_environment(
                    variants.with_labels(request.job, labels), {"EMULATE_RUN_SECONDS": "100000"}
                )
                names.append(hook.create(job, project_id="project", region="us-central1").name)
            hook.cancel(names[0])
            while hook.get(names[0]).state.name != "JOB_STATE_CANCELLED":
                time.sleep(0.05)
            neighbours.warn_of_neighbours(hook, request=request, identity=mine, log=lifecycle.log)
    (line,) = warnings(caplog)
    assert [name in line for name in names] == [False, True, False]
