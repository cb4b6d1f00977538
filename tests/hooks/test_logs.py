"""The last lines of a worker: there when they can be had in time, and never a reason to fail."""

from __future__ import annotations

import logging
import sys
import time as real_time
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider.agent_platform.emulator.emulator import Emulator
from airflow_provider.agent_platform.hooks import logs
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.jobs.pools import container_pools
from airflow_provider.agent_platform.jobs.spec import build_custom_job
from airflow_provider.agent_platform.policy.states import is_end
from tests.hooks.samples import PROJECT, REGION

NAME = f"projects/{PROJECT}/locations/{REGION}/customJobs/7"
SCRIPT = """
for number in $(seq 30); do echo line $number; done
echo '{"severity": "ERROR", "message": "structured"}'
printf 'Traceback\\n  File x\\nValueError: boom\\n' >&2
exit 3
"""


@pytest.fixture(scope="module")
def failed_job() -> Iterator[tuple[Emulator, str]]:
    with Emulator(speed=600, runner="process") as emulator, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_PLATFORM_EMULATOR_HOST", emulator.grpc_target)
        with TrainingJobHook() as hook:
            pools = container_pools(image_uri="i", command=["sh", "-c", SCRIPT], machine_type="n1-standard-4")
            payload = build_custom_job(display_name="fails", worker_pool_specs=pools)
            name = hook.create(payload, project_id=PROJECT, region=REGION).name
            end = real_time.monotonic() + 60
            while not is_end(int(hook.get(name).state)):
                assert real_time.monotonic() < end
                real_time.sleep(0.1)
        yield emulator, name


@pytest.fixture
def hook(failed_job: tuple[Emulator, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingJobHook]:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", failed_job[0].grpc_target)
    with TrainingJobHook() as made:
        yield made


def test_the_last_lines_of_a_replica_are_read_oldest_first(
    hook: TrainingJobHook, failed_job: tuple[Emulator, str]
) -> None:
    lines = logs.last_lines(hook, failed_job[1], "workerpool0-0", 6, bound=30)
    assert lines == ["line 29", "line 30", "structured", "Traceback", "  File x", "ValueError: boom"]
    assert logs.last_lines(hook, failed_job[1], "workerpool0-0", 1, bound=30) == ["ValueError: boom"]


def test_without_a_replica_the_services_own_lines_are_there_too(
    hook: TrainingJobHook, failed_job: tuple[Emulator, str]
) -> None:
    lines = logs.last_lines(hook, failed_job[1], None, 50, bound=30)
    assert "Job failed." in lines
    assert "ValueError: boom" in lines


def test_a_job_without_lines_has_none(hook: TrainingJobHook) -> None:
    assert logs.last_lines(hook, NAME, "workerpool0-0", bound=30) == []
    assert logs.last_lines(hook, NAME, "workerpool0-0", 0) == []


def test_a_name_that_is_none_is_no_reason_to_fail(hook: TrainingJobHook) -> None:
    assert logs.last_lines(hook, "no name", "workerpool0-0") == []


def test_an_address_where_nothing_listens_is_no_reason_to_fail(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", "127.0.0.1:9")
    with caplog.at_level(logging.DEBUG, logger=logs.__name__):
        assert logs.last_lines(TrainingJobHook(), NAME, "workerpool0-0", bound=20) == []
    assert "cannot be read" in caplog.text


def test_without_the_logging_package_there_are_no_lines(
    hook: TrainingJobHook, failed_job: tuple[Emulator, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud.logging_v2.services.logging_service_v2", None)
    assert logs.last_lines(hook, failed_job[1], "workerpool0-0") == []


def test_credentials_that_hang_cost_no_more_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, hook: TrainingJobHook
) -> None:
    def hang() -> Any:
        real_time.sleep(3)
        raise AssertionError("too late to matter")

    monkeypatch.setattr(hook, "credentials", hang)
    started = real_time.monotonic()
    assert logs.last_lines(hook, NAME, "workerpool0-0", bound=0.3) == []
    assert real_time.monotonic() - started < 2
