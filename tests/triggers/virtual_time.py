"""An event loop whose time passes at once: it jumps to the next timer instead of sleeping.

In: a coroutine. Out: its result, hours of waiting in milliseconds. What is given to a thread is done at once, in the
loop's own; nothing that waits for sockets works in it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pendulum

T = TypeVar("T")

START = pendulum.datetime(2026, 1, 31, 12, 0, 0, tz="UTC")


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.loop: VirtualLoop | None = None
        self.in_vain = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits, and nothing will ever happen")
        if not ready and timeout is not None and self.loop is not None:
            self.loop.passed += timeout
            self.in_vain = self.in_vain + 1 if timeout == 0 else 0
            if self.in_vain > 100:  # a pause that is too short for a float would last for ever
                self.loop.passed += 1e-9
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """See above."""

    def __init__(self) -> None:
        self.passed = 0.0
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return 1000.0 + self.passed

    def run_in_executor(  # type: ignore[override]  # the base class allows for loops that have no executor
        self, executor: object, work: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


def now() -> pendulum.DateTime:
    """The wall clock of the running virtual loop: starts at ``START``."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return START.add(seconds=loop.passed)


def run(work: Coroutine[Any, Any, T], *, limit: float = 30 * 86400) -> T:
    """Run a coroutine in virtual time; ``limit`` seconds of it are an error."""
    loop = VirtualLoop()

    async def limited() -> T:
        return await asyncio.wait_for(work, limit)

    try:
        return loop.run_until_complete(limited())
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
