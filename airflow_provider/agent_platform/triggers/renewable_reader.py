"""A reader that is made anew while its calls are refused, so that a changed connection is read again.

In: a factory of readers, calls, the word that one failed because of the connection. Out: the answers of the newest
reader. Which errors are such is said by :mod:`.calls`. A loop lives for weeks, and a key is rotated meanwhile: what
the old key opened stays closed, however often it is tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from airflow_provider.agent_platform.triggers.reader import JobReader

T = TypeVar("T")

RENEW_SECONDS: Final = 60.0
"""A reader younger than this is not made anew: its connection was read just now."""

CLOSE_SECONDS: Final = 20.0


class _Generation:
    """One reader, and how many calls it is in the middle of."""

    __slots__ = ("calls", "made_at", "reader", "retired")

    def __init__(self, reader: JobReader, made_at: float) -> None:
        self.reader = reader
        self.made_at = made_at
        self.calls = 0
        self.retired = False


class RenewableReader:
    """Hands calls to the newest reader. An older one is closed when the last of its calls has ended: closing it
    earlier would cancel them.

    :param make: makes a reader; it reads the connection at its first call.
    """

    def __init__(self, make: Callable[[], JobReader]) -> None:
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._newest = self._made()
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, make_call: Callable[[JobReader], Awaitable[T]]) -> T:
        """Make a call with the newest reader."""
        generation = self._newest
        generation.calls += 1
        try:
            return await make_call(generation.reader)
        finally:
            generation.calls -= 1
            self._close_if_done(generation)

    def renew(self) -> None:
        """The connection may have changed: make a new reader, unless this one is new."""
        old = self._newest
        if self._loop.time() - old.made_at < RENEW_SECONDS:
            return
        self._newest = self._made()
        old.retired = True
        self._close_if_done(old)

    async def close(self) -> None:
        """Close the readers."""
        closing = asyncio.gather(self._newest.reader.close(), *self._closing, return_exceptions=True)
        await asyncio.wait_for(closing, CLOSE_SECONDS)

    def _made(self) -> _Generation:
        return _Generation(self._make(), self._loop.time())

    def _close_if_done(self, generation: _Generation) -> None:
        if generation.retired and generation.calls == 0:
            task = self._loop.create_task(_close(generation.reader))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _close(reader: JobReader) -> None:
    with suppress(Exception):
        await asyncio.wait_for(reader.close(), CLOSE_SECONDS)
