"""One thread that reads the pipes of all workers.

In: descriptors to read. Out: each complete line, and the end, to a callback. A thread for each pipe would be
three threads a worker.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import selectors
import threading
from collections.abc import Callable
from dataclasses import dataclass

MAX_LINE = 256 * 1024
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Pipe:
    on_line: Callable[[str], None]
    on_end: Callable[[], None]
    rest: bytes = b""


class Pipes:
    """Reads until it is closed."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._new: list[tuple[int, _Pipe]] = []
        self._closing = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="emulator-pipes", daemon=True)
        self._thread.start()

    def add(self, descriptor: int, on_line: Callable[[str], None], on_end: Callable[[], None]) -> None:
        """Read a descriptor until its end, and close it then."""
        with self._lock:
            self._new.append((descriptor, _Pipe(on_line=on_line, on_end=on_end)))
        os.write(self._wake_write, b".")

    def close(self) -> None:
        """End the thread; what is still open is closed unread."""
        self._closing = True
        os.write(self._wake_write, b".")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
        os.close(self._wake_write)

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._register_new()
                else:
                    self._read(key.fd, key.data)

    def _register_new(self) -> None:
        with self._lock:
            new, self._new = self._new, []
        for descriptor, pipe in new:
            self._selector.register(descriptor, selectors.EVENT_READ, pipe)

    def _read(self, descriptor: int, pipe: _Pipe) -> None:
        try:
            data = os.read(descriptor, 65536)
        except OSError:
            data = b""
        *lines, pipe.rest = (pipe.rest + data).split(b"\n")
        if pipe.rest and (not data or len(pipe.rest) > MAX_LINE):
            lines.append(pipe.rest)
            pipe.rest = b""
        for line in lines:
            self._call(functools.partial(pipe.on_line, line.decode(errors="replace").rstrip("\r")))
        if not data:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            self._call(pipe.on_end)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            # One worker's trouble must not silence the others.
            logger.exception("Reading a worker's output failed")
