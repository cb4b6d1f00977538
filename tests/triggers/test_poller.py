"""The shared poll loop: whom it wakes, what it asks, when it stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.poller import ACTIVE_FILTER, Poller
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.subscription import JobGoneError, Subscription
from airflow_provider.agent_platform.triggers.view import JobView
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import now, run


def key(number: int | str = 1, conn: str = "google_cloud_default") -> PollKey:
    return PollKey.of(job_name(number), gcp_conn_id=conn)


def poller(service: FakeService) -> Poller:
    return poller_for(key(), reader_factory=service.reader)


async def following(subscription: Subscription, seconds: float) -> JobView | None:
    moment = now()
    return await subscription.next(until=moment.add(seconds=seconds), now=moment)


def test_a_waiter_gets_the_first_reading_within_a_second_and_then_each_change() -> None:
    service = FakeService()

    async def scenario() -> list[int]:
        service.put(1, JobState.PENDING)
        loop = asyncio.get_running_loop()
        with poller(service).subscribe(job_name(1), interval=30) as subscription:
            first = await following(subscription, 5)
            assert loop.time() < 1001.5
            service.put(1, JobState.RUNNING)
            second = await following(subscription, 60)
            service.put(1, JobState.SUCCEEDED)
            third = await following(subscription, 60)
        return [view.state for view in (first, second, third) if view is not None]

    assert run(scenario()) == [JobState.PENDING, JobState.RUNNING, JobState.SUCCEEDED]


def test_only_the_waiters_whose_job_changed_are_woken() -> None:
    service = FakeService()
    woken: list[int] = []

    async def wait(number: int) -> None:
        with poller(service).subscribe(job_name(number), interval=30) as subscription:
            while await following(subscription, 3600) is not None:
                woken.append(number)

    async def scenario() -> None:
        for number in range(250):
            service.put(number, JobState.RUNNING)
        tasks = [asyncio.create_task(wait(number)) for number in range(250)]
        await asyncio.sleep(120)
        assert sorted(woken) == list(range(250))
        woken.clear()
        service.put(7, JobState.PENDING)
        service.put(201, JobState.SUCCEEDED)
        await asyncio.sleep(40)
        assert sorted(woken) == [7, 201]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(scenario())


@pytest.mark.parametrize("jobs", [100, 1000])
def test_calls_of_a_poll_grow_with_pages_and_not_with_tasks(jobs: int) -> None:
    service = FakeService()

    async def scenario() -> float:
        for number in range(jobs):
            service.put(number, JobState.RUNNING)
        subscriptions = [poller(service).subscribe(job_name(n), interval=30) for n in range(jobs)]
        await asyncio.sleep(300)  # the jobs are not young any more
        service.calls.clear()
        await asyncio.sleep(600)
        polls = 600 / 30
        for subscription in subscriptions:
            subscription.close()
        assert service.calls["get"] == 0
        return service.calls["list"] / polls

    calls = run(scenario())
    # The interval is shortened by up to a tenth, so there are a few polls more.
    assert jobs / 100 <= calls <= (jobs / 100 + 1) * 1.12


def test_waiters_that_keep_coming_are_all_read_soon_after_the_last_one_came() -> None:
    service = FakeService()
    read_at: list[float] = []

    async def wait(number: int) -> None:
        with poller(service).subscribe(job_name(number), interval=30) as subscription:
            await following(subscription, 3600)
            read_at.append(asyncio.get_running_loop().time())

    async def scenario() -> float:
        for number in range(3000):
            service.put(number, JobState.RUNNING)
        tasks = []
        for number in range(3000):  # as a triggerer starts them
            tasks.append(asyncio.create_task(wait(number)))
            await asyncio.sleep(20 / 3000)
        last_came = asyncio.get_running_loop().time()
        await asyncio.gather(*tasks)
        return max(read_at) - last_came

    # A list of 30 pages every 12 seconds, and not all calls of the minute at once.
    assert run(scenario()) < 12.5


def test_a_list_asks_for_few_fields_of_jobs_that_have_not_ended_a_hundred_a_page() -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(10)
        ]
        await asyncio.sleep(5)
        for subscription in subscriptions:
            subscription.close()

    run(scenario())
    assert set(service.filters) == {ACTIVE_FILTER}
    assert "RUNNING" not in ACTIVE_FILTER  # a state that is new to us is shown too
    assert set(service.masks) == {("name", "state", "create_time", "start_time", "update_time")}


def test_a_handful_of_waiters_is_read_with_get() -> None:
    service = FakeService()

    async def scenario() -> None:
        for number in range(500):
            service.put(f"other-{number}", JobState.RUNNING)
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30):
            await asyncio.sleep(300)

    run(scenario())
    assert service.calls["list"] == 0
    assert 10 <= service.calls["get"] <= 20


def test_few_waiters_in_a_project_with_thousands_of_jobs_go_back_to_get() -> None:
    service = FakeService()

    async def scenario() -> None:
        for number in range(3000):
            service.put(f"other-{number}", JobState.RUNNING)
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(10)
        ]
        await asyncio.sleep(300)
        service.calls.clear()
        await asyncio.sleep(300)
        for subscription in subscriptions:
            subscription.close()

    run(scenario())
    assert service.calls["list"] == 0
    assert service.calls["get"] <= 10 * 12


def test_few_waiters_go_back_to_the_list_when_the_other_jobs_have_ended() -> None:
    service = FakeService()

    async def scenario() -> None:
        others = [service.put(f"other-{number}", JobState.RUNNING) for number in range(4900)]
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(40)
        ]
        await asyncio.sleep(3000)
        # While they are there: read one by one, and counted seldom.
        assert service.calls["list"] <= 50 * (3000 / 600 + 1)
        for name in others:
            del service.jobs[name]
        await asyncio.sleep(700)
        service.calls.clear()
        await asyncio.sleep(3600)
        for subscription in subscriptions:
            subscription.close()

    run(scenario())
    assert service.calls["get"] == 0
    assert 120 <= service.calls["list"] <= 134


def test_a_job_that_left_the_list_is_read_once_with_its_error() -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(10)
        ]
        await following(subscriptions[3], 60)
        service.put(3, JobState.FAILED, error=(3, "The replica workerpool0-0 exited"))
        view = await following(subscriptions[3], 60)
        await asyncio.sleep(200)  # it is final: nobody reads it again, though its waiter is still there
        assert service.calls["get"] == 1
        for subscription in subscriptions:
            subscription.close()
        return view

    view = run(scenario())
    assert view is not None
    assert (view.state, view.error_code) == (JobState.FAILED, 3)
    assert view.end_time is not None


@pytest.mark.parametrize("error", [(8, "Replicas low on memory: workerpool0."), (1, "")])
def test_a_late_error_wakes_the_waiter_again(error: tuple[int, str]) -> None:
    service = FakeService()

    async def scenario() -> list[JobView | None]:
        with poller(service).subscribe(service.put(1, JobState.FAILED), interval=30) as subscription:
            first = await following(subscription, 10)
            service.put(1, JobState.FAILED, error=error)
            return [first, await following(subscription, 60)]

    first, second = run(scenario())
    assert first is not None
    assert second is not None
    assert (first.error_code, second.error_code) == (None, error[0])
    assert first.waits_for_error
    assert not second.waits_for_error


def test_many_jobs_that_end_at_once_are_found_with_few_calls() -> None:
    service = FakeService()
    ended: list[float] = []

    async def wait(number: int) -> None:
        with poller(service).subscribe(job_name(number), interval=30) as subscription:
            view = await following(subscription, 60)
            while view is not None and not view.ended:
                view = await following(subscription, 3600)
        ended.append(asyncio.get_running_loop().time())

    async def scenario() -> float:
        for number in range(1000):
            service.put(number, JobState.RUNNING)
        tasks = [asyncio.create_task(wait(number)) for number in range(1000)]
        await asyncio.sleep(200)
        service.calls.clear()
        for number in range(1000):
            service.put(number, JobState.SUCCEEDED)
        start = asyncio.get_running_loop().time()
        await asyncio.gather(*tasks)
        return max(ended) - start

    assert run(scenario()) <= 33
    assert sum(service.calls.values()) <= 25


def test_a_job_the_list_does_not_show_yet_is_not_lost() -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.PENDING), interval=30) for n in range(10)
        ]
        service.hidden.add(job_name(4))
        view = await following(subscriptions[4], 20)
        assert view is not None
        assert view.state == JobState.PENDING
        service.put(4, JobState.RUNNING)
        view = await following(subscriptions[4], 60)
        assert view is not None
        assert view.state == JobState.RUNNING
        for subscription in subscriptions:
            subscription.close()

    run(scenario())


def test_a_list_that_lags_behind_an_end_does_not_bring_the_job_back_to_life() -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(10)
        ]
        await following(subscriptions[0], 60)
        await poller(service).read(job_name(0))
        service.put(0, JobState.FAILED)
        await poller(service).read(job_name(0))
        view = await following(subscriptions[0], 60)
        assert view is not None
        assert view.state == JobState.FAILED
        original = service.list_page

        async def stale(**arguments: Any) -> Any:
            items, token = await original(**arguments)
            return [*items, _like(service, 0, JobState.RUNNING)], token

        service.list_page = stale  # type: ignore[method-assign]
        assert await following(subscriptions[0], 100) is None
        for subscription in subscriptions:
            subscription.close()

    run(scenario())


def _like(service: FakeService, number: int, state: int) -> Any:
    raw = type(service.jobs[job_name(number)])()
    raw.name, raw.state = job_name(number), state
    return raw


def test_several_waiters_of_one_job_are_all_woken() -> None:
    service = FakeService()

    async def scenario() -> list[int]:
        name = service.put(1, JobState.RUNNING)
        subscriptions = [poller(service).subscribe(name, interval=30) for _ in range(3)]
        views = await asyncio.gather(*(following(one, 10) for one in subscriptions))
        subscriptions[0].close()
        service.put(1, JobState.SUCCEEDED)
        views += await asyncio.gather(*(following(one, 60) for one in subscriptions[1:]))
        for subscription in subscriptions:
            subscription.close()
            subscription.close()  # more than once does no harm
        return [view.state for view in views if view is not None]

    assert run(scenario()) == [3, 3, 3, 4, 4]


def test_a_deleted_job_is_lost_for_its_own_waiter_only_and_only_after_two_answers() -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(5)
        ]
        for subscription in subscriptions:
            await following(subscription, 60)
        del service.jobs[job_name(2)]
        with pytest.raises(JobGoneError, match="customJobs/2"):
            await following(subscriptions[2], 60)
        assert service.calls["get"] == 2
        assert await following(subscriptions[3], 60) is None
        for subscription in subscriptions:
            subscription.close()

    run(scenario())


def test_a_job_that_one_answer_missed_is_not_lost() -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        name = service.put(1, JobState.RUNNING)
        service.fail(api_error("NotFound", "not here"), method="get", times=1)
        with poller(service).subscribe(name, interval=30) as subscription:
            return await following(subscription, 30)

    view = run(scenario())
    assert view is not None
    assert view.state == JobState.RUNNING


def test_the_smallest_interval_of_all_waiters_counts_while_it_is_there() -> None:
    service = FakeService()

    async def scenario() -> tuple[int, int]:
        one = poller(service)
        slow = one.subscribe(service.put(1, JobState.RUNNING), interval=60)
        fast = one.subscribe(service.put(2, JobState.RUNNING), interval=10)
        await asyncio.sleep(100)
        service.calls.clear()
        await asyncio.sleep(600)
        with_fast = service.calls["get"] // 2
        fast.close()
        await asyncio.sleep(100)
        service.calls.clear()
        await asyncio.sleep(600)
        slow.close()
        return with_fast, service.calls["get"]

    with_fast, without = run(scenario())
    assert 60 <= with_fast <= 68
    assert 10 <= without <= 12


def test_a_new_job_is_looked_at_often_and_an_old_one_at_its_interval() -> None:
    service = FakeService()

    async def scenario() -> tuple[int, int]:
        with poller(service).subscribe(service.put(1, JobState.PENDING), interval=30):
            await asyncio.sleep(30)
            young = service.calls["get"]
            await asyncio.sleep(100)
            service.calls.clear()
            await asyncio.sleep(300)
        return young, service.calls["get"]

    young, old = run(scenario())
    assert 5 <= young <= 9
    assert 10 <= old <= 12


def test_when_all_jobs_have_been_queued_for_long_half_as_many_calls_are_made() -> None:
    service = FakeService()

    async def scenario() -> int:
        with poller(service).subscribe(service.put(1, JobState.QUEUED), interval=30):
            await asyncio.sleep(2000)
            service.calls.clear()
            await asyncio.sleep(1200)
        return service.calls["get"]

    assert 20 <= run(scenario()) <= 23


def test_never_more_than_a_quarter_of_the_read_quota_in_any_minute() -> None:
    service = FakeService(page=5, delay=0.001)

    async def scenario() -> None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=5) for n in range(300)
        ]
        await asyncio.sleep(400)
        for subscription in subscriptions:
            subscription.close()

    run(scenario())
    for index, moment in enumerate(service.times):
        within = sum(1 for other in service.times[index : index + 200] if other < moment + 60.0)
        assert within <= 150
