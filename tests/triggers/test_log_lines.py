"""A line that nobody reads yet: the event loop goes on, or a triggerer and its supervisor wait for each other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import log_lines
from airflow_provider.agent_platform.triggers.events import parse_event
from airflow_provider.agent_platform.triggers.training_job import TrainingJobTrigger
from airflow_provider.agent_platform.triggers.training_job_sensor import TrainingJobSensorTrigger
from tests.triggers.fake_service import FakeService, job_name

PATIENCE = 5.0


class FullLog:
    """Its first line cannot be written before somebody reads."""

    def __init__(self) -> None:
        self.begun, self.read = threading.Event(), threading.Event()
        self.lines: list[str] = []

    def log(self, level: int, text: str) -> None:
        self.begun.set()
        assert self.read.wait(PATIENCE), "the event loop did not go on"
        self.lines.append(text)


@pytest.mark.parametrize(
    "kind", [TrainingJobTrigger, TrainingJobSensorTrigger], ids=lambda kind: kind.__name__
)
def test_a_line_that_cannot_be_written_yet_does_not_hold_the_event_loop(
    kind: type[TrainingJobTrigger] | type[TrainingJobSensorTrigger], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, log = FakeService(), FullLog()
    service.put(1, JobState.SUCCEEDED)
    monkeypatch.setattr(kind, "log", log)
    one = kind(job_name=job_name(1))
    one.quiet, one.reader_factory = 0.0, service.reader

    async def events() -> list[Any]:
        return [event async for event in one.run()]

    async def scenario() -> list[Any]:
        waiting = asyncio.create_task(events())
        assert await asyncio.to_thread(log.begun.wait, PATIENCE)
        log.read.set()  # reached only by an event loop that goes on
        return await waiting

    event = parse_event(asyncio.run(scenario())[0].payload)
    assert (event.type, event.state) == ("ended", JobState.SUCCEEDED)
    assert [line.split(": ")[1].split()[0] for line in log.lines] == ["SUCCEEDED"]


def test_airflows_own_log_writes_in_a_thread_too() -> None:
    threads: list[str] = []

    class Log:
        async def alog(self, level: int, text: str) -> None:
            await asyncio.to_thread(lambda: threads.append(text))

        def log(self, level: int, text: str) -> None:
            raise AssertionError("this one holds the event loop")

    asyncio.run(log_lines.write(Log(), 20, "100% done"))
    assert threads == ["100% done"]
