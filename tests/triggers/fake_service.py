"""A training service in a few lines, on the client library's own messages: what a poller's reader talks to in unit tests.

It has jobs whose states a test sets, errors it is told to raise, and counts its calls. It is not the emulator: it has no
lifecycle and checks only what a poller depends on (filters are told apart, read masks are obeyed).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pendulum
from google.api_core import exceptions
from google.auth import exceptions as auth_exceptions
from google.cloud.aiplatform_v1.types import CustomJob

from airflow_provider.agent_platform.policy.states import ENDS, JobState
from airflow_provider.agent_platform.triggers.reader import PollKey
from tests.triggers.virtual_time import START, VirtualLoop

PARENT = "projects/123/locations/us-central1"


def job_name(number: int | str) -> str:
    return f"{PARENT}/customJobs/{number}"


class FakeService:
    """Jobs by name, newest last."""

    def __init__(self, *, page: int = 100, delay: float = 0.01) -> None:
        self.jobs: dict[str, Any] = {}
        self.calls: Counter[str] = Counter()
        self.times: list[float] = []
        self.filters: list[str] = []
        self.masks: list[tuple[str, ...]] = []
        self.failures: list[Callable[[str], BaseException | None]] = []
        self.cancelled: list[str] = []
        self.closed = 0
        self.readers = 0
        self.page = page
        self.delay = delay
        self.hidden: set[str] = set()
        self.hang: set[str] = set()
        self.cancel_ends = True

    # --- what a test does

    def put(self, number: int | str, state: int = JobState.QUEUED, **times: Any) -> str:
        name = job_name(number)
        raw = self.jobs.setdefault(name, CustomJob.pb()())
        raw.name, raw.state = name, state
        times.setdefault("create_time", START)
        if state == JobState.RUNNING:
            times.setdefault("start_time", _now())
        if state in ENDS:
            times.setdefault("end_time", _now())
        error = times.pop("error", None)
        for field, value in times.items():
            if value is not None and (field != "start_time" or not raw.HasField("start_time")):
                getattr(raw, field).FromDatetime(value)
        if error is not None:
            raw.error.code, raw.error.message = error
        return name

    def fail(self, error: BaseException, *, method: str | None = None, times: int | None = None) -> None:
        left = [times]

        def failure(called: str) -> BaseException | None:
            if (method is not None and called != method) or left[0] == 0:
                return None
            if left[0] is not None:
                left[0] -= 1
            return error

        self.failures.append(failure)

    def recover(self) -> None:
        self.failures.clear()

    # --- a JobReader

    def reader(self, key: PollKey) -> FakeService:
        self.readers += 1
        return self

    async def list_page(
        self, *, filter: str, fields: Sequence[str], page_token: str, timeout: float
    ) -> tuple[Iterable[Any], str]:
        await self._call("list", timeout)
        self.filters.append(filter)
        self.masks.append(tuple(fields))
        ended = "SUCCEEDED" in filter and "state=" in filter
        found = [
            raw for raw in self.jobs.values() if (raw.state in ENDS) == ended and raw.name not in self.hidden
        ]
        start = int(page_token or 0)
        answer = []
        for raw in found[start : start + self.page]:
            masked = CustomJob.pb()()
            for field in fields:
                if field in ("name", "state"):
                    setattr(masked, field, getattr(raw, field))
                elif raw.HasField(field):
                    getattr(masked, field).CopyFrom(getattr(raw, field))
            answer.append(masked)
        return answer, str(start + self.page) if start + self.page < len(found) else ""

    async def get(self, name: str, *, timeout: float) -> Any:
        await self._call("get", timeout, name)
        if name not in self.jobs:
            raise api_error("NotFound", "The CustomJob does not exist.")
        copy = CustomJob.pb()()
        copy.CopyFrom(self.jobs[name])
        return copy

    async def cancel(self, name: str, *, timeout: float) -> None:
        await self._call("cancel", timeout, name)
        self.cancelled.append(name)
        raw = self.jobs[name]
        if raw.state not in ENDS:
            raw.state = JobState.CANCELLED if self.cancel_ends else JobState.CANCELLING
            if self.cancel_ends:
                raw.error.code = 1

    async def close(self) -> None:
        self.closed += 1

    async def _call(self, method: str, timeout: float, name: str = "") -> None:
        self.calls[method] += 1
        self.times.append(asyncio.get_running_loop().time())
        if method in self.hang or name in self.hang:
            await asyncio.sleep(10 * 86400)
        await asyncio.sleep(self.delay)
        for failure in self.failures:
            error = failure(method)
            if error is not None:
                raise error


def _now() -> pendulum.DateTime:
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return START
    return START.add(seconds=running.passed) if isinstance(running, VirtualLoop) else pendulum.now("UTC")


def api_error(name: str, text: str) -> Exception:
    """Make an error of google-api-core or google-auth by its name."""
    kind: Callable[[str], Exception] = getattr(exceptions, name, None) or getattr(auth_exceptions, name)
    return kind(text)
