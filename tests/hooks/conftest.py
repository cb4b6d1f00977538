"""An emulator that runs no process, and a hook on it whose clock does not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider.agent_platform.emulator.emulator import Emulator
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from tests.hooks.samples import Time


@pytest.fixture(scope="package")
def running_emulator() -> Iterator[Emulator]:
    with Emulator(speed=60, runner="simulated") as emulator:
        yield emulator


@pytest.fixture
def emulator(running_emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", running_emulator.grpc_target)
    running_emulator.control.reset()
    yield running_emulator
    running_emulator.control.reset()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def hook(emulator: Emulator, time: Time) -> Iterator[TrainingJobHook]:
    with TrainingJobHook(sleep=time.sleep, asleep=time.asleep, clock=time.clock) as made:
        yield made
