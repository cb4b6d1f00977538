"""When to poll next, as a pure function.

In: what the waiters asked for, how old they are, how the last poll went. Out: seconds. The limits on the
number of calls are in :mod:`.call_budget`.
"""

from __future__ import annotations

from typing import Final

FRESH_SECONDS: Final = 60.0
"""A job that somebody began to wait for this recently is looked at more often: its first states follow
quickly."""

FRESH_INTERVALS: Final = ((5.0, 2.0), (20.0, 5.0), (FRESH_SECONDS, 10.0))
"""(age of the youngest wait, seconds to the next poll), until the normal interval is shorter anyway."""

JOIN_SECONDS: Final = 0.5
"""A new waiter is answered after this pause, so that a hundred that come at once share one call."""

LEAST_SECONDS: Final = 2.0
"""Pause between two polls, however many waiters come: unless a shorter interval was asked for."""

QUIET_AFTER: Final = 900.0
QUIET_FACTOR: Final = 2.0
"""When for so long every job has only been QUEUED and nothing has changed, half as many calls are made. Not
when a job runs: its end must be seen within the interval that was asked for."""

JITTER: Final = 0.1
"""An interval is shortened by up to this part, so that the loops of several triggerers do not stay in step.
Never made longer: the interval is what the user was promised."""

BACKOFF_FIRST: Final = 2.0
BACKOFF_MOST: Final = 60.0


def seconds_to_next(
    *, interval: float, youngest: float, quiet_for: float, all_queued: bool, random: float
) -> float:
    """Answer how long to wait from the start of the last poll on.

    :param interval: smallest interval any waiter asked for, seconds.
    :param youngest: seconds since the youngest wait, of a job that is not RUNNING, began.
    :param quiet_for: seconds since anything changed.
    :param all_queued: every job is QUEUED.
    :param random: a number between 0 and 1.
    """
    pause = interval
    if all_queued and quiet_for >= QUIET_AFTER:
        pause = interval * QUIET_FACTOR
    for age, fresh in FRESH_INTERVALS:
        if youngest < age:
            pause = min(pause, fresh)
            break
    return pause * (1.0 - JITTER * random)


def seconds_after_failure(failures: int, *, interval: float, random: float) -> float:
    """Answer the pause after the n-th failed poll in a row: growing, with jitter, never above a minute.

    :param failures: 1 after the first.
    """
    pause = min(BACKOFF_MOST, BACKOFF_FIRST * 2.0 ** min(failures - 1, 10))
    return max(min(interval, BACKOFF_FIRST), pause * (1.0 - 0.5 * random))
