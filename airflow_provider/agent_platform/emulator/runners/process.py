"""Workers as real local processes.

In: launches. Out: what happens to the processes, through the listener. Each worker has a supervisor process
(``supervisor``), a session, a process group and a directory of its own. This module knows nothing of jobs.

The image is not looked at: the command runs on this machine, with the emulator's own interpreter first on
``PATH`` so that ``python3`` finds what is installed beside the emulator.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from airflow_provider.agent_platform.emulator.clock import BaseClock, Timer
from airflow_provider.agent_platform.emulator.runners import packages, supervisor
from airflow_provider.agent_platform.emulator.runners.base import Launch, Listener
from airflow_provider.agent_platform.emulator.runners.memory import MemoryWatch
from airflow_provider.agent_platform.emulator.runners.pipes import Pipes
from airflow_provider.agent_platform.emulator.texts import Exit

MARKER = "AGENT_PLATFORM_EMULATOR_WORKER"
"""Variable by which a later emulator finds workers that an earlier one left behind."""

PASSED = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE")
"""What workers get of the emulator's own environment: what a machine has, nothing that configures a program."""

TAIL_LINES = 20
TAIL_CHARACTERS = 2_000
STARTERS = 8
logger = logging.getLogger(__name__)


class ProcessRunner:
    """Starts workers as processes."""

    wants_addresses = True

    def __init__(self, clock: BaseClock, *, storage_host: str | None = None, token: str = "") -> None:
        """:param token: value of :data:`MARKER`, also found in the name of the directory."""
        self._clock = clock
        self._storage_host = _with_scheme(storage_host) if storage_host else None
        self._token = token or "local"
        self.root = Path(tempfile.mkdtemp(prefix=f"agent-platform-emulator-{self._token}-"))
        self._pipes = Pipes()
        self._starters = ThreadPoolExecutor(STARTERS, thread_name_prefix="emulator-starter")
        self._memory = MemoryWatch()
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()
        self._all_gone = threading.Condition(self._lock)
        self._closed = False

    def start(self, launch: Launch, listener: Listener) -> Worker:
        """Start one; the work is done on a thread of its own."""
        worker = Worker(self, launch, listener)
        self._begin(worker)
        return worker

    def _begin(self, worker: Worker) -> None:
        with self._lock:
            self._workers.add(worker)
        self._starters.submit(worker.run)

    def forget(self, job_id: str) -> None:
        """Remove the directories of a job."""
        self._starters.submit(shutil.rmtree, self.root / job_id, ignore_errors=True)

    def drain(self) -> None:
        """Wait until no worker is left, half a minute at most."""
        with self._all_gone:
            self._all_gone.wait_for(lambda: not self._workers, timeout=30)

    def close(self) -> None:
        """Kill every worker, wait for their ends, remove all files."""
        with self._lock:
            self._closed = True
            workers = list(self._workers)
        for worker in workers:
            worker.stop(0)
        self.drain()
        self._starters.shutdown(wait=True)
        self._memory.close()
        self._pipes.close()
        shutil.rmtree(self.root, ignore_errors=True)

    # --- for Worker ---

    def directory(self, launch: Launch) -> Path:
        """Make the working directory of a replica; empty unless it stayed on its machine."""
        path = self.root / launch.job_id / launch.replica
        if not launch.keep_directory:
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def environment(self, launch: Launch) -> dict[str, str]:
        """What the worker sees: a machine's variables, and the job's."""
        found = {name: os.environ[name] for name in PASSED if name in os.environ}
        interpreter = str(Path(sys.executable).parent)
        found["PATH"] = os.pathsep.join([interpreter, found.get("PATH", os.defpath)])
        # Lines reach the log when they are written, as in Google's prebuilt containers.
        found["PYTHONUNBUFFERED"] = "1"
        found[MARKER] = self._token
        if self._storage_host:
            found["STORAGE_EMULATOR_HOST"] = self._storage_host
        return {**found, **launch.environment}

    def command(self, launch: Launch, environment: Mapping[str, str], directory: Path) -> list[str]:
        """The words to execute."""
        if not launch.packages:
            return list(launch.command)
        place = directory.parent / f"{directory.name}-packages"
        return packages.command(place, self._storage_host, launch.packages, launch.command)

    def gone(self, worker: Worker) -> None:
        """A worker has ended and was reported."""
        with self._all_gone:
            self._workers.discard(worker)
            if not self._workers:
                self._all_gone.notify_all()


def _with_scheme(host: str) -> str:
    return (host if "://" in host else f"http://{host}").rstrip("/")


class Worker:
    """One worker process with its supervisor."""

    def __init__(self, runner: ProcessRunner, launch: Launch, listener: Listener) -> None:
        self.launch = launch
        self._runner = runner
        self._listener = listener
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._killed_for_memory = False
        self._grace: Timer | None = None
        self._open_pipes = 3
        self._exit: Exit | None = None
        self._code: int | None = None
        self._tail: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)

    def run(self) -> None:
        """Prepare and start; called once, on a starter's thread."""
        try:
            if self._stopped:
                self._report(Exit(replica=self.launch.replica, code=143))
                return
            directory = self._runner.directory(self.launch)
            environment = self._runner.environment(self.launch)
            command = self._runner.command(self.launch, environment, directory)
            if not command:
                self._start_error(
                    "nothing to run: the image is ignored here, so the container needs a command or args"
                )
                return
            self._spawn({"command": command, "environment": environment, "directory": str(directory)})
        except Exception as error:
            logger.exception("Could not start %s of job %s", self.launch.replica, self.launch.job_id)
            self._start_error(f"{type(error).__name__}: {error}")

    def _spawn(self, order: dict[str, object]) -> None:
        status_read, status_write = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: S603 - the words are the user's own, and no shell reads them
                [sys.executable, "-I", "-S", supervisor.__file__, str(status_write)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[status_write],
                start_new_session=True,
                env={"PATH": os.defpath, MARKER: self._runner._token},
            )
        except BaseException:
            os.close(status_read)
            raise
        finally:
            os.close(status_write)
        assert process.stdin
        assert process.stdout
        assert process.stderr
        with self._lock:
            self._process = process
            self._write(json.dumps(order).encode() + b"\n")
            if self._stopped:
                self._write(b"kill\n")
        pipes = self._runner._pipes
        for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            descriptor = os.dup(stream.fileno())
            stream.close()
            pipes.add(descriptor, functools.partial(self._on_line, name), self._on_end)
        pipes.add(status_read, self._on_status, self._on_end)
        if self.launch.memory_limit:
            self._runner._memory.watch(self, process.pid, self.launch.memory_limit, self._over_limit)

    # --- what the pipes bring ---

    def _on_status(self, line: str) -> None:
        said = json.loads(line)
        if "up" in said:
            self._listener.worker_up(self.launch)
        elif "start_error" in said:
            self._exit = self._failed_to_start(said["start_error"])
        else:
            self._code = int(said["exit"])

    def _on_line(self, stream: str, line: str) -> None:
        if stream == "stderr":
            self._tail.append(line)
        self._listener.worker_line(self.launch, stream, line)

    def _on_end(self) -> None:
        self._open_pipes -= 1
        if not self._open_pipes:
            self._finish()

    def _finish(self) -> None:
        """Everything it said was read: report how it ended."""
        assert self._process
        assert self._process.stdin
        with self._lock, contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        # Without a last word the supervisor itself was killed; its worker dies with it.
        if self._exit is None:
            self._exit = self._exited(137 if self._code is None else self._code)
        self._report(self._exit)

    def _exited(self, code: int) -> Exit:
        if self._killed_for_memory:
            return Exit(replica=self.launch.replica, code=137, reason="OOMKilled")
        tail = "\n".join(self._tail)[-TAIL_CHARACTERS:] if code else ""
        start = tail.rfind("Traceback (most recent call last)")
        return Exit(replica=self.launch.replica, code=code, detail=tail[max(start, 0) :])

    def _failed_to_start(self, problem: str) -> Exit:
        detail = f"failed to create containerd task: failed to start {self.launch.command[:1]}: {problem}"
        return Exit(replica=self.launch.replica, code=128, reason="StartError", detail=detail)

    def _start_error(self, problem: str) -> None:
        self._report(self._failed_to_start(problem))

    def _report(self, ended: Exit) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self._runner._memory.forget(self)
        self._listener.worker_exited(self.launch, ended)
        self._runner.gone(self)

    # --- stop ---

    def stop(self, grace: float) -> None:
        """SIGTERM, and after the grace SIGKILL to everything it started."""
        with self._lock:
            self._stopped = True
            if self._process is None:
                return
            self._write(b"term\n" if grace else b"kill\n")
        self._listener.worker_killed(self.launch, "SIGTERM" if grace else "SIGKILL")
        if grace and self._grace is None:
            self._grace = self._runner._clock.call_later_real(grace, lambda: self.stop(0))

    def _over_limit(self) -> None:
        self._killed_for_memory = True
        self.stop(0)

    def _write(self, words: bytes) -> None:
        assert self._process
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(words)
            self._process.stdin.flush()
