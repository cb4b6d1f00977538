"""Killing: exactly one cancel for what a user did, none for what Airflow does by itself."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import kill, supervisor
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.training_job import USER_ACTION_MESSAGE, TrainingJobTrigger
from tests.triggers.fake_airflow import GONE, FakeAirflow, TaskInstance
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import START, now, run


@pytest.fixture
def service() -> FakeService:
    one = FakeService()
    one.cancel_ends = False
    return one


def waiting(service: FakeService, airflow: FakeAirflow) -> TrainingJobTrigger:
    one = TrainingJobTrigger(service.put(1, JobState.RUNNING), try_number=airflow.ti.try_number)
    one.now, one.reader_factory = now, service.reader
    one._task_instance = airflow.ti
    return one


async def consume(one: TrainingJobTrigger) -> None:
    async for _ in one.run():
        raise AssertionError("no event was due")


async def cancelled(one: TrainingJobTrigger, message: str | None = USER_ACTION_MESSAGE) -> None:
    """Let the trigger wait for a minute and cancel it as the triggerer does."""
    task = asyncio.create_task(consume(one))
    await asyncio.sleep(60)
    task.cancel(*([message] if message else []))
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(400)


@pytest.mark.parametrize("state", ["failed", "success", "skipped", "removed", GONE])
@pytest.mark.parametrize("map_index", [-1, 0, 7])
def test_a_task_that_a_user_ended_cancels_its_job_once(
    service: FakeService, monkeypatch: Any, state: Any, map_index: int
) -> None:
    airflow = FakeAirflow(monkeypatch, state, TaskInstance(map_index=map_index))
    airflow.owned_by(1, job_name(1))
    run(cancelled(waiting(service, airflow)))
    assert service.cancelled == [job_name(1)]


@pytest.mark.parametrize(
    ("state", "owner"),
    [
        ("deferred", 1),  # moved to another triggerer
        ("up_for_retry", 1),  # failed by Airflow: the next try adopts
        ("restarting", 1),
        ("running", 1),  # resumed
        ("running", None),  # cleared: the new try has begun and cancels by itself
        ("deferred", 2),  # the new try waits for the same job
    ],
)
def test_a_task_that_goes_on_keeps_its_job(
    service: FakeService, monkeypatch: Any, state: str, owner: int | None
) -> None:
    airflow = FakeAirflow(monkeypatch, state)
    if owner is not None:
        airflow.owned_by(owner, job_name(1))
    run(cancelled(waiting(service, airflow)))
    assert service.calls["cancel"] == 0
    assert airflow.asked >= 1


def test_a_shutdown_cancels_nothing_and_asks_nothing(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    run(cancelled(waiting(service, airflow), message=None))
    assert service.calls["cancel"] == 0
    assert airflow.asked == 0


def test_before_airflow_3_3_every_cancel_asks_who_owns_the_job(
    service: FakeService, monkeypatch: Any
) -> None:
    from airflow.triggers.base import BaseTrigger

    monkeypatch.delattr(BaseTrigger, "on_kill")
    airflow = FakeAirflow(monkeypatch, "failed")
    run(cancelled(waiting(service, airflow), message=None))
    assert service.cancelled == [job_name(1)]


def test_a_clear_whose_new_try_does_not_come_cancels_after_a_while(
    service: FakeService, monkeypatch: Any
) -> None:
    airflow = FakeAirflow(monkeypatch, None)
    airflow.owned_by(1, job_name(1))
    run(cancelled(waiting(service, airflow)))
    assert service.cancelled == [job_name(1)]


def test_a_clear_whose_new_try_comes_leaves_the_cancel_to_it(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, [None, "scheduled", "queued", "running"])
    run(cancelled(waiting(service, airflow)))
    assert service.calls["cancel"] == 0


def test_a_job_that_is_cancelled_already_gets_no_second_cancel(
    service: FakeService, monkeypatch: Any
) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    one = waiting(service, airflow)
    service.put(1, JobState.CANCELLING)
    run(cancelled(one))
    assert service.calls["cancel"] == 0


def test_a_job_that_has_ended_gets_none(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")

    async def scenario() -> None:
        one = waiting(service, airflow)
        task = asyncio.create_task(consume(one))
        await asyncio.sleep(60)
        service.put(1, JobState.SUCCEEDED)
        task.cancel(USER_ACTION_MESSAGE)
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(400)

    run(scenario())
    assert service.calls["cancel"] == 0


def test_a_deferral_that_timed_out_is_cancelled_by_the_resumed_operator(
    service: FakeService, monkeypatch: Any
) -> None:
    airflow = FakeAirflow(monkeypatch, "scheduled")
    one = waiting(service, airflow)
    after = datetime.datetime.fromtimestamp(START.timestamp() + 30, datetime.timezone.utc)
    vars(one)["timeout_after"] = after  # as the triggerer does
    run(cancelled(one))
    assert service.calls["cancel"] == 0


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.06, 0.5])
def test_the_second_cancel_of_airflow_3_3_does_not_stop_the_first_ones_work(
    service: FakeService, monkeypatch: Any, seconds: float
) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    service.delay = 3.0  # a slow service: far more than the second that on_kill is given

    async def triggerer(one: TrainingJobTrigger) -> None:
        """As run_trigger() of Airflow 3.3: log first, then on_kill(); both can be cancelled again."""
        try:
            await consume(one)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            with suppress(asyncio.CancelledError):
                await one.on_kill()
            raise

    async def scenario() -> None:
        one = waiting(service, airflow)
        task = asyncio.create_task(triggerer(one))
        await asyncio.sleep(60)
        for _ in range(5):
            task.cancel(USER_ACTION_MESSAGE)
            await asyncio.sleep(seconds)
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(400)

    run(scenario())
    assert service.cancelled == [job_name(1)]


def test_on_kill_alone_is_enough(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")

    async def scenario() -> None:
        await waiting(service, airflow).on_kill()

    run(scenario())
    assert service.cancelled == [job_name(1)]


def test_a_kill_before_the_first_poll_is_obeyed(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")

    async def scenario() -> None:
        task = asyncio.create_task(consume(waiting(service, airflow)))
        await asyncio.sleep(0)
        task.cancel(USER_ACTION_MESSAGE)
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(400)

    run(scenario())
    assert service.cancelled == [job_name(1)]


def test_a_kill_while_a_clock_cancels_the_job_does_not_cancel_it_twice(
    service: FakeService, monkeypatch: Any
) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")

    async def scenario() -> None:
        one = TrainingJobTrigger(service.put(1, JobState.RUNNING), run_timeout=30)
        one.now, one.reader_factory, one._task_instance = now, service.reader, airflow.ti
        task = asyncio.create_task(consume(one))
        await asyncio.sleep(60)
        assert service.calls["cancel"] == 1
        task.cancel(USER_ACTION_MESSAGE)
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(400)

    run(scenario())
    assert service.calls["cancel"] == 1


@pytest.mark.parametrize("method", ["get", "cancel"])
def test_a_kill_during_an_outage_is_repeated_until_the_cancel_was_taken(
    service: FakeService, monkeypatch: Any, method: str
) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")

    async def scenario() -> None:
        one = waiting(service, airflow)
        task = asyncio.create_task(consume(one))
        await asyncio.sleep(60)
        service.fail(api_error("ServiceUnavailable", "503"), method=method)
        task.cancel(USER_ACTION_MESSAGE)
        await asyncio.sleep(100)
        assert service.cancelled == []
        service.recover()
        await asyncio.sleep(60)

    run(scenario())
    assert service.cancelled == [job_name(1)]


def test_a_cancel_whose_answer_was_lost_is_not_sent_again(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    original: Callable[..., Any] = service.cancel

    async def lost(name: str, *, timeout: float) -> None:
        await original(name, timeout=timeout)
        raise api_error("DeadlineExceeded", "504")

    service.cancel = lost  # type: ignore[method-assign]
    run(cancelled(waiting(service, airflow)))
    assert service.calls["cancel"] == 1


def test_a_crowd_of_kills_cancels_nothing_that_was_cancelled_while_it_waited_for_its_turn(
    service: FakeService, monkeypatch: Any
) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    jobs = 400  # more than calls may be made in a minute

    async def scenario() -> set[str]:
        names = [service.put(number, JobState.RUNNING) for number in range(jobs)]
        kills = [
            kill.start(
                ti=airflow.ti,
                key=PollKey.of(name, gcp_conn_id="c"),
                job_name=name,
                try_number=1,
                reader_factory=service.reader,
            )
            for name in names
        ]
        await asyncio.sleep(10)
        by_others = {name for name in names if name not in service.cancelled}
        for name in by_others:
            service.put(name.rsplit("/", 1)[-1], JobState.CANCELLING)
        results = await asyncio.gather(*kills)
        assert sum(results) == jobs - len(by_others)
        return by_others

    by_others = run(scenario())
    assert 0 < len(by_others) < jobs
    assert len(service.cancelled) == len(set(service.cancelled)) == jobs - len(by_others)
    assert by_others.isdisjoint(service.cancelled)
    for index, moment in enumerate(service.times):
        assert sum(1 for other in service.times[index : index + 350] if other < moment + 60.0) <= 300


def test_when_airflow_cannot_be_asked_the_job_is_left(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    airflow.error = RuntimeError("the supervisor is gone")
    run(cancelled(waiting(service, airflow)))
    assert service.calls["cancel"] == 0


def test_an_airflow_that_is_busy_for_a_moment_is_asked_again(service: FakeService, monkeypatch: Any) -> None:
    airflow = FakeAirflow(monkeypatch, "failed")
    airflow.error = RuntimeError("database is locked")

    async def scenario() -> None:
        one = waiting(service, airflow)
        task = asyncio.create_task(consume(one))
        await asyncio.sleep(60)
        task.cancel(USER_ACTION_MESSAGE)
        await asyncio.sleep(5)
        airflow.error = None
        await asyncio.sleep(60)

    run(scenario())
    assert service.cancelled == [job_name(1)]


def test_in_a_process_without_a_supervisor_the_job_is_left_at_once(service: FakeService) -> None:
    async def scenario() -> float:
        key = TrainingJobTrigger(service.put(1, JobState.RUNNING))._key
        begun = asyncio.get_running_loop().time()
        assert not await kill.kill(
            ti=TaskInstance(), key=key, job_name=job_name(1), try_number=1, reader_factory=service.reader
        )
        return asyncio.get_running_loop().time() - begun

    assert run(scenario()) < 1
    assert service.calls["cancel"] == 0
    assert supervisor.NoSupervisorError is not None


def test_the_loop_is_kept_for_the_cancel_and_ends_after_it(service: FakeService, monkeypatch: Any) -> None:
    from airflow_provider.agent_platform.triggers import poller_registry

    airflow = FakeAirflow(monkeypatch, "failed")

    async def scenario() -> None:
        await cancelled(waiting(service, airflow))
        assert poller_registry.pollers() == ()
        assert service.readers == service.closed
        assert len(asyncio.all_tasks()) == 2

    run(scenario())
    assert not kill._RUNNING
