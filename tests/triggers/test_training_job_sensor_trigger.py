"""The sensor's trigger: any job, by name or labels, looked at and never touched."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent, parse_event
from airflow_provider.agent_platform.triggers.poller_registry import pollers
from airflow_provider.agent_platform.triggers.training_job import TrainingJobTrigger
from airflow_provider.agent_platform.triggers.training_job_sensor import (
    SENSOR_TRIGGER_CLASS_PATH,
    TrainingJobSensorTrigger,
    labels_filter,
)
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import START, now, run

FIXTURE: dict[str, Any] = json.loads((Path(__file__).parent / "fixtures" / "v1.json").read_text())


class Labelled(FakeService):
    """A service that finds jobs by labels: those a test has put into ``found``."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    async def list_page(self, *, filter: str, **arguments: Any) -> Any:
        if not filter.startswith("labels."):
            return await super().list_page(filter=filter, **arguments)
        assert filter == 'labels.run="7" AND labels.team="vision"'
        await self._call("find", arguments["timeout"])
        return [self.jobs[name] for name in self.found], ""


def trigger(service: FakeService, **kwargs: Any) -> TrainingJobSensorTrigger:
    one = TrainingJobSensorTrigger(**kwargs)
    one.now, one.reader_factory = now, service.reader
    return one


def by_labels(service: FakeService) -> TrainingJobSensorTrigger:
    labels = {"team": "vision", "run": "7"}
    return trigger(service, labels=labels, project_id="123", region="us-central1", poll_interval=30)


async def event_of(one: TrainingJobSensorTrigger | TrainingJobTrigger) -> TrainingJobEvent:
    events = [event async for event in one.run()]
    assert len(events) == 1
    return parse_event(events[0].payload)


def test_the_class_path_and_kwargs_of_version_1_still_make_the_same_trigger() -> None:
    stored = FIXTURE["sensor_trigger"]
    assert stored["class_path"] == SENSOR_TRIGGER_CLASS_PATH
    made = TrainingJobSensorTrigger(**stored["kwargs"])
    assert made.serialize() == (SENSOR_TRIGGER_CLASS_PATH, stored["kwargs"])
    module, _, name = SENSOR_TRIGGER_CLASS_PATH.rpartition(".")
    assert (module, name) == (type(made).__module__, type(made).__name__)


def test_every_argument_of_the_constructor_is_stored() -> None:
    arguments = set(inspect.signature(TrainingJobSensorTrigger.__init__).parameters) - {"self"}
    assert set(TrainingJobSensorTrigger(job_name=job_name(1)).serialize()[1]) == arguments


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"job_name": job_name(1), "labels": {"a": "b"}},
        {"job_name": "customJobs/1"},
        {"labels": {"a": "b"}},
        {"labels": {"a": "b"}, "project_id": "p"},
        {"job_name": job_name(1), "version": 2},
    ],
)
def test_kwargs_that_make_no_sense_fail_this_trigger_and_not_the_triggerer(kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        TrainingJobSensorTrigger(**kwargs)


def test_a_filter_names_all_labels_in_a_stable_order() -> None:
    assert labels_filter({"b": "2", "a": "1"}) == 'labels.a="1" AND labels.b="2"'


def test_a_job_by_name_is_waited_for_to_its_end() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.RUNNING)
        task = asyncio.create_task(event_of(trigger(service, job_name=job_name(1))))
        await asyncio.sleep(5000)
        service.put(1, JobState.FAILED, error=(3, "exited"))
        return await task

    event = run(scenario())
    assert (event.type, event.state, event.error_code) == ("ended", JobState.FAILED, 3)


@pytest.mark.parametrize("message", [None, "__airflow_user_action__"])
def test_whatever_ends_the_sensor_the_job_goes_on(message: str | None) -> None:
    service = FakeService()

    async def scenario() -> None:
        service.put(1, JobState.RUNNING)
        one = trigger(service, job_name=job_name(1))
        task = asyncio.create_task(event_of(one))
        await asyncio.sleep(100)
        task.cancel(*([message] if message else []))
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(100)
        assert pollers() == ()

    run(scenario())
    assert service.calls["cancel"] == 0


def test_labels_wait_until_there_is_a_job_and_then_for_its_end() -> None:
    service = Labelled()

    async def scenario() -> TrainingJobEvent:
        task = asyncio.create_task(event_of(by_labels(service)))
        await asyncio.sleep(1000)
        assert not task.done()
        service.found.append(service.put(1, JobState.RUNNING))
        await asyncio.sleep(1000)
        service.put(1, JobState.SUCCEEDED)
        return await task

    event = run(scenario())
    assert (event.type, event.job_name, event.state) == ("ended", job_name(1), JobState.SUCCEEDED)


def test_of_several_jobs_the_newest_counts_and_a_newer_one_takes_over() -> None:
    service = Labelled()

    async def scenario() -> TrainingJobEvent:
        service.found.append(service.put(1, JobState.SUCCEEDED, create_time=START.subtract(days=1)))
        service.found.append(service.put(2, JobState.RUNNING, create_time=START))
        task = asyncio.create_task(event_of(by_labels(service)))
        await asyncio.sleep(500)
        service.found.append(service.put(3, JobState.RUNNING, create_time=START.add(seconds=400)))
        service.put(2, JobState.FAILED, error=(3, "exited"))
        await asyncio.sleep(500)
        assert not task.done()
        service.put(3, JobState.SUCCEEDED)
        return await task

    event = run(scenario())
    assert (event.job_name, event.state) == (job_name(3), JobState.SUCCEEDED)


def test_a_search_that_fails_for_a_while_goes_on_and_one_that_is_refused_ends() -> None:
    service = Labelled()

    async def scenario() -> TrainingJobEvent:
        service.fail(api_error("ServiceUnavailable", "503"))
        task = asyncio.create_task(event_of(by_labels(service)))
        await asyncio.sleep(1800)
        assert not task.done()
        service.recover()
        service.fail(api_error("Forbidden", "denied"))
        return await task

    event = run(scenario(), limit=4000)
    assert (event.type, event.error_code) == ("refused", 7)


def test_sensors_and_tasks_of_one_place_share_a_loop() -> None:
    service = FakeService()

    async def scenario() -> int:
        for number in range(20):
            service.put(number, JobState.RUNNING)
        tasks = [
            asyncio.create_task(event_of(trigger(service, job_name=job_name(number)))) for number in range(20)
        ]
        await asyncio.sleep(100)
        count = len(pollers())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return count

    assert run(scenario()) == 1
    assert service.calls["get"] == 0


class Crowded(FakeService):
    """A service that many sensors search for jobs that are not there, and one for a job that is."""

    async def list_page(self, *, filter: str, **arguments: Any) -> Any:
        if not filter.startswith("labels."):
            return await super().list_page(filter=filter, **arguments)
        await self._call("find", arguments["timeout"])
        return ([self.jobs[job_name("found")]] if filter == 'labels.run="found"' else []), ""


def test_a_crowd_of_searching_sensors_delays_neither_tasks_nor_a_sensor_that_has_found_its_job() -> None:
    service = Crowded()

    async def search(run_label: str) -> TrainingJobEvent:
        return await event_of(
            trigger(service, labels={"run": run_label}, project_id="123", region="us-central1")
        )

    async def seconds_to_end(number: int | str, task: asyncio.Task[TrainingJobEvent]) -> float:
        begun = asyncio.get_running_loop().time()
        service.put(number, JobState.SUCCEEDED)
        assert (await task).type == "ended"
        return asyncio.get_running_loop().time() - begun

    async def scenario() -> list[float]:
        service.put("found", JobState.RUNNING)
        found = asyncio.create_task(search("found"))
        await asyncio.sleep(10)
        others = [asyncio.create_task(search(str(number))) for number in range(500)]
        for number in range(300):
            service.put(number, JobState.RUNNING)
        tasks = []
        for number in range(300):
            one = TrainingJobTrigger(job_name(number))
            one.now, one.reader_factory = now, service.reader
            tasks.append(asyncio.create_task(event_of(one)))
        await asyncio.sleep(3600)
        seen = [await seconds_to_end(number, tasks[number]) for number in range(3)]
        seen.append(await seconds_to_end("found", found))
        for task in (*others, *tasks):
            task.cancel()
        await asyncio.gather(*others, *tasks, return_exceptions=True)
        return seen

    assert max(run(scenario())) < 35
    # They search more rarely than they asked for (60 s), but they do.
    assert 60 * 70 <= service.calls["find"] <= 62 * 76
