"""When a shared poll loop begins and ends, who shares one, and what it leaves behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import poller_registry
from airflow_provider.agent_platform.triggers.poller import Poller
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.subscription import Subscription
from airflow_provider.agent_platform.triggers.trouble import PollRefusedError
from airflow_provider.agent_platform.triggers.view import JobView
from tests.triggers.fake_service import FakeService, job_name
from tests.triggers.virtual_time import now, run


def key(number: int | str = 1, conn: str = "google_cloud_default") -> PollKey:
    return PollKey.of(job_name(number), gcp_conn_id=conn)


def poller(service: FakeService) -> Poller:
    return poller_for(key(), reader_factory=service.reader)


async def following(subscription: Subscription, seconds: float) -> JobView | None:
    moment = now()
    return await subscription.next(until=moment.add(seconds=seconds), now=moment)


def test_the_loop_stops_with_its_last_waiter_and_closes_its_connection() -> None:
    service = FakeService()

    async def scenario() -> None:
        before = len(asyncio.all_tasks())
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(5)
        ]
        await asyncio.sleep(100)
        assert len(asyncio.all_tasks()) <= before + 2  # the loop, and what it sleeps on
        for subscription in subscriptions:
            subscription.close()
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) == before
        assert poller_registry.pollers() == ()
        assert (service.readers, service.closed) == (1, 1)
        calls = sum(service.calls.values())
        await asyncio.sleep(1000)
        assert sum(service.calls.values()) == calls

    run(scenario())


def test_two_hundred_waiters_that_come_and_go_leave_nothing_behind() -> None:
    service = FakeService()

    async def wait(number: int) -> None:
        await asyncio.sleep(number % 7)
        with poller(service).subscribe(service.put(number, JobState.RUNNING), interval=30) as subscription:
            await following(subscription, 3600)
            await following(subscription, number % 11)

    async def scenario() -> None:
        for _ in range(3):
            await asyncio.gather(*(wait(number) for number in range(200)))
            await asyncio.sleep(5)
        assert len(asyncio.all_tasks()) == 2  # this one, and the limit of virtual time
        assert service.readers == service.closed

    run(scenario())


def test_loops_are_shared_by_connection_chain_place_and_kind_and_by_nothing_else() -> None:
    service = FakeService()
    place = "projects/123/locations/us-central1"

    async def scenario() -> int:
        same = [PollKey.of(f"{place}/customJobs/{n}", gcp_conn_id="a") for n in range(3)]
        others = [
            PollKey.of(f"{place}/customJobs/1", gcp_conn_id="b"),
            PollKey.of(f"{place}/customJobs/1", gcp_conn_id="a", impersonation_chain="x@y"),
            PollKey.of(f"{place}/hyperparameterTuningJobs/1", gcp_conn_id="a"),
            PollKey.of("projects/123/locations/europe-west4/customJobs/1", gcp_conn_id="a"),
            PollKey.of("projects/9/locations/us-central1/customJobs/1", gcp_conn_id="a"),
        ]
        found = [poller_for(one, reader_factory=service.reader) for one in (*same, *others)]
        return len(set(found))

    assert run(scenario()) == 6


def test_the_loop_and_its_logs_belong_to_no_task() -> None:
    service = FakeService()
    bound: contextvars.ContextVar[str] = contextvars.ContextVar("bound", default="nobody")
    seen: list[str] = []

    async def spy(name: str, *, timeout: float) -> Any:
        seen.append(bound.get())
        return service.jobs[name]

    service.get = spy  # type: ignore[method-assign]

    async def scenario() -> None:
        bound.set("the first trigger")
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            await following(subscription, 10)

    run(scenario())
    assert seen == ["nobody"]


def test_an_event_loop_that_went_away_takes_its_pollers_with_it() -> None:
    service = FakeService()
    seen: list[weakref.ref[Any]] = []

    async def scenario() -> None:
        seen.append(weakref.ref(asyncio.get_running_loop()))
        one = poller(service)
        seen.append(weakref.ref(one))
        one.subscribe(service.put(1, JobState.RUNNING), interval=30)
        await asyncio.sleep(10)

    run(scenario())
    gc.collect()
    assert [reference() for reference in seen] == [None, None]


def test_a_loop_that_is_cancelled_does_not_leave_its_waiters_for_ever() -> None:
    service = FakeService()

    async def scenario() -> None:
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            await following(subscription, 10)
            task = poller(service)._task
            assert task is not None
            task.cancel()
            with pytest.raises(PollRefusedError, match="stopped"):
                await following(subscription, 3600)

    run(scenario())


@pytest.mark.parametrize(
    "name",
    ["", "123", "projects/1/locations/r/models/5", "projects//locations/r/customJobs/5", "a/b/c/d/e/f"],
)
def test_a_name_that_is_no_job_is_refused_with_its_form(name: str) -> None:
    with pytest.raises(ValueError, match="it must look like"):
        PollKey.of(name, gcp_conn_id="x")
