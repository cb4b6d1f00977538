"""The whole path on the emulator: triggers, one poll loop, the hook, gRPC, jobs that live and end.

Real time, in seconds: the emulator is 60 times as fast as the service.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.clocks import Clocks, utcnow
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent, parse_event
from airflow_provider.agent_platform.triggers.poller_registry import pollers
from airflow_provider.agent_platform.triggers.training_job import USER_ACTION_MESSAGE, TrainingJobTrigger
from airflow_provider.agent_platform.triggers.training_job_sensor import TrainingJobSensorTrigger
from airflow_provider.agent_platform.triggers.waiting import wait_for_job
from tests.triggers.fake_airflow import FakeAirflow

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.emulator import Emulator

pytestmark = pytest.mark.agent_platform_emulator(runner="simulated", speed=60)

PLACE: dict[str, Any] = {"project_id": "laptop", "region": "us-central1"}


def submit(seconds: float, exit_code: int = 0, labels: dict[str, str] | None = None) -> str:
    """Start a job that runs for so many seconds of the emulator; answer its name."""
    environment = [
        {"name": "EMULATE_RUN_SECONDS", "value": str(seconds)},
        {"name": "EMULATE_EXIT_CODE", "value": str(exit_code)},
    ]
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "gcr.io/p/i:1", "env": environment},
    }
    job = {"display_name": "waits", "job_spec": {"worker_pool_specs": [pool]}, "labels": labels or {}}
    with TrainingJobHook() as hook:
        return str(hook.create(job, **PLACE).name)


async def event_of(one: Any) -> TrainingJobEvent:
    one.quiet = 0.0
    events = [event async for event in one.run()]
    return parse_event(events[0].payload)


def waiting(name: str, **arguments: Any) -> TrainingJobTrigger:
    return TrainingJobTrigger(name, poll_interval=1.0, **arguments)


async def test_jobs_of_every_kind_of_end_are_told_apart(agent_platform_emulator: Emulator) -> None:
    names = [await asyncio.to_thread(submit, 60 + 10 * n, 1 if n % 3 == 0 else 0) for n in range(9)]
    results = await asyncio.gather(*(event_of(waiting(name)) for name in names))
    assert [event.job_name for event in results] == names
    for number, event in enumerate(results):
        assert event.type == "ended"
        assert event.state == (JobState.FAILED if number % 3 == 0 else JobState.SUCCEEDED)
        # The error comes late, and is waited for.
        assert (event.error_code == 3) == (number % 3 == 0)
    # A list that was under way when the last waiter left is still answered.
    end = asyncio.get_running_loop().time() + 30
    while pollers() and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.05)
    assert pollers() == ()


async def test_a_hundred_waiting_jobs_cost_about_one_call_a_poll(agent_platform_emulator: Emulator) -> None:
    names = [await asyncio.to_thread(submit, 36000) for _ in range(100)]
    tasks = [asyncio.create_task(event_of(waiting(name))) for name in names]
    await asyncio.sleep(4)
    before = agent_platform_emulator.control.calls()
    await asyncio.sleep(6)
    after = agent_platform_emulator.control.calls()
    made = {method: count - before.get(method, 0) for method, count in after.items()}
    assert 4 <= made.get("ListCustomJobs", 0) <= 8
    assert made.get("GetCustomJob", 0) == 0
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_clock_that_ends_cancels_the_job_on_the_service(agent_platform_emulator: Emulator) -> None:
    name = await asyncio.to_thread(submit, 36000)
    event = await event_of(waiting(name, run_timeout=3.0))
    assert (event.type, event.state) == ("run_timeout", JobState.CANCELLED)
    assert agent_platform_emulator.control.calls()["CancelCustomJob"] == 1


async def test_a_kill_cancels_the_job_once(agent_platform_emulator: Emulator, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    name = await asyncio.to_thread(submit, 36000)
    one = waiting(name)
    one._task_instance = airflow.ti
    task = asyncio.create_task(event_of(one))
    await asyncio.sleep(2)
    task.cancel(USER_ACTION_MESSAGE)
    with pytest.raises(asyncio.CancelledError):
        await task
    await one.on_kill()
    assert agent_platform_emulator.control.calls()["CancelCustomJob"] == 1
    with TrainingJobHook() as hook:
        job = await asyncio.to_thread(hook.get, name)
    assert job.state in (JobState.CANCELLING, JobState.CANCELLED)


async def test_polls_that_fail_end_no_wait(agent_platform_emulator: Emulator) -> None:
    control = agent_platform_emulator.control
    names = [await asyncio.to_thread(submit, 300) for _ in range(10)]
    for code in ("UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"):
        for method in ("ListCustomJobs", "GetCustomJob"):
            control.add_fault("rpc_error", match={"method": method}, method=method, code=code, times=2)
    results = await asyncio.gather(*(event_of(waiting(name)) for name in names))
    assert {event.state for event in results} == {JobState.SUCCEEDED}


async def test_labels_find_a_job_that_is_not_ours(agent_platform_emulator: Emulator) -> None:
    one = TrainingJobSensorTrigger(labels={"team": "vision", "run": "7"}, poll_interval=1.0, **PLACE)
    task = asyncio.create_task(event_of(one))
    await asyncio.sleep(2)
    assert not task.done()
    await asyncio.to_thread(submit, 60, 0, {"team": "other", "run": "7"})
    name = await asyncio.to_thread(submit, 60, 0, {"team": "vision", "run": "7"})
    event = await task
    assert (event.job_name, event.state) == (name, JobState.SUCCEEDED)


def test_the_plain_mode_ends_with_the_same_events(agent_platform_emulator: Emulator) -> None:
    with TrainingJobHook() as hook:
        event = wait_for_job(hook, submit(60, 1), clocks=Clocks(), poll_interval=1.0)
        assert (event.type, event.state, event.error_code) == ("ended", JobState.FAILED, 3)
        event = wait_for_job(
            hook,
            submit(36000),
            clocks=Clocks(execution_deadline=utcnow().add(seconds=3)),
            poll_interval=1.0,
        )
        assert (event.type, event.state) == ("execution_timeout", JobState.CANCELLED)


async def test_slow_credentials_do_not_block_the_event_loop(
    agent_platform_emulator: Emulator, monkeypatch: Any
) -> None:
    threads: list[int] = []

    from airflow_provider.agent_platform.hooks import clients

    def slow(*arguments: Any, **values: Any) -> Any:
        threads.append(threading.get_ident())
        time.sleep(1.0)
        return prepare(*arguments, **values)

    prepare = clients._prepare
    monkeypatch.setattr(clients, "_prepare", slow)
    name = await asyncio.to_thread(submit, 60)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            used = time.thread_time()
            begun = time.perf_counter()
            await asyncio.sleep(0.01)
            # Both clocks: a busy machine delays the wake-up, and a blocking call uses no CPU.
            late = time.perf_counter() - begun - 0.01
            longest = max(longest, late if late > 0.5 else time.thread_time() - used)

    watching = asyncio.create_task(watch())
    event = await event_of(waiting(name))
    watching.cancel()
    assert event.state == JobState.SUCCEEDED
    assert threads
    assert threading.get_ident() not in threads
    assert longest < 0.5
