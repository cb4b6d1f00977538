"""Workers that are only timers: for load tests, 100,000 jobs on one machine.

In: launches; the container's ``env`` scripts each worker. Out: the same reports as of a real one.

``EMULATE_RUN_SECONDS`` (seconds of the platform, default 0), ``EMULATE_EXIT_CODE`` (default 0),
``EMULATE_CHECKPOINT_SECONDS``: a worker that restarts, or another job of the same output directory, goes on
from the last multiple of it. Without it a restart begins at 0.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping

from airflow_provider.agent_platform.emulator.clock import BaseClock, Timer
from airflow_provider.agent_platform.emulator.runners.base import Launch, Listener
from airflow_provider.agent_platform.emulator.texts import Exit


class SimulatedRunner:
    """Starts timers."""

    wants_addresses = False

    def __init__(self, clock: BaseClock) -> None:
        self._clock = clock
        self._closed = False
        self._progress: dict[str, float] = {}

    def start(self, launch: Launch, listener: Listener) -> SimulatedWorker:
        """Start one; it is up with the clock's next step."""
        return SimulatedWorker(self, self._clock, launch, listener)

    def progress(self, key: str) -> float:
        """Seconds of work that checkpoints have kept."""
        return self._progress.get(key, 0.0)

    def keep(self, key: str, seconds: float) -> None:
        """Seconds of work are kept by a checkpoint."""
        self._progress[key] = max(seconds, self.progress(key))

    def forget(self, job_id: str) -> None:
        """Nothing is kept by job."""

    def drain(self) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        """No timer reports any more."""
        self._closed = True


class SimulatedWorker:
    """One worker."""

    __slots__ = (
        "_clock",
        "_ended",
        "_interval",
        "_launch",
        "_listener",
        "_lock",
        "_runner",
        "_since",
        "_timer",
    )

    def __init__(self, runner: SimulatedRunner, clock: BaseClock, launch: Launch, listener: Listener) -> None:
        self._runner, self._clock, self._launch, self._listener = runner, clock, launch, listener
        self._lock = threading.Lock()
        self._ended = False
        self._since: float | None = None
        self._interval = 0.0
        self._timer: Timer = clock.call_later(0, self._up)

    def _up(self) -> None:
        script = self._launch.user_environment
        try:
            seconds = _number(script, "EMULATE_RUN_SECONDS")
            self._interval = _number(script, "EMULATE_CHECKPOINT_SECONDS")
            code = int(script.get("EMULATE_EXIT_CODE", "0")) % 256
        except ValueError as error:
            self._end(Exit(replica=self._launch.replica, code=128, reason="StartError", detail=str(error)))
            return
        self._since = self._clock.monotonic()
        left = max(0.0, seconds - self._done_before())
        self._listener.worker_up(self._launch)
        if not self._ended:
            self._timer = self._clock.call_later(
                left, lambda: self._end(Exit(replica=self._launch.replica, code=code))
            )

    def _done_before(self) -> float:
        return self._runner.progress(self._launch.progress_key) if self._interval else 0.0

    def _end(self, ended: Exit) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._timer.cancel()
        if self._runner._closed:
            return
        if self._interval and self._since is not None:
            worked = self._done_before() + (self._clock.monotonic() - self._since) * self._clock.speed
            self._runner.keep(self._launch.progress_key, math.floor(worked / self._interval) * self._interval)
        self._listener.worker_exited(self._launch, ended)

    def stop(self, grace: float) -> None:
        """It obeys at once, with the clock's next step."""
        code, name = (143, "SIGTERM") if grace else (137, "SIGKILL")
        if not self._ended:
            self._listener.worker_killed(self._launch, name)
            self._clock.call_later(0, lambda: self._end(Exit(replica=self._launch.replica, code=code)))


def _number(script: Mapping[str, str], name: str) -> float:
    value = float(script.get(name, "0"))
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}={script[name]}: must be a number of seconds, 0 or more")
    return value
