"""A connection that was changed while jobs are waited for: it is read again, and nobody fails."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from airflow_provider.agent_platform.hooks.errors import ConfigurationError
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import kill
from airflow_provider.agent_platform.triggers.poller_registry import poller_for, pollers
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.renewable_reader import RENEW_SECONDS, RenewableReader
from airflow_provider.agent_platform.triggers.subscription import Subscription
from airflow_provider.agent_platform.triggers.training_job_sensor import TrainingJobSensorTrigger
from airflow_provider.agent_platform.triggers.trouble import (
    REFUSED_FOR,
    PollRefusedError,
    may_be_the_connection,
)
from airflow_provider.agent_platform.triggers.view import JobView
from tests.triggers.fake_airflow import FakeAirflow
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import now, run

KEY = PollKey.of(job_name(1), gcp_conn_id="google_cloud_default")

PLUGIN = "Getting metadata from plugin failed with error: "
REVOKED = api_error("ServiceUnavailable", PLUGIN + "('invalid_grant: Invalid JWT Signature.', ...)")
FORBIDDEN = api_error("Forbidden", "403")
UNAVAILABLE = api_error("ServiceUnavailable", "503")


class Rotating(FakeService):
    """Each reader has the key that the connection held when it was made; only the newest key is accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.key = 0
        self.error: Exception = REVOKED
        self.made: list[Keyed] = []

    def reader(self, key: PollKey) -> Any:
        self.made.append(Keyed(self, self.key))
        return self.made[-1]

    def rotate(self) -> None:
        self.key += 1


class Keyed:
    """A reader with one key."""

    def __init__(self, service: Rotating, key: int) -> None:
        self.service = service
        self.key = key
        self.closed = 0

    async def list_page(self, **arguments: Any) -> Any:
        self._check()
        return await self.service.list_page(**arguments)

    async def get(self, name: str, **arguments: Any) -> Any:
        self._check()
        return await self.service.get(name, **arguments)

    async def cancel(self, name: str, **arguments: Any) -> Any:
        self._check()
        return await self.service.cancel(name, **arguments)

    async def close(self) -> None:
        self.closed += 1

    def _check(self) -> None:
        assert not self.closed
        if self.key != self.service.key:
            raise self.service.error


def waiters(service: Any, jobs: int, *, first: int = 0) -> list[Subscription]:
    poller = poller_for(KEY, reader_factory=service.reader)
    return [
        poller.subscribe(service.put(number, JobState.RUNNING), interval=30)
        for number in range(first, first + jobs)
    ]


async def following(subscription: Subscription, seconds: float) -> JobView | None:
    moment = now()
    return await subscription.next(until=moment.add(seconds=seconds), now=moment)


@pytest.mark.parametrize("jobs", [1, 10], ids=["get", "list"])
@pytest.mark.parametrize(
    "error", [REVOKED, FORBIDDEN, api_error("RefreshError", "no access token")], ids=["key", "403", "token"]
)
def test_a_rotated_key_is_taken_up_within_a_poll_or_two(jobs: int, error: Exception) -> None:
    service = Rotating()
    service.error = error

    async def scenario() -> None:
        subscriptions = waiters(service, jobs)
        for subscription in subscriptions:
            await following(subscription, 60)
        for number in range(3):
            await asyncio.sleep(3600)
            service.rotate()
            service.put(0, JobState.PENDING if number % 2 else JobState.QUEUED)
            assert await following(subscriptions[0], 65) is not None
        for subscription in subscriptions:
            subscription.close()
        await asyncio.sleep(1)
        assert pollers() == ()

    run(scenario())
    assert [reader.key for reader in service.made] == [0, 1, 2, 3]
    assert [reader.closed for reader in service.made] == [1, 1, 1, 1]


def test_while_a_refusal_lasts_the_connection_is_read_about_each_minute() -> None:
    service = FakeService()
    made: list[float] = []
    original = service.reader

    def reader(key: PollKey) -> FakeService:
        made.append(asyncio.get_running_loop().time())
        return original(key)

    service.reader = reader  # type: ignore[method-assign]

    async def scenario() -> None:
        (subscription,) = waiters(service, 1)
        await following(subscription, 3600)
        service.fail(FORBIDDEN)
        with pytest.raises(PollRefusedError):
            await following(subscription, 3600)
        subscription.close()
        await asyncio.sleep(1)

    run(scenario())
    gaps = [later - earlier for earlier, later in itertools.pairwise(made[1:])]
    assert len(gaps) >= 2
    assert all(60 <= gap <= 121 for gap in gaps)
    assert service.readers == service.closed


def test_an_outage_of_the_service_leaves_the_connection_alone() -> None:
    service = FakeService()

    async def scenario() -> None:
        (subscription,) = waiters(service, 1)
        await following(subscription, 3600)
        service.fail(UNAVAILABLE)
        assert await following(subscription, 3600) is None
        subscription.close()

    run(scenario())
    assert service.readers == 1


def test_a_project_that_is_not_found_reads_the_connection_again() -> None:
    service = FakeService()

    async def scenario() -> None:
        subscriptions = waiters(service, 10)
        await asyncio.sleep(3600)
        service.fail(api_error("NotFound", "projects/123"), method="list", times=1)
        await asyncio.sleep(60)
        assert service.readers == 2
        # Not for a job that is not found.
        await asyncio.sleep(300)
        del service.jobs[job_name(3)]
        await asyncio.sleep(100)
        for subscription in subscriptions:
            subscription.close()

    run(scenario())
    assert service.readers == 2


@pytest.mark.parametrize("pause", [10, 150], ids=["list", "get"])
def test_who_comes_in_the_middle_of_a_refusal_has_five_minutes_of_his_own(pause: float) -> None:
    service = FakeService()

    async def wait(number: int) -> float:
        begun = asyncio.get_running_loop().time()
        (subscription,) = waiters(service, 1, first=number)
        with subscription, pytest.raises(PollRefusedError):
            await following(subscription, 7200)
        return asyncio.get_running_loop().time() - begun

    async def scenario() -> list[float]:
        service.fail(FORBIDDEN)
        tasks = []
        for number in range(100):  # they keep the loop and its outage
            tasks.append(asyncio.create_task(wait(number)))
            await asyncio.sleep(pause)
        return list(await asyncio.gather(*tasks))

    waited = run(scenario())
    assert min(waited) >= REFUSED_FOR
    assert max(waited) <= REFUSED_FOR + 120


def test_a_kill_takes_up_a_rotated_key_too(monkeypatch: Any) -> None:
    service = Rotating()
    airflow = FakeAirflow(monkeypatch, "failed")

    async def scenario() -> float:
        keeper = waiters(service, 1)[0]
        await asyncio.sleep(3600)
        service.rotate()
        begun = asyncio.get_running_loop().time()
        name = service.put(5, JobState.RUNNING)
        assert await kill.start(
            ti=airflow.ti, key=KEY, job_name=name, try_number=1, reader_factory=service.reader
        )
        keeper.close()
        return asyncio.get_running_loop().time() - begun

    assert run(scenario()) < 10
    assert service.cancelled == [job_name(5)]


def test_a_sensor_that_only_searches_takes_up_a_rotated_key_too() -> None:
    service = Rotating()

    async def scenario() -> None:
        one = TrainingJobSensorTrigger(labels={"a": "b"}, project_id="123", region="us-central1")
        one.now, one.reader_factory = now, service.reader

        async def wait() -> None:
            async for _ in one.run():
                raise AssertionError("there is no job to wait for")

        task = asyncio.create_task(wait())
        await asyncio.sleep(3600)
        service.rotate()
        await asyncio.sleep(3600)
        assert not task.done()
        task.cancel()

    run(scenario())
    assert len(service.made) == 2


def test_a_reader_is_closed_after_the_last_of_its_calls_and_not_before() -> None:
    class Reader:
        closed = False

        async def close(self) -> None:
            self.closed = True

        async def slow(self) -> str:
            await asyncio.sleep(10)
            assert not self.closed
            return "answered"

    made: list[Any] = []

    def make() -> Any:
        made.append(Reader())
        return made[-1]

    async def scenario() -> None:
        readers = RenewableReader(make)
        await asyncio.sleep(RENEW_SECONDS)
        calls = [asyncio.create_task(readers.call(lambda one: one.slow())) for _ in range(2)]  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        readers.renew()
        readers.renew()  # the new one is not made anew
        await asyncio.sleep(1)
        assert [reader.closed for reader in made] == [False, False]
        assert await asyncio.gather(*calls) == ["answered", "answered"]
        await asyncio.sleep(1)
        assert [reader.closed for reader in made] == [True, False]
        await readers.close()
        assert [reader.closed for reader in made] == [True, True]

    run(scenario())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (REVOKED, True),
        (FORBIDDEN, True),
        (api_error("Unauthenticated", "401"), True),
        (api_error("RefreshError", "impersonation refused"), True),
        (api_error("ServiceUnavailable", PLUGIN + "('Unable to acquire impersonated credentials')"), True),
        (api_error("DefaultCredentialsError", "none"), True),
        (ConfigurationError("keyfile_dict is no valid key"), True),
        (UNAVAILABLE, False),
        (api_error("TooManyRequests", "429"), False),
        (ConnectionResetError("reset"), False),
        (TimeoutError(), False),
        (api_error("NotFound", "no such job"), False),
    ],
    ids=repr,
)
def test_what_another_connection_might_mend(error: Exception, expected: bool) -> None:
    assert may_be_the_connection(error) is expected
