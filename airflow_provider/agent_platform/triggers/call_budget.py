"""How many calls a minute all polling of one project and region may make.

In: requests for a slot. Out: seconds to wait for it. The service allows 600 reads a minute and region (its
documented rate quota, shared with everybody in the project); polling takes at most a quarter of it, so that
several triggerers, operators and people fit beside it. It counts calls of one process; it is not a lock
between processes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

CALLS_PER_MINUTE: Final = 150
URGENT_PER_MINUTE: Final = 300
"""Reads and cancels at the end of a clock or of a killed task. They are few, but come in crowds when mapped
tasks have one deadline; with polling they stay within three quarters of the quota."""

WINDOW_SECONDS: Final = 60.0


class CallBudget:
    """A sliding window: never more than ``calls`` within any ``window`` seconds.

    A token bucket was refused: it lets twice its size through within one minute.

    :param calls: calls per window.
    :param window: seconds.
    """

    __slots__ = ("_calls", "_taken", "_window")

    def __init__(self, calls: int = CALLS_PER_MINUTE, window: float = WINDOW_SECONDS) -> None:
        self._calls = calls
        self._window = window
        self._taken: deque[float] = deque()

    def take(self, now: float, calls: int = 1) -> float:
        """Reserve the next slots; answer how many seconds from ``now`` on the last of them is.

        :param now: seconds of a monotonic clock.
        :param calls: how many calls are made then.
        """
        while self._taken and self._taken[0] <= now - self._window:
            self._taken.popleft()
        slot = now
        for _ in range(calls):
            if len(self._taken) >= self._calls:
                # Slots are given out in order, so the window before a slot starts `calls` reservations earlier.
                slot = max(now, self._taken[-self._calls] + self._window)
            self._taken.append(slot)
        return slot - now
