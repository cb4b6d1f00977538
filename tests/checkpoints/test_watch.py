"""A warning when the newest checkpoint is old, once; the metric; and looks that are shared and never in
the loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pendulum
import pytest

from airflow_provider.agent_platform.checkpoints import looks, watch
from airflow_provider.agent_platform.checkpoints.looks import Place, seconds_ago, shared_look
from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, FoundCheckpoint
from airflow_provider.agent_platform.checkpoints.watch import watch_checkpoints
from tests.checkpoints.looking import NONE, NOON, FakeHook, InlineExecutor, Scans, at
from tests.triggers.virtual_time import now, run

HOUR = 3600.0


@pytest.fixture(autouse=True)
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_pool", InlineExecutor)


class Record:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ages: list[float] = []
        self.tags: Mapping[str, str] = {}

    def log(self, level: int, text: str) -> None:
        assert level == logging.WARNING
        self.lines.append(text)

    def report(self, age: float, tags: Mapping[str, str]) -> None:
        self.ages.append(age)
        self.tags = tags


def watched(
    scans: Scans,
    *,
    hours: float,
    interval: float = 4 * HOUR,
    since: pendulum.DateTime = NOON,
    **arguments: Any,
) -> Record:
    record = Record()

    async def work() -> None:
        task = asyncio.create_task(
            watch_checkpoints(
                "gs://b/x",
                checkpoint_interval=interval,
                running_since=since,
                log=record.log,
                report=record.report,
                now=now,
                scan=scans,
                tags={"dag_id": "d"},
                **arguments,
            )
        )
        await asyncio.sleep(hours * HOUR)
        assert not task.done() or not arguments.get("client_factory")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(work())
    return record


def test_a_checkpoint_that_grows_old_is_warned_of_once() -> None:
    record = watched(Scans((0, NONE), (HOUR, at(HOUR))), hours=20)
    (line,) = record.lines
    assert "gs://b/x/checkpoints/checkpoint-10 (step 10), is 4 hours" in line
    assert "checkpoint_interval is 4 hours" in line


def test_no_checkpoint_at_all_is_warned_of_once() -> None:
    record = watched(Scans(), hours=20)
    (line,) = record.lines
    assert "has run for 4 hours" in line
    assert "without a new complete checkpoint below gs://b/x" in line


def test_a_newer_checkpoint_ends_the_warning_and_arms_it_again() -> None:
    record = watched(Scans((0, at(0)), (6 * HOUR, at(6 * HOUR, 20))), hours=20)
    assert len(record.lines) == 2
    assert "checkpoint-20" in record.lines[1]


def test_checkpoints_in_time_are_not_warned_of() -> None:
    timeline = [(hour * HOUR, at(hour * HOUR, hour)) for hour in range(0, 20, 2)]
    assert watched(Scans(*timeline), hours=20).lines == []


def test_the_time_before_the_job_ran_does_not_count() -> None:
    resumed = Scans((0, at(-30 * HOUR)))
    assert watched(resumed, hours=3.5).lines == []
    (line,) = watched(resumed, hours=6).lines
    assert "without a new complete checkpoint" in line


def test_what_is_incomplete_is_named_in_the_warning() -> None:
    half = FoundCheckpoint(
        uri="gs://b/x/checkpoints/checkpoint-20", step=20, framework="plain", complete=False, why="no marker"
    )
    record = watched(Scans((0, CheckpointScan(incomplete_newer=(half,)))), hours=5)
    assert "checkpoint-20 is not complete: no marker." in record.lines[0]


def test_a_problem_is_said_once_and_no_age_is_reported() -> None:
    record = watched(Scans((0, CheckpointScan(known=False, problem="no permission to list"))), hours=20)
    assert record.lines == ["Checkpoints of gs://b/x: no permission to list."]
    assert record.ages == []


def test_the_same_problem_with_other_numbers_is_said_once() -> None:
    def lost(n: int) -> CheckpointScan:
        return CheckpointScan(known=False, problem=f"none of the 1,{n}00 objects is a checkpoint")

    record = watched(Scans(*((n * 600.0, lost(n)) for n in range(1, 9))), hours=3)
    assert len(record.lines) == 1


def test_a_clock_that_is_ahead_is_said_once() -> None:
    record = watched(Scans((0, at(100 * HOUR)), (2 * HOUR, at(102 * HOUR))), hours=20)
    (line,) = record.lines
    assert "from the future" in line
    assert record.ages == []


def test_a_clock_that_is_a_little_ahead_makes_no_negative_age() -> None:
    record = watched(Scans((0, at(400))), hours=0.12, interval=HOUR)
    assert record.ages
    assert min(record.ages) == 0.0


def test_the_age_is_reported_with_its_tags() -> None:
    record = watched(Scans((0, at(0))), hours=1, interval=HOUR)
    assert record.ages == sorted(record.ages)
    assert 3000 < record.ages[-1] < 3600
    assert record.tags == {"dag_id": "d"}


@pytest.mark.parametrize(
    ("interval", "pause"),
    [(60.0, 60.0), (HOUR / 2, 180.0), (4 * HOUR, 900.0)],
    ids=["1 min", "30 min", "4 h"],
)
def test_it_looks_sixteen_times_an_interval_but_not_more_often_than_every_three_minutes(
    interval: float, pause: float
) -> None:
    scans = Scans((0, at(0)))
    watched(scans, hours=50, interval=interval)
    assert 0.95 <= len(scans.looked_at) * pause / (50 * HOUR) <= 1.05
    assert (
        min(later - earlier for earlier, later in zip(scans.looked_at, scans.looked_at[1:], strict=False))
        > 0.8 * pause
    )


def test_a_look_that_breaks_does_not_end_the_watch() -> None:
    record = watched(Scans((0, RuntimeError("boom")), (HOUR, at(0))), hours=6)
    assert any("RuntimeError: boom" in line for line in record.lines)
    assert any("is 4 hours" in line for line in record.lines)


def test_a_metric_that_breaks_does_not_end_the_watch() -> None:
    record = Record()

    def broken(age: float, tags: Mapping[str, str]) -> None:
        raise RuntimeError("no statsd")

    async def work() -> None:
        task = asyncio.create_task(
            watch_checkpoints(
                "gs://b/x",
                checkpoint_interval=HOUR,
                running_since=NOON,
                log=record.log,
                report=broken,
                now=now,
                scan=Scans((0, at(0))),
            )
        )
        await asyncio.sleep(5 * HOUR)
        assert not task.done()
        task.cancel()

    run(work())
    assert any("is 1 hour" in line for line in record.lines)


@pytest.mark.parametrize(("base", "interval"), [("", 3600.0), ("gs://b/x", 0.0)])
def test_nothing_is_watched_without_a_directory_or_an_interval(base: str, interval: float) -> None:
    run(watch_checkpoints(base, checkpoint_interval=interval, running_since=NOON))


def test_a_hundred_watches_of_one_directory_share_their_looks() -> None:
    scans, hook = Scans((0, at(0))), FakeHook()

    async def work() -> None:
        tasks = [
            asyncio.create_task(
                watch_checkpoints(
                    "gs://b/x/",
                    checkpoint_interval=4 * HOUR,
                    running_since=NOON,
                    log=Record().log,
                    report=Record().report,
                    now=now,
                    scan=scans,
                    identity=("conn", None),
                    client_factory=hook.storage_client,
                    prepare=hook.aload_connection,
                )
            )
            for _ in range(100)
        ]
        await asyncio.sleep(10 * HOUR)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(work())
    assert len(scans.looked_at) < 260
    assert hook.connections == 1
    assert hook.clients_closed == 1


def test_other_identities_look_for_themselves() -> None:
    scans = Scans((0, at(0)))

    async def work() -> None:
        for identity in ("a", "b"):
            with shared_look(
                Place(base_output_directory="gs://b/x", identity=identity), scan=scans
            ) as shared:
                await shared.look(not_before=seconds_ago(0))

    run(work())
    assert len(scans.looked_at) == 2


def test_an_old_look_is_not_given_to_who_wants_a_new_one() -> None:
    scans = Scans((0, NONE), (60, at(60)))

    async def work() -> None:
        with shared_look(Place(base_output_directory="gs://b/x"), scan=scans) as shared:
            assert (await shared.look(not_before=seconds_ago(0))).newest is None
            await asyncio.sleep(61)
            assert (await shared.look(not_before=seconds_ago(90))).newest is None
            assert (await shared.look(not_before=seconds_ago(0))).step == 10

    run(work())
    assert len(scans.looked_at) == 2


def test_a_connection_that_cannot_be_read_is_a_problem_and_is_tried_again() -> None:
    attempts = []

    async def prepare() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("no api-server")

    async def work() -> None:
        place = Place(base_output_directory="gs://b/x")
        with shared_look(place, prepare=prepare, scan=Scans((0, at(0)))) as shared:
            first = await shared.look(not_before=seconds_ago(0))
            assert "no api-server" in (first.problem or "")
            await asyncio.sleep(1)
            assert (await shared.look(not_before=seconds_ago(0))).known

    run(work())
    assert len(attempts) == 2


def test_a_look_never_runs_in_the_event_loops_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    seen: list[str] = []
    slow = threading.Event()

    async def work() -> None:
        loop, stuck = asyncio.get_running_loop(), asyncio.Event()

        def scan(base: str, factory: Any, **arguments: Any) -> CheckpointScan:
            seen.append(threading.current_thread().name)
            loop.call_soon_threadsafe(stuck.set)
            assert slow.wait(10)
            return at(0)

        with shared_look(Place(base_output_directory="gs://b/x"), scan=scan) as shared:
            looking = asyncio.create_task(shared.look(not_before=seconds_ago(0)))
            await stuck.wait()
            slow.set()  # reached while the look is stuck: the loop went on
            assert (await looking).step == 10

    asyncio.run(work())
    assert seen[0].startswith("checkpoint-look")


def test_the_gauge_has_the_documented_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability import stats

    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(stats, "gauge", lambda *args, **kwargs: seen.append((*args, kwargs)))
    watch.gauge(5.0, {"dag_id": "d"})
    assert seen == [("agent_platform.checkpoint.age_seconds", 5.0, {"tags": {"dag_id": "d"}})]


def test_a_gauge_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_stats", lambda: None)
    watch.gauge(5.0, {})
