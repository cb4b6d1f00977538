"""The trigger as the triggerer runs it: one event, restarts, clocks, lines, the live XCom."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import ENDS, JobState
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from airflow_provider.agent_platform.triggers.ownership import LIVE_XCOM_KEY
from airflow_provider.agent_platform.triggers.training_job import (
    TRIGGER_CLASS_PATH,
    TrainingJobTrigger,
    TriggerArgumentsError,
    parse_event,
)
from tests.triggers.fake_airflow import FakeAirflow
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import START, now, run

FIXTURE: dict[str, Any] = json.loads((Path(__file__).parent / "fixtures" / "v1.json").read_text())


def trigger(service: FakeService, number: int | str = 1, **kwargs: Any) -> TrainingJobTrigger:
    one = TrainingJobTrigger(job_name(number), **kwargs)
    one.now = now
    one.reader_factory = service.reader
    return one


async def event_of(one: TrainingJobTrigger) -> TrainingJobEvent:
    events = [event async for event in one.run()]
    assert len(events) == 1
    json.dumps(events[0].payload)
    return parse_event(events[0].payload)


def iso(seconds: float) -> str:
    return str(START.add(seconds=seconds).isoformat())


# --- what is stored ---------------------------------------------------------------------------------


def test_the_class_path_and_kwargs_of_version_1_still_make_the_same_trigger() -> None:
    stored = FIXTURE["trigger"]
    assert stored["class_path"] == TRIGGER_CLASS_PATH
    module, _, name = stored["class_path"].rpartition(".")
    assert (module, name) == (TrainingJobTrigger.__module__, TrainingJobTrigger.__name__)
    assert TrainingJobTrigger(**stored["kwargs"]).serialize() == (TRIGGER_CLASS_PATH, stored["kwargs"])


def test_the_least_kwargs_of_version_1_are_enough() -> None:
    path, kwargs = TrainingJobTrigger(**FIXTURE["least_trigger_kwargs"]).serialize()
    assert TrainingJobTrigger(**kwargs).serialize() == (path, kwargs)
    json.dumps(kwargs)


def test_every_argument_of_the_constructor_is_stored() -> None:
    import inspect

    arguments = set(inspect.signature(TrainingJobTrigger.__init__).parameters) - {"self"}
    assert set(TrainingJobTrigger(job_name(1)).serialize()[1]) == arguments


def test_kwargs_survive_airflows_own_encoding() -> None:
    from airflow.serialization.decoders import smart_decode_trigger_kwargs
    from airflow.serialization.encoders import encode_trigger

    kwargs = FIXTURE["trigger"]["kwargs"]
    encoded = encode_trigger({"classpath": TRIGGER_CLASS_PATH, "kwargs": kwargs})["kwargs"]
    decoded = {
        key: smart_decode_trigger_kwargs(value)  # type: ignore[no-untyped-call]
        for key, value in encoded.items()
    }
    assert TrainingJobTrigger(**decoded).serialize()[1] == kwargs


@pytest.mark.parametrize(
    "kwargs",
    [
        {"job_name": "customJobs/1"},
        {"version": 2},
        {"queue_deadline": "soon"},
        {"execution_deadline": "12:30"},
        {"run_timeout": 0},
        {"later_argument": 1},
    ],
)
def test_kwargs_that_make_no_sense_fail_this_trigger_and_not_the_triggerer(kwargs: dict[str, Any]) -> None:
    # The triggerer catches a TypeError of a constructor; any other error ends it, with all its triggers.
    with pytest.raises(TypeError):
        TrainingJobTrigger(**{"job_name": job_name(1), **kwargs})


def test_the_error_of_bad_kwargs_is_a_value_error_for_whoever_defers() -> None:
    with pytest.raises(TriggerArgumentsError, match="run_timeout is -1") as caught:
        TrainingJobTrigger(job_name(1), run_timeout=-1)
    assert isinstance(caught.value, ValueError)


# --- one event --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(ENDS))
def test_every_end_is_one_event_with_its_state_and_error(state: JobState) -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, state, error=None if state == JobState.SUCCEEDED else (3, "exited"))
        return await event_of(trigger(service))

    event = run(scenario())
    assert (event.type, event.job_name, event.state) == ("ended", job_name(1), state)
    assert event.error_message == (None if state == JobState.SUCCEEDED else "exited")


def test_no_event_comes_in_the_first_five_seconds_of_a_deferral() -> None:
    service = FakeService()

    async def scenario() -> float:
        service.put(1, JobState.SUCCEEDED)
        begun = asyncio.get_running_loop().time()
        await event_of(trigger(service))
        return asyncio.get_running_loop().time() - begun

    assert 5.0 <= run(scenario()) < 6.0


def test_an_end_is_seen_within_the_interval() -> None:
    service = FakeService()

    async def scenario() -> float:
        service.put(1, JobState.RUNNING)
        task = asyncio.create_task(event_of(trigger(service)))
        await asyncio.sleep(1000)
        service.put(1, JobState.SUCCEEDED)
        begun = asyncio.get_running_loop().time()
        await task
        return asyncio.get_running_loop().time() - begun

    assert run(scenario()) <= 30.5


def test_a_late_error_is_waited_for() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.FAILED)
        task = asyncio.create_task(event_of(trigger(service)))
        await asyncio.sleep(70)
        assert not task.done()
        service.put(1, JobState.FAILED, error=(8, "Replicas low on memory: workerpool0."))
        return await task

    assert run(scenario()).error_code == 8


def test_a_deleted_job_is_lost() -> None:
    service = FakeService()
    assert run(event_of(trigger(service))).type == "lost"


def test_a_refusal_is_an_event_and_not_an_exception() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.RUNNING)
        service.fail(api_error("Forbidden", "denied"))
        return await event_of(trigger(service))

    event = run(scenario(), limit=7200)
    assert (event.type, event.error_code) == ("refused", 7)
    assert event.message is not None
    assert "left as it is" in event.message


def test_a_trigger_that_is_run_anew_gives_the_same_answer() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.RUNNING)
        kwargs = trigger(service, queue_deadline=iso(300), run_timeout=5000).serialize()[1]
        for _ in range(3):
            one = TrainingJobTrigger(**kwargs)
            one.now, one.reader_factory = now, service.reader
            task = asyncio.create_task(event_of(one))
            await asyncio.sleep(400)
            task.cancel()  # as a triggerer that shuts down: without a message
            with pytest.raises(asyncio.CancelledError):
                await task
        one = TrainingJobTrigger(**kwargs)
        one.now, one.reader_factory = now, service.reader
        task = asyncio.create_task(event_of(one))
        await asyncio.sleep(100)
        service.put(1, JobState.SUCCEEDED)
        return await task

    event = run(scenario())
    assert (event.type, event.state) == ("ended", JobState.SUCCEEDED)
    assert service.cancelled == []


# --- clocks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "state", "kind"),
    [
        ({"queue_deadline": iso(600)}, JobState.QUEUED, "queue_timeout"),
        ({"queue_deadline": iso(600)}, JobState.PENDING, "queue_timeout"),
        ({"run_timeout": 600}, JobState.RUNNING, "run_timeout"),
        ({"execution_deadline": iso(600)}, JobState.RUNNING, "execution_timeout"),
        ({"execution_deadline": iso(600)}, JobState.QUEUED, "execution_timeout"),
    ],
)
def test_a_clock_that_ends_cancels_the_job_once_and_waits_for_its_end(
    kwargs: dict[str, Any], state: JobState, kind: str
) -> None:
    service = FakeService()

    async def scenario() -> tuple[TrainingJobEvent, float]:
        service.put(1, state)
        event = await event_of(trigger(service, **kwargs))
        return event, (now() - START).total_seconds()

    event, seconds = run(scenario())
    assert (event.type, event.state) == (kind, JobState.CANCELLED)
    assert service.cancelled == [job_name(1)]
    assert 600 <= seconds < 610


def test_a_run_timeout_counts_from_the_first_start_over_the_platforms_own_retries() -> None:
    service = FakeService()

    async def scenario() -> float:
        service.put(1, JobState.PENDING)
        task = asyncio.create_task(event_of(trigger(service, run_timeout=1000, queue_deadline=iso(900))))
        await asyncio.sleep(200)
        service.put(1, JobState.RUNNING)
        await asyncio.sleep(500)
        service.put(1, JobState.PENDING)
        await asyncio.sleep(400)  # past the queue's deadline, which counts no more
        assert not task.done()
        service.put(1, JobState.RUNNING)
        event = await task
        assert event.type == "run_timeout"
        return (now() - START).total_seconds()

    assert 1200 <= run(scenario()) < 1210


def test_a_job_that_starts_in_the_last_second_is_not_cancelled() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.PENDING)
        task = asyncio.create_task(event_of(trigger(service, queue_deadline=iso(600))))
        await asyncio.sleep(599.5)  # between two polls
        service.put(1, JobState.RUNNING)
        await asyncio.sleep(100)
        service.put(1, JobState.SUCCEEDED)
        return await task

    assert run(scenario()).type == "ended"
    assert service.cancelled == []


def test_a_deadline_holds_while_polls_hang() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.RUNNING)
        service.hang.add("get")
        return await event_of(trigger(service, execution_deadline=iso(600), cancel_bound=120))

    event = run(scenario(), limit=800)
    assert event.type == "execution_timeout"
    assert event.message is not None
    assert "could not be cancelled" in event.message


def test_a_cancel_that_fails_is_repeated_and_counted_once() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.RUNNING)
        service.fail(api_error("ServiceUnavailable", "503"), method="cancel", times=2)
        return await event_of(trigger(service, run_timeout=60))

    assert run(scenario()).type == "run_timeout"
    assert service.calls["cancel"] == 3
    assert len(service.cancelled) == 1


def test_a_job_that_stays_in_cancelling_is_reported_after_the_bound() -> None:
    service = FakeService()
    service.cancel_ends = False

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.RUNNING)
        return await event_of(trigger(service, run_timeout=60, cancel_bound=100))

    event = run(scenario())
    assert (event.type, event.state) == ("run_timeout", JobState.CANCELLING)
    assert service.calls["cancel"] == 1


# --- what a person sees -----------------------------------------------------------------------------


def test_a_day_of_waiting_logs_changes_and_an_hourly_line_and_nothing_per_poll() -> None:
    service = FakeService()
    lines: list[str] = []

    class Log:
        def log(self, level: int, text: str) -> None:
            lines.append(text)

    class Quiet(TrainingJobTrigger):
        log = Log()  # type: ignore[assignment]

    async def scenario() -> None:
        service.put(1, JobState.QUEUED)
        one = Quiet(job_name(1))
        one.now, one.reader_factory = now, service.reader
        task = asyncio.create_task(event_of(one))
        await asyncio.sleep(600)
        service.put(1, JobState.PENDING)
        await asyncio.sleep(300)
        service.put(1, JobState.RUNNING)
        await asyncio.sleep(86400)
        service.put(1, JobState.SUCCEEDED)
        await task

    run(scenario())
    assert len(lines) == 4 + 24
    assert [line.split(": ")[1].split()[0] for line in lines[:3]] == ["QUEUED", "PENDING", "RUNNING"]
    assert all("still RUNNING" in line for line in lines[3:-1])


def test_the_live_xcom_is_written_at_first_and_on_a_change_of_state_and_at_no_other_time(
    monkeypatch: Any,
) -> None:
    service = FakeService()
    airflow = FakeAirflow(monkeypatch)

    async def scenario() -> None:
        service.put(1, JobState.QUEUED)
        one = trigger(service)
        one._task_instance = airflow.ti
        task = asyncio.create_task(event_of(one))
        await asyncio.sleep(600)
        assert [value["state"] for value in airflow.written] == ["JOB_STATE_QUEUED"]
        service.put(1, JobState.RUNNING)
        await asyncio.sleep(3600)
        service.put(1, JobState.PENDING)
        await asyncio.sleep(3600)
        service.put(1, JobState.SUCCEEDED)  # said by the operator
        await task

    run(scenario())
    assert [value["state"] for value in airflow.written] == [
        "JOB_STATE_QUEUED",
        "JOB_STATE_RUNNING",
        "JOB_STATE_PENDING",
    ]
    assert airflow.xcoms[LIVE_XCOM_KEY]["name"] == job_name(1)
    assert airflow.xcoms[LIVE_XCOM_KEY]["region"] == "us-central1"


def test_a_live_xcom_that_cannot_be_written_disturbs_nothing(monkeypatch: Any) -> None:
    service = FakeService()
    airflow = FakeAirflow(monkeypatch)
    airflow.error = RuntimeError("the supervisor is gone")

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.PENDING)
        one = trigger(service)
        one._task_instance = airflow.ti
        task = asyncio.create_task(event_of(one))
        await asyncio.sleep(100)
        service.put(1, JobState.RUNNING)
        await asyncio.sleep(100)
        service.put(1, JobState.SUCCEEDED)
        return await task

    assert run(scenario()).state == JobState.SUCCEEDED


@pytest.mark.parametrize("clock", [{"execution_deadline": iso(50_000)}, {"run_timeout": 50_000}], ids=str)
def test_a_clock_that_is_set_or_a_laptop_that_slept_makes_a_deadline_minutes_late_and_no_more(
    clock: dict[str, Any],
) -> None:
    service = FakeService()
    jumped = [0.0]

    async def scenario() -> tuple[TrainingJobEvent, float]:
        service.put(1, JobState.RUNNING)
        one = trigger(service, **clock)
        one.now = lambda: now().add(seconds=jumped[0])
        task = asyncio.create_task(event_of(one))
        await asyncio.sleep(60)
        jumped[0] = 60_000
        begun = asyncio.get_running_loop().time()
        return await task, asyncio.get_running_loop().time() - begun

    event, late = run(scenario())
    assert event.type == next(iter(clock)).replace("deadline", "timeout")
    assert late < 310


def test_without_a_channel_to_airflow_as_in_dag_test_the_wait_works() -> None:
    service = FakeService()

    async def scenario() -> TrainingJobEvent:
        service.put(1, JobState.PENDING)
        task = asyncio.create_task(event_of(trigger(service)))
        await asyncio.sleep(100)
        service.put(1, JobState.RUNNING)
        await asyncio.sleep(100)
        service.put(1, JobState.SUCCEEDED)
        return await task

    assert run(scenario()).state == JobState.SUCCEEDED


def test_five_hundred_waiting_tasks_of_an_hour_cost_few_calls() -> None:
    service = FakeService()

    async def scenario() -> int:
        for number in range(500):
            service.put(number, JobState.RUNNING)
        tasks = [asyncio.create_task(event_of(trigger(service, number))) for number in range(500)]
        await asyncio.sleep(3600)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sum(service.calls.values())

    # 5 pages a poll, 30 s shortened by 5 % on the average, and some more polls while they were young.
    assert run(scenario()) <= 5 * 3600 / 28 + 60


def test_a_thousand_deadlines_in_one_second_are_all_kept_within_the_bound() -> None:
    service = FakeService()

    async def scenario() -> list[TrainingJobEvent]:
        for number in range(1000):
            service.put(number, JobState.QUEUED)
        waits = [event_of(trigger(service, number, queue_deadline=iso(600))) for number in range(1000)]
        return list(await asyncio.gather(*waits))

    assert {(event.type, event.state) for event in run(scenario())} == {("queue_timeout", JobState.CANCELLED)}
    assert len(service.cancelled) == len(set(service.cancelled)) == 1000
    assert service.calls["get"] < 300  # not one for each


def test_a_deadline_does_not_cancel_a_job_that_was_cancelled_or_ended_while_the_cancel_waited_its_turn() -> (
    None
):
    service = FakeService()
    jobs, late = 700, range(600, 700)  # 300 cancels may be sent in a minute

    async def scenario() -> list[TrainingJobEvent]:
        for number in range(jobs):
            service.put(number, JobState.RUNNING)
        waits = [
            asyncio.create_task(event_of(trigger(service, number, execution_deadline=iso(600))))
            for number in range(jobs)
        ]
        await asyncio.sleep(620)
        assert not any(job_name(number) in service.cancelled for number in late)
        for number in late:
            service.put(number, JobState.SUCCEEDED if number % 2 else JobState.CANCELLING)
        await asyncio.sleep(200)
        for number in late:
            if not number % 2:
                service.put(number, JobState.CANCELLED, error=(1, ""))
        return list(await asyncio.gather(*waits))

    events = run(scenario())
    assert {(events[n].type, events[n].state) for n in late} == {("ended", 4), ("execution_timeout", 7)}
    assert {job_name(number) for number in late}.isdisjoint(service.cancelled)
    assert len(service.cancelled) == 600
