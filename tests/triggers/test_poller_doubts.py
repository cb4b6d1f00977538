"""Failed reads of one job, long apart: each is forgotten when the job is seen in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.subscription import JobGoneError, Subscription
from airflow_provider.agent_platform.triggers.trouble import REFUSED_FOR, Outage, PollRefusedError
from airflow_provider.agent_platform.triggers.view import JobView
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import now, run

KEY = PollKey.of(job_name(1), gcp_conn_id="google_cloud_default")
FORBIDDEN = api_error("Forbidden", "403 for a moment")
NOT_FOUND = api_error("NotFound", "404 of a replica that lags")


def waiters(service: FakeService, jobs: int, *, interval: float = 30) -> list[Subscription]:
    poller = poller_for(KEY, reader_factory=service.reader)
    return [
        poller.subscribe(service.put(number, JobState.RUNNING), interval=interval) for number in range(jobs)
    ]


async def following(subscription: Subscription, seconds: float) -> JobView | None:
    moment = now()
    return await subscription.next(until=moment.add(seconds=seconds), now=moment)


async def one_failed_get(service: FakeService, error: Exception) -> None:
    """Let one list leave out job 0, and its Get fail."""
    before = service.calls["get"]
    service.hidden.add(job_name(0))
    service.fail(error, method="get", times=1)
    while service.calls["get"] == before:  # noqa: ASYNC110 - in virtual time
        await asyncio.sleep(1)
    service.hidden.clear()
    await asyncio.sleep(1)
    service.recover()


@pytest.mark.parametrize("error", [FORBIDDEN, NOT_FOUND], ids=["403", "404"])
def test_a_failed_read_is_forgotten_when_the_job_is_listed_again(error: Exception) -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = waiters(service, 5)
        for subscription in subscriptions:
            await following(subscription, 30)
        for _ in range(5):
            await one_failed_get(service, error)
            assert await following(subscriptions[0], 3600) is None
        service.put(0, JobState.SUCCEEDED)
        view = await following(subscriptions[0], 60)
        assert view is not None
        assert view.state == JobState.SUCCEEDED
        for subscription in subscriptions:
            subscription.close()

    run(scenario())


@pytest.mark.parametrize(
    ("error", "raised"), [(FORBIDDEN, PollRefusedError), (NOT_FOUND, JobGoneError)], ids=["403", "404"]
)
def test_failed_reads_of_a_job_that_is_not_listed_add_up(error: Exception, raised: type[Exception]) -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = waiters(service, 5)
        for subscription in subscriptions:
            await following(subscription, 30)
        service.hidden.add(job_name(0))
        service.fail(error, method="get")
        with pytest.raises(raised):
            await following(subscriptions[0], 600)
        assert await following(subscriptions[1], 3600) is None
        for subscription in subscriptions:
            subscription.close()

    run(scenario())


def test_two_refusals_an_hour_apart_end_no_wait() -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        one, other = waiters(service, 2, interval=3600)
        await following(one, 60)
        original = service.get
        left = [2]

        async def get(name: str, **arguments: Any) -> Any:
            if name == job_name(0) and left[0]:
                left[0] -= 1
                raise FORBIDDEN
            return await original(name, **arguments)

        service.get = get  # type: ignore[method-assign]
        assert await following(one, 2.5 * 3600) is None
        assert left == [0]
        service.put(0, JobState.SUCCEEDED)
        view = await following(one, 3700)
        one.close()
        other.close()
        return view

    view = run(scenario())
    assert view is not None
    assert view.state == JobState.SUCCEEDED


def test_an_outage_is_given_up_on_after_its_bound_and_three_answers() -> None:
    outage = Outage("jobs", None)
    assert outage.failed(FORBIDDEN, 0) is None
    assert outage.failed(FORBIDDEN, 2 * REFUSED_FOR) is None
    assert outage.failed(FORBIDDEN, 2 * REFUSED_FOR + 1) is not None
    outage.worked()
    assert [outage.failed(FORBIDDEN, at) for at in (1000, 1001, 1002, 1003)] == [None] * 4
