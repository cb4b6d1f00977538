"""What tests of waiting need instead of threads, a store and the service: scans and jobs by script, in
virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any

import pendulum

from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, FoundCheckpoint

NOON = pendulum.datetime(2026, 1, 31, 12, tz="UTC")
"""The beginning of the virtual loop's time."""


class InlineExecutor(Executor):
    """Runs a look at once: a virtual loop cannot wait for threads."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def at(seconds: float, step: int | None = 10, **fields: Any) -> CheckpointScan:
    """Return a scan whose newest checkpoint was written so many seconds after noon."""
    newest = FoundCheckpoint(
        uri=f"gs://b/x/checkpoints/checkpoint-{step}",
        step=step,
        framework="plain",
        time=NOON.add(seconds=seconds),
    )
    return CheckpointScan(newest=newest, **fields)


NONE = CheckpointScan()


class Scans:
    """Answers looks by time: the last entry whose seconds have passed."""

    def __init__(self, *timeline: tuple[float, CheckpointScan | Exception]) -> None:
        self.timeline = timeline
        self.looked_at: list[float] = []
        self.arguments: list[dict[str, Any]] = []

    def __call__(self, base: str, factory: Any, **arguments: Any) -> CheckpointScan:
        passed = asyncio.get_running_loop().time() - 1000.0
        self.looked_at.append(passed)
        self.arguments.append({"base": base, **arguments})
        if factory is not None:
            factory()
        answer: CheckpointScan | Exception = NONE
        for seconds, entry in self.timeline:
            if seconds <= passed:
                answer = entry
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeHook:
    """A hook whose job's state changes by time."""

    def __init__(self, *timeline: tuple[float, int | Exception], error: str = "") -> None:
        self.timeline = timeline
        self.error = error
        self.reads = 0
        self.closed = 0
        self.connections = 0
        self.arguments: dict[str, Any] = {}
        self.client = SimpleNamespace(close=self._closed)
        self.clients_closed = 0

    def __call__(self, **arguments: Any) -> FakeHook:
        self.arguments = arguments
        return self

    def __enter__(self) -> FakeHook:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed += 1

    def storage_client(self) -> Any:
        return self.client

    async def aload_connection(self) -> None:
        self.connections += 1

    async def aget(self, name: str) -> Any:
        return self._job(asyncio.get_running_loop().time() - 1000.0)

    def get(self, name: str) -> Any:
        return self._job(0.0)

    async def aclose(self) -> None:
        self.closed += 1

    def _closed(self) -> None:
        self.clients_closed += 1

    def _job(self, passed: float) -> Any:
        self.reads += 1
        answer: int | Exception = 3
        for seconds, entry in self.timeline:
            if seconds <= passed:
                answer = entry
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(state=answer, error=SimpleNamespace(message=self.error), create_time=NOON)
