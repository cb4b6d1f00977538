"""A worker's first process: starts it, and lets nothing of it outlive it.

Run as ``python -I -S supervisor.py STATUS_FD``, one for each worker, with the standard library's smallest part
only. In, on stdin: one JSON line ``{"command", "environment", "directory"}``, then lines ``term`` and
``kill``; end of file means that the emulator is gone, and kills. Out, on the status descriptor: JSON lines
``{"up": pid}``, then ``{"exit": code}`` or ``{"start_error": text}``. stdout and stderr are the worker's.

It is a subreaper (Linux): whatever the worker leaves behind, a daemon that left its session and cleared its
environment too, becomes this process's child and is killed when the worker ends. Elsewhere the worker's
process group has to do.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _start(command: list[str], environment: dict[str, str], directory: str) -> tuple[int, str]:
    """Fork and execute; the second value says why it could not."""
    read_end, write_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(137)
            # What this process ignores would be ignored in the worker too.
            for name in (signal.SIGPIPE, signal.SIGXFSZ, *IGNORED):
                signal.signal(name, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.chdir(directory)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execvpe(command[0], command, environment)  # noqa: S606 - no shell is the point
        except BaseException as error:
            os.write(write_end, f"{type(error).__name__}: {error}".encode()[:2000])
        finally:
            os._exit(127)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        return pid, pipe.read().decode(errors="replace")


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        return []


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EPERM):
            raise


class _Supervisor:
    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.code: int | None = None

    def signal_group(self, number: int) -> None:
        if self.code is None:
            _kill(-self.worker, number)

    def reap(self, block: bool = False) -> bool:
        """Collect dead children; False when there are none at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.worker:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code
            if block:
                return True

    def end(self) -> None:
        """Kill everything below this process until nothing is left."""
        _kill(-self.worker, signal.SIGKILL)
        while self.reap():
            for pid in _children() or [self.worker]:
                _kill(pid, signal.SIGKILL)
            if not self.reap(block=True):
                return


def main() -> None:
    """Run one worker."""
    status = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    # A worker may signal its parent's group; the emulator speaks on stdin and by nothing else.
    for name in IGNORED:
        signal.signal(name, signal.SIG_IGN)
    buffer = b""
    while b"\n" not in buffer:
        piece = os.read(0, 65536)
        if not piece:
            return
        buffer += piece
    line, _, buffer = buffer.partition(b"\n")
    order = json.loads(line)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    worker, problem = _start(order["command"], order["environment"], order["directory"])
    supervisor = _Supervisor(worker)
    # Only the worker and what it starts hold its output now: its end is the end of the pipes.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    if problem:
        supervisor.reap(block=True)
        status.write(json.dumps({"start_error": problem}) + "\n")
        return
    status.write(json.dumps({"up": worker}) + "\n")
    watch_stdin = True
    while supervisor.code is None:
        # Words may have come together with the order: look at them before waiting for more.
        *words, buffer = buffer.split(b"\n")
        if b"term" in words:
            supervisor.signal_group(signal.SIGTERM)
        if b"kill" in words or not watch_stdin:
            supervisor.end()
            break
        ready, _, _ = select.select([wake_read, 0], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
        if 0 in ready:
            piece = os.read(0, 4096)
            buffer += piece
            watch_stdin = bool(piece)
        supervisor.reap()
    supervisor.end()
    status.write(json.dumps({"exit": supervisor.code}) + "\n")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # The emulator is gone, and the workers with it.
        os._exit(0)
