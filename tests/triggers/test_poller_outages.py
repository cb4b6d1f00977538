"""Failed polls: nobody's failure, said once, and given up on only when the service refuses for long."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.poller import Poller
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.subscription import Subscription
from airflow_provider.agent_platform.triggers.trouble import REFUSED_FOR, UNKNOWN_FOR, PollRefusedError
from airflow_provider.agent_platform.triggers.view import JobView
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import now, run

TRANSIENT = [
    api_error("ServiceUnavailable", "The service is currently unavailable."),
    api_error("InternalServerError", "Internal error encountered."),
    api_error("DeadlineExceeded", "504"),
    api_error("TooManyRequests", "Quota exceeded for quota metric 'reads'"),
    api_error("Aborted", "aborted"),
    ConnectionResetError("connection reset by peer"),
    api_error("RefreshError", "token refresh failed"),
    api_error("TransportError", "no route to the token server"),
    TimeoutError(),
]


def poller(service: FakeService) -> Poller:
    key = PollKey.of(job_name(1), gcp_conn_id="google_cloud_default")
    one = poller_for(key, reader_factory=service.reader)
    one._outage._log = logging.getLogger("outage-test")
    return one


async def following(subscription: Subscription, seconds: float) -> JobView | None:
    moment = now()
    return await subscription.next(until=moment.add(seconds=seconds), now=moment)


@pytest.mark.parametrize("jobs", [1, 10], ids=["get", "list"])
@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
def test_a_poll_that_fails_once_delays_nobody(error: Exception, jobs: int, caplog: Any) -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        service.fail(error, times=1)
        names = [service.put(n, JobState.RUNNING) for n in range(jobs)]
        subscriptions = [poller(service).subscribe(name, interval=30) for name in names]
        view = await following(subscriptions[-1], 6)
        for subscription in subscriptions:
            subscription.close()
        return view

    with caplog.at_level(logging.INFO):
        view = run(scenario())
    assert view is not None
    assert view.state == JobState.RUNNING
    assert [r for r in caplog.records if r.name == "outage-test"] == []


@pytest.mark.parametrize("jobs", [1, 10], ids=["get", "list"])
@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
def test_an_outage_of_half_an_hour_fails_nobody_and_makes_two_lines(
    error: Exception, jobs: int, caplog: Any
) -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        names = [service.put(n, JobState.RUNNING) for n in range(jobs)]
        subscriptions = [poller(service).subscribe(name, interval=30) for name in names]
        for subscription in subscriptions:
            await following(subscription, 60)
        service.fail(error)
        assert await following(subscriptions[0], 1800) is None
        service.put(0, JobState.SUCCEEDED)
        service.recover()
        view = await following(subscriptions[0], 70)
        for subscription in subscriptions:
            subscription.close()
        return view

    with caplog.at_level(logging.INFO):
        view = run(scenario())
    assert view is not None
    assert view.state == JobState.SUCCEEDED
    lines = [r.getMessage() for r in caplog.records if r.name == "outage-test"]
    assert len(lines) == 2
    assert "No task fails because of that" in lines[0]
    assert "works again" in lines[1]
    # Backed off: an outage is not hammered.
    assert sum(service.calls.values()) < 130 * (jobs if jobs < 4 else 1)


def test_five_different_errors_in_a_row_are_one_outage(caplog: Any) -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            await following(subscription, 60)
            for error in TRANSIENT[:5]:
                service.fail(error, times=3)
            await asyncio.sleep(900)
            service.put(1, JobState.SUCCEEDED)
            return await following(subscription, 60)

    with caplog.at_level(logging.INFO):
        view = run(scenario())
    assert view is not None
    assert view.state == JobState.SUCCEEDED
    assert len([r for r in caplog.records if r.name == "outage-test"]) == 2


def test_a_call_that_never_answers_is_ended_by_its_deadline() -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        service.hang.add("get")
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            assert await following(subscription, 60) is None
            service.hang.clear()
            return await following(subscription, 90)

    view = run(scenario())
    assert view is not None
    assert view.state == JobState.RUNNING


def test_a_job_whose_read_hangs_does_not_keep_the_others_waiting_for_ever() -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        service.hang.add(job_name(1))
        one = poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30)
        other = poller(service).subscribe(service.put(2, JobState.RUNNING), interval=30)
        view = await following(other, 5)
        one.close()
        other.close()
        return view

    assert run(scenario()) is not None


@pytest.mark.parametrize("jobs", [1, 10], ids=["get", "list"])
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            api_error("Forbidden", "Permission 'aiplatform.customJobs.list' denied"),
            7,
            "roles/aiplatform.user",
        ),
        (api_error("Unauthenticated", "invalid credentials"), 16, "credentials"),
    ],
)
def test_a_refusal_fails_the_waiters_after_a_bounded_time_with_what_to_do(
    error: Exception, code: int, words: str, jobs: int
) -> None:
    service = FakeService()

    async def scenario() -> float:
        names = [service.put(n, JobState.RUNNING) for n in range(jobs)]
        subscriptions = [poller(service).subscribe(name, interval=30) for name in names]
        for subscription in subscriptions:
            await following(subscription, 60)
        service.fail(error)
        begun = asyncio.get_running_loop().time()
        for subscription in subscriptions:
            with pytest.raises(PollRefusedError, match=words) as caught:
                await following(subscription, 3600)
            assert caught.value.code == code
        ended = asyncio.get_running_loop().time()
        for subscription in subscriptions:
            subscription.close()
        return ended - begun

    assert REFUSED_FOR <= run(scenario()) <= REFUSED_FOR + 120


def test_a_key_that_was_revoked_does_not_keep_its_tasks_waiting_for_ever() -> None:
    service = FakeService()
    text = "Getting metadata from plugin failed with error: ('invalid_grant: Invalid JWT Signature.')"

    async def scenario() -> None:
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            await following(subscription, 60)
            service.fail(api_error("ServiceUnavailable", text))
            with pytest.raises(PollRefusedError, match="not accepted any more"):
                await following(subscription, 3600)

    run(scenario())


def test_a_404_of_the_list_is_a_refusal_of_the_parent_and_not_the_end_of_every_job() -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(10)
        ]
        for subscription in subscriptions:
            await following(subscription, 60)
        service.fail(api_error("NotFound", "projects/123 not found"), method="list")
        with pytest.raises(PollRefusedError, match="project or region"):
            await following(subscriptions[0], 3600)
        for subscription in subscriptions:
            subscription.close()

    run(scenario())


def test_a_refusal_that_passes_in_time_fails_nobody() -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            await following(subscription, 60)
            for _ in range(5):
                service.fail(api_error("Forbidden", "no"))
                await asyncio.sleep(REFUSED_FOR - 70)
                service.recover()
                await asyncio.sleep(90)
            service.put(1, JobState.SUCCEEDED)
            return await following(subscription, 60)

    view = run(scenario())
    assert view is not None
    assert view.state == JobState.SUCCEEDED


def test_a_refusal_of_one_job_fails_its_own_waiter_only() -> None:
    service = FakeService()

    async def scenario() -> None:
        one = poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30)
        other = poller(service).subscribe(service.put(2, JobState.RUNNING), interval=30)
        original = service.get

        async def get(name: str, *, timeout: float) -> Any:
            if name == job_name(1):
                raise api_error("Forbidden", "not this one")
            return await original(name, timeout=timeout)

        service.get = get  # type: ignore[method-assign]
        with pytest.raises(PollRefusedError, match="not this one"):
            await following(one, 3600)
        service.put(2, JobState.SUCCEEDED)
        await following(other, 1)
        view = await following(other, 60)
        assert view is None or view.state == JobState.SUCCEEDED
        one.close()
        other.close()

    run(scenario())


def test_an_error_nobody_foresaw_is_logged_with_its_traceback_and_the_loop_goes_on(caplog: Any) -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            await following(subscription, 60)
            service.fail(ZeroDivisionError("a fault of ours"))
            assert await following(subscription, 1000) is None
            service.put(1, JobState.SUCCEEDED)
            service.recover()
            return await following(subscription, 70)

    with caplog.at_level(logging.INFO):
        view = run(scenario())
    assert view is not None
    assert view.state == JobState.SUCCEEDED
    first = next(r for r in caplog.records if r.name == "outage-test")
    assert first.exc_info is not None
    assert isinstance(first.exc_info[1], ZeroDivisionError)


def test_an_error_nobody_foresaw_that_never_passes_is_given_up_on() -> None:
    service = FakeService()

    async def scenario() -> float:
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            service.fail(ZeroDivisionError("a fault of ours"))
            begun = asyncio.get_running_loop().time()
            with pytest.raises(PollRefusedError, match="a fault of ours"):
                await following(subscription, 10 * 3600)
            return asyncio.get_running_loop().time() - begun

    assert UNKNOWN_FOR <= run(scenario()) <= UNKNOWN_FOR + 150


def test_a_lost_page_does_not_spoil_a_poll_of_many() -> None:
    service = FakeService(page=10)

    async def scenario() -> JobView | None:
        subscriptions = [
            poller(service).subscribe(service.put(n, JobState.RUNNING), interval=30) for n in range(200)
        ]
        for subscription in subscriptions:
            await following(subscription, 60)
        await asyncio.sleep(90)
        calls = [0]

        def every_twentieth(method: str) -> BaseException | None:
            calls[0] += 1
            return api_error("ServiceUnavailable", "one of twenty") if calls[0] % 20 == 0 else None

        service.failures.append(every_twentieth)
        service.put(199, JobState.SUCCEEDED)
        view = await following(subscriptions[199], 40)
        for subscription in subscriptions:
            subscription.close()
        return view

    view = run(scenario())
    assert view is not None
    assert view.state == JobState.SUCCEEDED


def test_a_connection_that_cannot_be_made_is_an_outage_too() -> None:
    service = FakeService()

    async def scenario() -> JobView | None:
        service.fail(api_error("DefaultCredentialsError", "no credentials yet"), times=4)
        with poller(service).subscribe(service.put(1, JobState.RUNNING), interval=30) as subscription:
            return await following(subscription, 300)

    assert run(scenario()) is not None
