"""The only source of time in the emulator.

In: delays in seconds of the platform. Out: the wall-clock time that the API shows, and callbacks on one
thread, after the delay divided by the speed. Nothing else in the emulator sleeps.

:class:`Clock` runs with the machine's clock; :class:`ManualClock` moves when a test says so.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

Callback = Callable[[], None]
SWEEP = 1000
"""Fewer timers than this are not worth looking through."""
LONGEST_WAIT = 3600.0
"""Seconds between two looks at the clock: Python cannot wait for 300 years at once, and a limit may be longer."""

logger = logging.getLogger(__name__)


class Timer:
    """A callback that is due at some time; :meth:`cancel` forgets it."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callback) -> None:
        self.due = due
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """Never call it; drops the reference at once, the heap's entry when it comes up."""
        self.callback = None


class BaseClock:
    """A heap of timers over some ``monotonic`` time."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._wakeup = threading.Condition()
        self._sweep_at = SWEEP

    def wall(self) -> float:
        """Seconds since the epoch, as the API and the logs show them."""
        raise NotImplementedError

    def monotonic(self) -> float:
        """Seconds that never jump."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin to call back."""

    def stop(self) -> None:
        """Call nothing back any more."""

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        """Call back after so many seconds of the platform."""
        return self.call_later_real(seconds / self.speed, callback)

    def call_later_real(self, seconds: float, callback: Callback) -> Timer:
        """Call back after so many seconds, whatever the speed."""
        timer = Timer(self.monotonic() + max(0.0, seconds), callback)
        with self._wakeup:
            if len(self._heap) > self._sweep_at:
                self._sweep()
            heapq.heappush(self._heap, (timer.due, next(self._order), timer))
            if self._heap[0][2] is timer:
                self._wakeup.notify()
        return timer

    def _sweep(self) -> None:
        """Let go of cancelled timers: the limits of ended jobs lie days ahead, and would pile up until then."""
        self._heap[:] = [entry for entry in self._heap if entry[2].callback is not None]
        heapq.heapify(self._heap)
        self._sweep_at = max(SWEEP, 2 * len(self._heap))

    def _pop_due(self, now: float) -> Callback | None:
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].callback is None):
            callback = heapq.heappop(self._heap)[2].callback
            if callback is not None:
                return callback
        return None


class Clock(BaseClock):
    """Real time on one daemon thread."""

    def __init__(self, speed: float = 1.0) -> None:
        super().__init__(speed)
        self._stopped = False
        self._thread: threading.Thread | None = None

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """``time.monotonic()``."""
        return time.monotonic()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="emulator-clock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        with self._wakeup:
            self._stopped = True
            self._wakeup.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._heap.clear()

    def _run(self) -> None:
        while True:
            with self._wakeup:
                callback = self._pop_due(self.monotonic())
                while callback is None and not self._stopped:
                    left = self._heap[0][0] - self.monotonic() if self._heap else LONGEST_WAIT
                    self._wakeup.wait(min(left, LONGEST_WAIT))
                    callback = self._pop_due(self.monotonic())
                if self._stopped or callback is None:
                    return
            call(callback)


class ManualClock(BaseClock):
    """Time for tests: stands still until :meth:`advance`, which calls back on the caller's thread."""

    def __init__(self, speed: float = 1.0, start: float = 1_800_000_000.0) -> None:
        super().__init__(speed)
        self._now = start

    def wall(self) -> float:
        """The time a test has advanced to."""
        return self._now

    def monotonic(self) -> float:
        """The same time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, calling back what is due in its order."""
        end = self._now + seconds
        while True:
            with self._wakeup:
                due = next(iter(self._heap), None)
                if due is None or due[0] > end:
                    break
                self._now = max(self._now, due[0])
                callback = self._pop_due(self._now)
            if callback is not None:
                callback()
        self._now = end


def call(callback: Callback) -> None:
    """Run a callback; what it raises is logged, because the thread has other jobs' timers to serve."""
    try:
        callback()
    except Exception:
        logger.exception("A timer of the emulator failed; the job it belonged to may hang")
