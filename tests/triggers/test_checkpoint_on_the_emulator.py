"""The wait for a checkpoint with a real hook, a job on the emulator and a directory on disk. Real time, in
seconds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider.agent_platform.triggers import checkpoint
from airflow_provider.agent_platform.triggers.checkpoint import (
    CheckpointEvent,
    CheckpointTrigger,
    parse_event,
)
from tests.triggers.test_on_the_emulator import submit

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.emulator import Emulator

pytestmark = pytest.mark.agent_platform_emulator(runner="simulated", speed=60)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "QUIET_SECONDS", 0.0)


def put(base: Path, step: int) -> None:
    directory = base / "checkpoints" / f"checkpoint-{step}"
    directory.mkdir(parents=True)
    (directory / "model.bin").write_bytes(b"x")
    (directory / "_SUCCESS").touch()


async def event_of(base: Path, job: str, min_step: int) -> CheckpointEvent:
    trigger = CheckpointTrigger(str(base), min_step=min_step, job_name=job, poll_interval=0.5)
    (event,) = [event async for event in trigger.run()]
    return parse_event(event.payload)


async def test_a_step_of_a_running_job_is_seen_while_it_runs(
    agent_platform_emulator: Emulator, tmp_path: Path
) -> None:
    job = await asyncio.to_thread(submit, 3600)
    put(tmp_path, 10)
    waiting = asyncio.ensure_future(event_of(tmp_path, job, 20))
    await asyncio.sleep(1.5)
    assert not waiting.done()
    put(tmp_path, 20)
    event = await asyncio.wait_for(waiting, 60)
    assert (event.type, event.step) == ("reached", 20)


async def test_a_job_that_fails_on_the_way_ends_the_wait(
    agent_platform_emulator: Emulator, tmp_path: Path
) -> None:
    put(tmp_path, 10)
    job = await asyncio.to_thread(submit, 30, 1)
    event = await asyncio.wait_for(event_of(tmp_path, job, 20), 60)
    assert (event.type, event.step, event.job_state) == ("job_ended", 10, "JOB_STATE_FAILED")


async def test_a_job_that_never_was_ends_the_wait(agent_platform_emulator: Emulator, tmp_path: Path) -> None:
    job = await asyncio.to_thread(submit, 30)
    event = await asyncio.wait_for(event_of(tmp_path, f"{job[:-3]}000", 20), 60)
    assert event.type == "job_lost"
