"""Looks at a base directory that all who wait for it share: one listing for many, in a thread.

Async callers enter with a directory and an identity; scans leave. The event loop itself never touches the
store.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pendulum

from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, scan
from airflow_provider.agent_platform.checkpoints.store.base import ClientFactory

THREADS = 4
"""Looks at once in one process, however many jobs it waits for. The default pool of the loop is not ours
to fill."""

Scan = Callable[..., CheckpointScan]
Prepare = Callable[[], Awaitable[object]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What is looked at, and as whom: looks are shared by those who have the same.

    :param base_output_directory: see `scan`.
    :param identity: what the client's permissions depend on: connection id and impersonation chain.
    :param recognisers: dotted paths.
    :param since: see `scan`.
    """

    base_output_directory: str
    identity: Hashable = None
    recognisers: tuple[str, ...] = ()
    since: pendulum.DateTime | None = None


class SharedLook:
    """The looks at one place in one event loop.

    :param client_factory: called in the thread, once; the client is closed when nobody waits any more.
    :param prepare: awaited in the event loop before the first look, for what a thread may not do: reading an
        Airflow connection (`TrainingJobHook.aload_connection`).
    :param scan: what a look is; for tests.
    """

    def __init__(
        self, place: Place, client_factory: ClientFactory | None, prepare: Prepare | None, scan: Scan
    ) -> None:
        self.place = place
        self.users = 0
        self._client_factory = client_factory
        self._client: Any = None
        self._prepare = prepare
        self._scan = scan
        self._last: tuple[float, CheckpointScan] | None = None
        self._running: asyncio.Task[None] | None = None

    async def look(self, *, not_before: float) -> CheckpointScan:
        """Return a scan that was begun at or after a moment of the loop's own clock (``loop.time()``).

        Whatever is wrong with the store or a recogniser gives an unknown scan, never an exception.
        """
        while self._last is None or self._last[0] < not_before:
            if self._running is None:
                # A context of its own: what the look logs must not land in the log of the first who asked.
                work = self._look()
                loop = asyncio.get_running_loop()
                self._running = contextvars.Context().run(loop.create_task, work)
            await asyncio.shield(self._running)
        return self._last[1]

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            if self._prepare is not None:
                await self._prepare()
                self._prepare = None
            result = await loop.run_in_executor(_pool(), self._in_thread)
        except Exception as error:
            problem = f"looking for checkpoints failed: {type(error).__name__}: {error}"
            result = CheckpointScan(known=False, problem=problem)
        finally:
            self._running = None
            if self.users == 0:
                self.close()
        self._last = (begun, result)

    def _in_thread(self) -> CheckpointScan:
        place = self.place
        factory = None if self._client_factory is None else self._shared_client
        return self._scan(
            place.base_output_directory, factory, recognisers=place.recognisers, since=place.since
        )

    def _shared_client(self) -> Any:
        if self._client is None and self._client_factory is not None:
            self._client = self._client_factory()
        return self._client

    def close(self) -> None:
        """Close the client, unless a look still uses it: that look closes it at its end."""
        if self._running is None and self._client is not None:
            client, self._client = self._client, None
            with suppress(Exception):
                client.close()


_executor: ThreadPoolExecutor | None = None
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Place, SharedLook]] = WeakKeyDictionary()


@contextmanager
def shared_look(
    place: Place,
    client_factory: ClientFactory | None = None,
    *,
    prepare: Prepare | None = None,
    scan: Scan = scan,
) -> Iterator[SharedLook]:
    """Share the looks at a place with everybody in this event loop who waits for the same.

    The first one's client serves all; see `SharedLook` for the parameters.
    """
    looks = _shared.setdefault(asyncio.get_running_loop(), {})
    look = looks.get(place)
    if look is None:
        look = looks[place] = SharedLook(place, client_factory, prepare, scan)
    look.users += 1
    try:
        yield look
    finally:
        look.users -= 1
        if look.users == 0:
            looks.pop(place, None)
            look.close()


def gist(problem: str) -> str:
    """Return a problem without its numbers: the next look may count other objects, and it is still the
    same problem."""
    return re.sub(r"[\d,.:+T-]*\d", "#", problem)


def seconds_ago(seconds: float) -> float:
    """Return a moment of the running loop's clock, for `SharedLook.look`."""
    return asyncio.get_running_loop().time() - seconds


def _pool() -> ThreadPoolExecutor:
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="checkpoint-look")
    return _executor
