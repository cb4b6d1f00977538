"""Polls of which a part fails: what was answered counts, and what was not is asked again, alone."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.poller import Poller
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.subscription import Subscription
from airflow_provider.agent_platform.triggers.trouble import PollRefusedError
from airflow_provider.agent_platform.triggers.view import JobView
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import now, run

UNAVAILABLE = api_error("ServiceUnavailable", "503")
TOO_MANY = api_error("TooManyRequests", "Quota exceeded for quota metric 'reads'")
FORBIDDEN = api_error("Forbidden", "403")


class Paged(FakeService):
    """Remembers the page tokens it was asked for."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(page=10, **arguments)
        self.tokens: list[str] = []

    async def list_page(self, *, page_token: str, **arguments: Any) -> Any:
        self.tokens.append(page_token)
        return await super().list_page(page_token=page_token, **arguments)

    def fail_parts(self, error: Exception, *, rate: float, method: str = "") -> None:
        chance = random.Random(5)
        self.failures.append(
            lambda called: error if method in ("", called) and chance.random() < rate else None
        )


def poller(service: FakeService) -> Poller:
    one = poller_for(PollKey.of(job_name(1), gcp_conn_id="c"), reader_factory=service.reader)
    for outage in (one._outage, one._singles):
        outage._log = logging.getLogger("partial-test")
    return one


async def settled(service: FakeService, pages: int) -> list[Subscription]:
    """Wait for the jobs of so many pages, until they are not young any more."""
    subscriptions = [
        poller(service).subscribe(service.put(number, JobState.RUNNING), interval=30)
        for number in range(pages * service.page)
    ]
    await asyncio.sleep(300)
    for subscription in subscriptions:
        await following(subscription, 0)
    return subscriptions


async def following(subscription: Subscription, seconds: float) -> JobView | None:
    moment = now()
    return await subscription.next(until=moment.add(seconds=seconds), now=moment)


async def seconds_to_see_the_end(service: FakeService, number: int, subscription: Subscription) -> float:
    begun = asyncio.get_running_loop().time()
    service.put(number, JobState.SUCCEEDED)
    view = await following(subscription, 4 * 3600)
    assert view is not None
    assert view.state == JobState.SUCCEEDED
    return asyncio.get_running_loop().time() - begun


def close(subscriptions: list[Subscription]) -> None:
    for subscription in subscriptions:
        subscription.close()


@pytest.mark.parametrize("error", [UNAVAILABLE, TOO_MANY, FORBIDDEN], ids=["503", "429", "403"])
@pytest.mark.parametrize(("pages", "rate"), [(5, 0.1), (50, 0.1), (50, 0.3)])
def test_after_an_outage_that_ends_in_part_an_end_is_seen_within_some_polls(
    error: Exception, pages: int, rate: float
) -> None:
    service = Paged()

    async def scenario() -> list[float]:
        subscriptions = await settled(service, pages)
        service.fail(UNAVAILABLE)
        await asyncio.sleep(120)
        service.recover()
        service.fail_parts(error, rate=rate)
        seen = [await seconds_to_see_the_end(service, n, subscriptions[n]) for n in range(5)]
        close(subscriptions)
        return seen

    assert max(run(scenario())) < 150


def test_refusals_of_a_tenth_of_the_calls_give_nobody_up_and_are_said_now_and_then(caplog: Any) -> None:
    service = Paged()

    async def scenario() -> None:
        subscriptions = await settled(service, 20)
        service.fail_parts(FORBIDDEN, rate=0.1)
        assert await asyncio.gather(*(following(one, 3600) for one in subscriptions)) == [None] * 200
        close(subscriptions)

    with caplog.at_level(logging.INFO):
        run(scenario())
    lines = [record for record in caplog.records if record.name == "partial-test"]
    assert 2 <= len(lines) <= 2 * (3600 / 600 + 1)


def test_a_real_refusal_of_a_list_of_many_pages_is_still_given_up_on() -> None:
    service = Paged()

    async def scenario() -> None:
        subscriptions = await settled(service, 20)
        service.fail_parts(FORBIDDEN, rate=0.1)
        await asyncio.sleep(600)
        service.fail(FORBIDDEN)
        with pytest.raises(PollRefusedError, match="5 min"):
            await following(subscriptions[0], 400)
        close(subscriptions)

    run(scenario())


def test_a_list_goes_on_with_the_page_that_failed() -> None:
    service = Paged()

    async def scenario() -> None:
        subscriptions = await settled(service, 10)
        service.tokens.clear()
        original = service.list_page
        left = [2]

        async def list_page(*, page_token: str, **arguments: Any) -> Any:
            if page_token == "60" and left[0]:
                left[0] -= 1
                service.tokens.append("failed")
                raise FORBIDDEN
            return await original(page_token=page_token, **arguments)

        service.list_page = list_page  # type: ignore[method-assign]
        await asyncio.sleep(40)
        close(subscriptions)

    run(scenario())
    pages = ["", *(str(10 * number) for number in range(1, 10))]
    assert service.tokens[:12] == [*pages[:6], "failed", "failed", *pages[6:]]


def test_a_page_token_that_is_not_accepted_any_more_begins_the_list_anew() -> None:
    service = Paged()

    async def scenario() -> float:
        subscriptions = await settled(service, 10)
        original = service.list_page
        refused = 0
        begun_anew = False

        async def list_page(*, page_token: str, **arguments: Any) -> Any:
            nonlocal refused, begun_anew
            if page_token == "50" and not begun_anew:
                refused += 1
                raise api_error("InvalidArgument", "page_token")
            begun_anew = begun_anew or (refused > 0 and page_token == "")
            return await original(page_token=page_token, **arguments)

        service.list_page = list_page  # type: ignore[method-assign]
        seen = await seconds_to_see_the_end(service, 95, subscriptions[95])
        close(subscriptions)
        return seen

    assert run(scenario()) < 40


def test_after_an_outage_a_lost_page_is_asked_for_again_at_once_as_before() -> None:
    service = Paged()

    async def scenario() -> float:
        subscriptions = await settled(service, 10)
        service.fail(UNAVAILABLE)
        await asyncio.sleep(200)
        service.recover()
        await asyncio.sleep(100)
        service.fail(UNAVAILABLE, times=1)
        calls = len(service.times)
        await asyncio.sleep(40)
        close(subscriptions)
        return service.times[calls + 1] - service.times[calls]

    assert run(scenario()) < 1.5


def test_a_list_that_was_stuck_for_long_begins_anew() -> None:
    service = Paged()

    async def scenario() -> None:
        subscriptions = await settled(service, 10)
        while service.tokens[-1] != "20":  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.001)
        service.fail(UNAVAILABLE)
        await asyncio.sleep(600)
        service.recover()
        service.tokens.clear()
        await asyncio.sleep(61)
        close(subscriptions)

    run(scenario())
    assert service.tokens[0] == ""


@pytest.mark.parametrize("error", [UNAVAILABLE, FORBIDDEN], ids=["503", "403"])
def test_jobs_that_cannot_be_read_one_by_one_cost_the_others_neither_their_wait_nor_their_list(
    error: Exception,
) -> None:
    service = Paged()

    async def scenario() -> int:
        subscriptions = await settled(service, 10)
        service.fail(error, method="get")
        for number in range(3):
            service.hidden.add(job_name(number))
        before = service.calls["list"]
        assert await following(subscriptions[50], 1200) is None
        lists = service.calls["list"] - before
        close(subscriptions)
        return lists

    # Ten pages a poll, 30 s shortened by up to a tenth.
    assert run(scenario()) <= 10 * (1200 / 27 + 1)
    assert service.calls["get"] < 1200


def test_a_job_that_cannot_be_read_while_the_list_works_is_read_again_before_the_next_list() -> None:
    service = Paged()

    async def scenario() -> float:
        subscriptions = await settled(service, 1)
        before = service.calls["get"]
        service.fail(FORBIDDEN, method="get", times=2)
        service.put(0, JobState.SUCCEEDED)
        while service.calls["get"] == before:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)
        begun = asyncio.get_running_loop().time()
        view = await following(subscriptions[0], 600)
        assert view is not None
        close(subscriptions)
        return asyncio.get_running_loop().time() - begun

    assert run(scenario()) < 10


def test_a_waiter_that_comes_during_a_long_list_is_answered_right_after_it() -> None:
    service = Paged(delay=0.5)

    async def scenario() -> float:
        subscriptions = await settled(service, 30)
        while service.tokens[-1] != "50":  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)
        late = poller(service).subscribe(service.put("late", JobState.PENDING), interval=30)
        service.hidden.add(job_name("late"))
        while service.tokens[-1] != "290":  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)
        begun = asyncio.get_running_loop().time()
        service.fail(UNAVAILABLE, method="get", times=3)  # the read right after the list
        view = await following(late, 100)
        assert view is not None
        close([*subscriptions, late])
        return asyncio.get_running_loop().time() - begun

    assert run(scenario()) < 10
