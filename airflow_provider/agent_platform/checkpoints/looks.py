"""Looks at a base directory that all who wait for it share: one listing for many, in a thread.

Async callers enter with a directory and an identity; scans leave. The event loop itself never touches the
store.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pendulum

from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, scan
from airflow_provider.agent_platform.checkpoints.store.base import ClientFactory

THREADS = 4
"""Looks at once in one process, however many jobs it waits for. The default pool of the loop is not ours
to fill."""

Scan = Callable[..., CheckpointScan]


class SharedLook:
    """The looks at one base directory in one event loop.

    :param base_output_directory: see `scan`.
    :param client_factory: called in the thread, once; the client is closed when nobody waits any more.
    :param recognisers: dotted paths.
    :param scan: what a look is; for tests.
    """

    def __init__(
        self,
        base_output_directory: str,
        client_factory: ClientFactory | None,
        recognisers: Sequence[str],
        scan: Scan = scan,
    ) -> None:
        self.base_output_directory = base_output_directory
        self.users = 0
        self._client_factory = client_factory
        self._client: Any = None
        self._recognisers = tuple(recognisers)
        self._scan = scan
        self._last: tuple[float, CheckpointScan] | None = None
        self._running: tuple[float, asyncio.Task[CheckpointScan]] | None = None

    async def look(self, *, not_before: float) -> CheckpointScan:
        """Return a scan that was begun at or after a moment of the loop's own clock (``loop.time()``).

        A scan never raises for what is in the store: see `scan`. A recogniser that cannot be imported gives
        an unknown scan too.
        """
        while True:
            if self._last is not None and self._last[0] >= not_before:
                return self._last[1]
            if self._running is None:
                loop = asyncio.get_running_loop()
                # A context of its own: what the look logs must not land in the log of the first who asked.
                task = contextvars.Context().run(loop.create_task, self._look(loop.time()))
                self._running = (loop.time(), task)
            await asyncio.shield(self._running[1])

    async def _look(self, begun: float) -> CheckpointScan:
        loop = asyncio.get_running_loop()
        factory = None if self._client_factory is None else self._shared_client
        call = partial(self._scan, self.base_output_directory, factory, recognisers=self._recognisers)
        try:
            result = await loop.run_in_executor(_pool(), call)
        except Exception as error:
            result = CheckpointScan(
                known=False, problem=f"looking for checkpoints failed: {type(error).__name__}: {error}"
            )
        finally:
            self._running = None
            if self.users == 0:
                self.close()
        self._last = (begun, result)
        return result

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
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, SharedLook]] = WeakKeyDictionary()


@contextmanager
def shared_look(
    base_output_directory: str,
    client_factory: ClientFactory | None = None,
    *,
    identity: Hashable = None,
    recognisers: Sequence[str] = (),
    scan: Scan = scan,
) -> Iterator[SharedLook]:
    """Share the looks at a base directory with everybody in this event loop who waits for the same.

    :param identity: what the client's permissions depend on (connection id and impersonation chain): looks
        are only shared by those who may see the same.
    """
    looks = _shared.setdefault(asyncio.get_running_loop(), {})
    key = (base_output_directory.rstrip("/"), identity, tuple(recognisers))
    look = looks.get(key)
    if look is None:
        look = looks[key] = SharedLook(base_output_directory, client_factory, recognisers, scan)
    look.users += 1
    try:
        yield look
    finally:
        look.users -= 1
        if look.users == 0:
            looks.pop(key, None)
            look.close()


def seconds_ago(seconds: float) -> float:
    """Return a moment of the running loop's clock, for `SharedLook.look`."""
    return asyncio.get_running_loop().time() - seconds


def age_seconds(reference: pendulum.DateTime, now: pendulum.DateTime) -> float:
    """Return how old something is; 0 when its clock is ahead of ours."""
    return max(0.0, (now - reference).total_seconds())


def _pool() -> ThreadPoolExecutor:
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="checkpoint-look")
    return _executor
