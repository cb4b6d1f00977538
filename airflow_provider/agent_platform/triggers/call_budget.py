"""How many calls a minute all triggers may make in one project and region.

In: requests for a slot. Out: seconds to wait for it. The service allows 600 reads a minute and region (its
documented rate quota, shared with everybody in the project); polling takes at most a quarter of it, so that
several triggerers, operators and people fit beside it. It counts calls of one process; it is not a lock
between processes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

CALLS_PER_MINUTE: Final = 150
URGENT_PER_MINUTE: Final = 300
"""Reads and cancels at the end of a clock or of a killed task. They are few, but come in crowds when mapped
tasks have one deadline; with polling they stay within three quarters of the quota."""

SEARCHES_PER_MINUTE: Final = 75
"""Lists for sensors that look for a job by its labels. Each makes its own, so many of them are many calls: they wait
for each other, and nobody waits for them."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class CallBudgets:
    """The budgets of one project and region.

    :param polling: of what the loops ask by themselves.
    :param urgent: of reads and cancels that a decision hangs on: they must not queue behind a long list.
    :param searching: of the lists that look for a job.
    """

    polling: CallBudget = field(default_factory=CallBudget)
    urgent: CallBudget = field(default_factory=lambda: CallBudget(URGENT_PER_MINUTE))
    searching: CallBudget = field(default_factory=lambda: CallBudget(SEARCHES_PER_MINUTE))
