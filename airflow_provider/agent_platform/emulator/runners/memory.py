"""Watches how much memory workers use, with all they have started.

In: a process and a limit in bytes. Out: one call when it is over. Shared pages are counted once (PSS), as a
cgroup would; the kernel's cheaper figure (RSS, which counts them every time) is read first, and PSS only when
that one is near the limit.
"""

from __future__ import annotations

import contextlib
import resource
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

INTERVAL = 0.1
"""Seconds of real time between two looks: memory grows at the machine's speed, whatever the emulator's."""
SHARE = 0.005
"""More seconds for each worker, so that a thousand of them take a hundredth of a core."""
PAGE = resource.getpagesize()


@dataclass(frozen=True, kw_only=True)
class _Watched:
    pid: int
    limit: int
    on_over: Callable[[], None]


class MemoryWatch:
    """One thread while there is something to watch."""

    def __init__(self) -> None:
        self._watched: dict[Hashable, _Watched] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def watch(self, key: Hashable, pid: int, limit: int, on_over: Callable[[], None]) -> None:
        """Watch everything below a process."""
        with self._changed:
            self._watched[key] = _Watched(pid=pid, limit=limit, on_over=on_over)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="emulator-memory", daemon=True)
                self._thread.start()
            self._changed.notify()

    def forget(self, key: Hashable) -> None:
        """It has ended."""
        with self._changed:
            self._watched.pop(key, None)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._watched or self._closed)
                self._changed.wait_for(lambda: self._closed, INTERVAL + SHARE * len(self._watched))
                if self._closed:
                    return
                watched = list(self._watched.items())
            for key, one in watched:
                if used(one.pid, one.limit) > one.limit:
                    self.forget(key)
                    one.on_over()


def used(pid: int, enough: int = 0) -> int:
    """Bytes used below a process.

    :param enough: where the quick figure is not above this, that one is returned.
    """
    below = list(_below(pid))
    quick = sum(_rss(one) for one in below)
    return quick if quick <= enough else sum(_pss(one) for one in below)


def _below(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        return _children_elsewhere(pid)
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _children_elsewhere(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def _rss(pid: int) -> int:
    try:
        # A fifth of psutil's cost, and this is read for every process, all the time.
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return _rss_elsewhere(pid)


def _rss_elsewhere(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _pss(pid: int) -> int:
    try:
        full = psutil.Process(pid).memory_full_info()
    except psutil.Error:
        # Another user's process cannot be looked into: count what can be seen.
        return _rss(pid)
    return int(getattr(full, "pss", full.uss))
