"""Kill what is left when the harness itself has been killed: a process that outlives its parent by one
moment.

In, on stdin: lines ``+SESSION`` and ``-SESSION``. Out: when stdin ends, which it does however the parent
ends, every process of the sessions that are left is killed. An orderly end leaves none. A signal to the
children on their parent's death would not do: suspended ones do not take it, some of Airflow's ignore it,
and grandchildren do not get it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]


class Watchdog:
    """The harness's end of the pipe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def watch(self, session: int) -> None:
        """Have the process group killed when the harness dies."""
        if self._process is None or self._owner != os.getpid():
            self._start()
        self._tell(f"+{session}\n")

    def forget(self, session: int) -> None:
        """The process has ended in an orderly way."""
        self._tell(f"-{session}\n")

    def _start(self) -> None:
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.watchdog"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=_REPOSITORY,
            # Not in the harness's session: a Ctrl-C or a kill of the group must not take it away as well.
            start_new_session=True,
        )
        atexit.register(self._end)

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None and self._owner == os.getpid():
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()

    def _end(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.communicate()


watchdog = Watchdog()


def _main() -> None:
    from tests.harness.processes import session_members

    sessions: set[int] = set()
    for line in sys.stdin:
        (sessions.add if line.startswith("+") else sessions.discard)(int(line[1:]))
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [pid for session in sessions for pid in session_members(session)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    _main()
