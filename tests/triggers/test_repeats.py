"""Nothing that repeats a failed call takes a cancel, Ctrl-C or the end of the process for a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import airflow_provider.agent_platform.triggers as package
from airflow_provider.agent_platform.checkpoints.store import reads
from airflow_provider.agent_platform.hooks import api_retry
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import calls, kill, trouble
from airflow_provider.agent_platform.triggers.clocks import Clocks
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.waiting import wait_for_job
from tests.triggers.fake_airflow import FakeAirflow
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import START, run

NO_FAILURES: list[type[BaseException]] = [
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
]


@pytest.mark.parametrize("method", ["get", "cancel"])
def test_a_kill_that_is_cancelled_ends_while_the_service_does_not_answer(
    monkeypatch: Any, method: str
) -> None:
    service = FakeService()
    service.hang.add(method)
    airflow = FakeAirflow(monkeypatch, "failed")
    assert _seconds_to_end(service, airflow, after=5) < 1
    assert service.cancelled == []


def test_a_kill_that_is_cancelled_ends_while_airflow_is_asked(monkeypatch: Any) -> None:
    service = FakeService()
    airflow = FakeAirflow(monkeypatch, "queued")
    # Within the second of the questions, whose answer takes 50 ms.
    assert _seconds_to_end(service, airflow, after=4.12) < 1
    assert service.cancelled == []


def _seconds_to_end(service: FakeService, airflow: FakeAirflow, *, after: float) -> float:
    async def scenario() -> float:
        name = service.put(1, JobState.RUNNING)
        task = kill.start(
            ti=airflow.ti,
            key=PollKey.of(name, gcp_conn_id="c"),
            job_name=name,
            try_number=1,
            reader_factory=service.reader,
        )
        await asyncio.sleep(after)
        begun = asyncio.get_running_loop().time()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.get_running_loop().time() - begun

    return run(scenario())


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_process_in_the_middle_of_a_read_ends_the_plain_mode(end: type[BaseException]) -> None:
    class Hook:
        def get(self, name: str, *, timeout: float) -> Any:
            raise end

    def sleep(seconds: float) -> None:
        pytest.fail("it was taken for a failure")

    with pytest.raises(end):
        wait_for_job(Hook(), job_name(1), clocks=Clocks(), now=lambda: START, sleep=sleep)  # type: ignore[arg-type]


@pytest.mark.parametrize("raised", NO_FAILURES)
@pytest.mark.parametrize(
    "predicate",
    [
        trouble.repeatable,
        calls._is_transient,
        api_retry.is_transient,
        api_retry.is_rate_limited,
        reads.is_transient,
    ],
    ids=lambda predicate: f"{predicate.__module__}.{predicate.__name__}",
)
def test_what_is_no_failure_is_not_repeated(
    predicate: Callable[[BaseException], bool], raised: type[BaseException]
) -> None:
    assert not predicate(raised())


def test_an_error_is_repeated_unless_it_is_one_of_those_that_no_repeat_mends() -> None:
    error = api_error("ServiceUnavailable", "503")
    assert trouble.repeatable(error, KeyError)
    assert not trouble.repeatable(KeyError("x"), ValueError, KeyError)


def test_nothing_in_the_package_repeats_all_but_some_errors() -> None:
    # tenacity hands every BaseException to its predicates: "not of this type" is then also said of a cancel.
    root = Path(package.__file__ or "").parents[1]
    assert [path for path in root.rglob("*.py") if "retry_if_not_exception" in path.read_text()] == []
