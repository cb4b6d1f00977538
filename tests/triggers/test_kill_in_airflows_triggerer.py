"""The kill path inside Airflow's own ``TriggerRunner.run_trigger``: cancelled again and again, as its supervisor does.

Real time, but hundredths of seconds: Airflow's code logs through threads, which virtual time cannot wait for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import kill
from airflow_provider.agent_platform.triggers.training_job import USER_ACTION_MESSAGE, TrainingJobTrigger
from tests.triggers.fake_airflow import FakeAirflow
from tests.triggers.fake_service import FakeService, job_name


@pytest.fixture
def runner() -> Any:
    pytest.importorskip("airflow.triggers.base")
    module = pytest.importorskip("airflow.jobs.triggerer_job_runner")
    if not hasattr(module.BaseTrigger if hasattr(module, "BaseTrigger") else object, "on_kill"):
        pytest.skip("this Airflow's triggers have no on_kill")
    return module.TriggerRunner()


def test_our_message_is_airflows() -> None:
    module = pytest.importorskip("airflow.jobs.triggerer_job_runner")
    assert getattr(module, "_USER_ACTION_CANCEL_MSG", USER_ACTION_MESSAGE) == USER_ACTION_MESSAGE


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.02, 0.2])
@pytest.mark.parametrize(("state", "cancels"), [("failed", 1), ("deferred", 0)])
async def test_a_cancel_by_the_supervisor_ends_the_job_once_or_keeps_it(
    runner: Any, monkeypatch: Any, state: str, cancels: int, pause: float
) -> None:
    service = FakeService(delay=0.3)
    service.cancel_ends = False
    airflow = FakeAirflow(monkeypatch, state)
    airflow.owned_by(1, job_name(1))
    one = TrainingJobTrigger(service.put(1, JobState.RUNNING))
    one.reader_factory = service.reader
    one._task_instance = airflow.ti
    runner.triggers[1] = {"task": None, "is_watcher": False, "name": "train", "events": 0}
    task = asyncio.create_task(runner.run_trigger(1, one))
    await asyncio.sleep(0.1)
    for _ in range(4):
        task.cancel(USER_ACTION_MESSAGE)
        await asyncio.sleep(pause)
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(asyncio.gather(*kill._RUNNING), 10)
    assert len(service.cancelled) == cancels


async def test_a_shutdown_of_the_triggerer_keeps_the_job(runner: Any, monkeypatch: Any) -> None:
    service = FakeService()
    airflow = FakeAirflow(monkeypatch, "failed")
    one = TrainingJobTrigger(service.put(1, JobState.RUNNING))
    one.reader_factory = service.reader
    one._task_instance = airflow.ti
    runner.triggers[1] = {"task": None, "is_watcher": False, "name": "train", "events": 0}
    task = asyncio.create_task(runner.run_trigger(1, one))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not kill._RUNNING
    assert service.calls["cancel"] == 0
