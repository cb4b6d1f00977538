"""The wait for a checkpoint: what is stored, when it ends, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.checkpoints import looks
from airflow_provider.agent_platform.checkpoints.store import CheckpointScan
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import checkpoint as module
from airflow_provider.agent_platform.triggers import supervisor
from airflow_provider.agent_platform.triggers.checkpoint import (
    TRIGGER_CLASS_PATH,
    CheckpointEvent,
    CheckpointTrigger,
    UnreadableCheckpointEventError,
    enough,
    moment_of,
    parse_event,
)
from tests.checkpoints.looking import NONE, NOON, FakeHook, InlineExecutor, Scans, at
from tests.triggers.virtual_time import run

FIXTURE: dict[str, Any] = json.loads((Path(__file__).parent / "fixtures" / "checkpoint_v1.json").read_text())
JOB = "projects/1/locations/us-central1/customJobs/77"


class Lines:
    """A logger that keeps its warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def info(self, text: str, *values: object) -> None:
        pass

    def warning(self, text: str, *values: object) -> None:
        self.warnings.append(text % values)


@pytest.fixture(autouse=True)
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_pool", InlineExecutor)


class Waited:
    """One run of a trigger."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scans: Scans, hook: FakeHook, **kwargs: Any) -> None:
        self.hook = hook
        original = looks.shared_look
        monkeypatch.setattr(module, "shared_look", lambda *args, **kw: original(*args, **kw, scan=scans))
        trigger = CheckpointTrigger("gs://b/x/", **kwargs)
        trigger.hook_factory = hook  # type: ignore[misc,assignment]
        lines = Lines()
        trigger._log = lines  # type: ignore[assignment]
        self.warnings = lines.warnings

        async def work() -> tuple[CheckpointEvent, float]:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            events = [event async for event in trigger.run()]
            json.dumps(events[0].payload)
            assert len(events) == 1
            return parse_event(events[0].payload), loop.time() - begun

        self.event, self.seconds = run(work())


# -- what is stored


def test_the_class_path_and_kwargs_of_version_1_still_make_the_same_trigger() -> None:
    stored = FIXTURE["trigger"]
    assert stored["class_path"] == TRIGGER_CLASS_PATH
    assert f"{CheckpointTrigger.__module__}.{CheckpointTrigger.__name__}" == TRIGGER_CLASS_PATH
    assert CheckpointTrigger(**stored["kwargs"]).serialize() == (TRIGGER_CLASS_PATH, stored["kwargs"])


def test_the_least_kwargs_of_version_1_are_enough() -> None:
    path, kwargs = CheckpointTrigger(**FIXTURE["least_trigger_kwargs"]).serialize()
    assert CheckpointTrigger(**kwargs).serialize() == (path, kwargs)
    json.dumps(kwargs)


def test_every_argument_of_the_constructor_is_stored() -> None:
    arguments = set(inspect.signature(CheckpointTrigger.__init__).parameters) - {"self"}
    assert set(CheckpointTrigger("gs://b/x").serialize()[1]) == arguments


def test_kwargs_survive_airflows_own_encoding() -> None:
    from airflow.serialization.decoders import smart_decode_trigger_kwargs
    from airflow.serialization.encoders import encode_trigger

    kwargs = FIXTURE["trigger"]["kwargs"]
    encoded = encode_trigger({"classpath": TRIGGER_CLASS_PATH, "kwargs": kwargs})["kwargs"]
    decoded = {
        key: smart_decode_trigger_kwargs(value)  # type: ignore[no-untyped-call]
        for key, value in encoded.items()
    }
    assert CheckpointTrigger(**decoded).serialize()[1] == kwargs


@pytest.mark.parametrize("event", FIXTURE["events"], ids=lambda event: event["type"])
def test_events_of_version_1_stay_readable(event: dict[str, Any]) -> None:
    assert parse_event(event).to_dict() == event


@pytest.mark.parametrize(
    "event", [None, "reached", [], {}, {"version": 2, "type": "reached"}, {"version": 1, "type": "x"}]
)
def test_an_unknown_event_is_an_error_and_no_success(event: object) -> None:
    with pytest.raises(UnreadableCheckpointEventError, match="Clear the task"):
        parse_event(event)


# -- when it ends


def test_a_checkpoint_that_is_there_ends_it_but_not_in_the_first_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited = Waited(monkeypatch, Scans((0, at(0))), FakeHook())
    assert waited.event.type == "reached"
    assert waited.event.uri == "gs://b/x/checkpoints/checkpoint-10"
    assert waited.event.step == 10
    assert waited.event.time == NOON.isoformat()
    assert waited.seconds == pytest.approx(5.0)


def test_it_waits_for_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = Scans((0, at(0, 10)), (600, at(600, 490)), (1200, at(1200, 510)))
    waited = Waited(monkeypatch, scans, FakeHook(), min_step=500, poll_interval=60)
    assert waited.event.step == 510
    assert waited.seconds == pytest.approx(1200, abs=61)


def test_an_unknown_step_is_not_enough_for_a_step() -> None:
    assert enough(at(0, None), None, None) is not None
    assert enough(at(0, None), 5, None) is None
    assert enough(at(0, 5), 5, None) is not None
    assert enough(at(0, 4), 5, None) is None
    assert enough(NONE, None, None) is None


def test_an_older_checkpoint_is_not_new() -> None:
    assert enough(at(0), None, NOON) is None
    assert enough(at(1), None, NOON) is not None


def test_older_checkpoints_are_left_out_of_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = Scans((0, at(0)), (300, at(300)))
    waited = Waited(monkeypatch, scans, FakeHook(), newer_than=NOON.isoformat())
    assert waited.event.step == 10
    assert waited.seconds >= 300
    assert scans.arguments[0]["since"] == NOON


def test_a_look_is_made_every_interval_and_the_job_read_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = Scans((0, NONE), (3600, at(3600)))
    waited = Waited(monkeypatch, scans, FakeHook(), job_name=JOB, poll_interval=60)
    assert 55 <= len(scans.looked_at) <= 62
    assert 55 <= waited.hook.reads <= 62


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED, JobState.SUCCEEDED, JobState.EXPIRED])
def test_a_job_that_ended_without_it_ends_the_wait(monkeypatch: pytest.MonkeyPatch, state: JobState) -> None:
    hook = FakeHook((0, 3), (600, int(state)), error="exited with 1")
    waited = Waited(monkeypatch, Scans((0, at(0, 100))), hook, min_step=500, job_name=JOB)
    event = waited.event
    assert (event.type, event.step, event.job_state, event.message) == (
        "job_ended",
        100,
        f"JOB_STATE_{state.name}",
        "exited with 1",
    )
    assert waited.seconds < 700


@pytest.mark.parametrize(
    "state", [JobState.QUEUED, JobState.PENDING, JobState.CANCELLING, JobState.PAUSED, 99]
)
def test_a_live_or_unknown_state_goes_on(monkeypatch: pytest.MonkeyPatch, state: int) -> None:
    waited = Waited(monkeypatch, Scans((0, NONE), (900, at(900))), FakeHook((0, int(state))), job_name=JOB)
    assert waited.event.type == "reached"


def test_a_checkpoint_written_just_before_the_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # The end is read at 60 s; the last look before it was at 0 s.
    scans = Scans((0, at(0, 100)), (59, at(59, 500)))
    waited = Waited(monkeypatch, scans, FakeHook((0, 3), (59, 4)), min_step=500, job_name=JOB)
    assert (waited.event.type, waited.event.step) == ("reached", 500)


def test_a_finished_job_that_has_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waited(monkeypatch, Scans((0, at(-500, 500))), FakeHook((0, 4)), min_step=500, job_name=JOB)
    assert waited.event.type == "reached"


def test_a_job_that_is_gone_ends_the_wait_unless_the_checkpoint_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from google.api_core.exceptions import NotFound as Gone

    gone = FakeHook((0, Gone("no such job")))  # type: ignore[no-untyped-call]
    assert Waited(monkeypatch, Scans(), gone, job_name=JOB).event.type == "job_lost"
    assert Waited(monkeypatch, Scans((0, at(0))), gone, job_name=JOB).event.type == "reached"


def test_a_job_that_cannot_be_read_is_said_once_and_does_not_end_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from google.api_core.exceptions import ServiceUnavailable

    hook = FakeHook((0, ServiceUnavailable("away")), (3600, 3))  # type: ignore[no-untyped-call]
    waited = Waited(monkeypatch, Scans((0, NONE), (7200, at(7200))), hook, job_name=JOB)
    assert waited.event.type == "reached"
    assert ["still waiting" in line for line in waited.warnings] == [True]


def test_a_store_that_cannot_be_read_is_said_once_and_does_not_end_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = CheckpointScan(known=False, problem="no permission to list gs://b/x")
    waited = Waited(monkeypatch, Scans((0, away), (7200, at(7200))), FakeHook(), job_name=JOB)
    assert waited.event.type == "reached"
    assert ["no permission" in line for line in waited.warnings] == [True]


def test_a_store_that_cannot_be_read_after_the_end_ends_the_wait_after_some_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = CheckpointScan(known=False, problem="no permission to list gs://b/x")
    waited = Waited(monkeypatch, Scans((0, away)), FakeHook((600, 4)), job_name=JOB)
    assert (waited.event.type, waited.event.message) == ("unreadable", "no permission to list gs://b/x")
    assert 800 < waited.seconds < 1000


def test_without_a_job_nobody_reads_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Waited(monkeypatch, Scans((600, at(600))), FakeHook()).hook.reads == 0


def test_the_hook_has_the_triggers_identity_and_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waited(
        monkeypatch, Scans((0, at(0))), FakeHook(), gcp_conn_id="c", impersonation_chain=["a", "b"]
    )
    assert waited.hook.arguments == {"gcp_conn_id": "c", "impersonation_chain": ["a", "b"]}
    assert waited.hook.closed == 1
    assert waited.hook.clients_closed == 1
    assert waited.hook.connections == 1


def test_a_cancelled_wait_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    hook, scans = FakeHook(), Scans()
    original = looks.shared_look
    monkeypatch.setattr(module, "shared_look", lambda *args, **kw: original(*args, **kw, scan=scans))
    trigger = CheckpointTrigger("gs://b/x")
    trigger.hook_factory = hook  # type: ignore[misc,assignment]

    async def work() -> None:
        async def consume() -> None:
            async for _ in trigger.run():
                pass

        task = asyncio.create_task(consume())
        await asyncio.sleep(100)
        task.cancel("trigger cancelled")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not looks._shared.get(asyncio.get_running_loop())

    run(work())
    assert hook.closed == 1
    assert hook.clients_closed == 1


@pytest.mark.parametrize("text", ["P1D", "soon", "2026-13-01T00:00:00Z"])
def test_a_moment_of_no_use_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="newer_than"):
        moment_of(text)


def test_importing_the_trigger_imports_no_google_client() -> None:
    import subprocess
    import sys

    code = (
        "import sys, airflow_provider.agent_platform.triggers.checkpoint, airflow_provider.agent_platform.sensors.checkpoint;"
        "bad = [name for name in sys.modules if name.split('.')[0] == 'grpc' or name.startswith(('google.cloud.', 'google.api_core'))];"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_it_finds_a_checkpoint_on_a_storage_server_with_a_real_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.checkpoints.storage import BUCKET, StorageServer

    monkeypatch.undo()  # real threads
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
    with StorageServer() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)

        async def work() -> CheckpointEvent:
            trigger = CheckpointTrigger(f"gs://{BUCKET}/x", min_step=20, poll_interval=0.2)
            waiting: asyncio.Future[Any] = asyncio.ensure_future(trigger.run().__anext__())
            await asyncio.to_thread(
                server.put, "x/checkpoints/checkpoint-10/a", "x/checkpoints/checkpoint-10/_SUCCESS"
            )
            await asyncio.sleep(0.5)
            assert not waiting.done()
            await asyncio.to_thread(
                server.put, "x/checkpoints/checkpoint-20/a", "x/checkpoints/checkpoint-20/_SUCCESS"
            )
            event = await asyncio.wait_for(waiting, 30)
            return parse_event(event.payload)

        event = asyncio.run(work())
    assert (event.type, event.step) == ("reached", 20)
    assert event.uri == f"gs://{BUCKET}/x/checkpoints/checkpoint-20"


# -- the end of a training task, over all its jobs


class Airflow:
    """Answers questions for the state of a task by time."""

    def __init__(self, *timeline: tuple[float, supervisor.TaskState | Exception]) -> None:
        self.timeline = timeline
        self.asked: list[str | None] = []

    async def __call__(self, ti: Any, *, task_id: str | None = None) -> supervisor.TaskState:
        self.asked.append(task_id)
        passed = asyncio.get_running_loop().time() - 1000.0
        answer = [entry for seconds, entry in self.timeline if seconds <= passed][-1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def task(state: str | None, *, exists: bool = True) -> supervisor.TaskState:
    return supervisor.TaskState(exists=exists, state=state)


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed", "removed"])
def test_a_training_task_that_ended_without_it_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    airflow = Airflow((0, task("deferred")), (600, task(state)))
    monkeypatch.setattr(supervisor, "task_state", airflow)
    waited = Waited(monkeypatch, Scans((0, at(0, 100))), FakeHook(), min_step=500, training_task_id="train")
    assert (waited.event.type, waited.event.step, waited.event.job_state) == ("job_ended", 100, state)
    assert waited.seconds < 700
    assert set(airflow.asked) == {"train"}
    assert waited.hook.reads == 0


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "running", "deferred", "up_for_retry"])
def test_a_training_task_that_may_go_on_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    monkeypatch.setattr(supervisor, "task_state", Airflow((0, task(state))))
    waited = Waited(monkeypatch, Scans((0, NONE), (900, at(900))), FakeHook(), training_task_id="train")
    assert waited.event.type == "reached"


def test_what_a_training_task_wrote_just_before_its_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "task_state", Airflow((0, task("deferred")), (59, task("success"))))
    scans = Scans((0, at(0, 100)), (59, at(59, 500)))
    waited = Waited(monkeypatch, scans, FakeHook(), min_step=500, training_task_id="train")
    assert (waited.event.type, waited.event.step) == ("reached", 500)


def test_a_task_that_the_run_does_not_have_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "task_state", Airflow((0, task(None, exists=False))))
    waited = Waited(monkeypatch, Scans(), FakeHook(), training_task_id="trian")
    assert waited.event.type == "job_lost"
    assert "no task trian" in (waited.event.message or "")


def test_an_airflow_that_does_not_answer_is_said_once_and_does_not_end_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = supervisor.NoSupervisorError("nobody to ask")
    monkeypatch.setattr(supervisor, "task_state", Airflow((0, away)))
    waited = Waited(monkeypatch, Scans((0, NONE), (3600, at(3600))), FakeHook(), training_task_id="train")
    assert waited.event.type == "reached"
    assert ["nobody to ask" in line for line in waited.warnings] == [True]
