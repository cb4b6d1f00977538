"""Waiting for what another process does: real time, because no clock of ours drives it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    look: Callable[[], T | None],
    what: str,
    *,
    seconds: float,
    every: float = 0.5,
    watch: Callable[[], None] | None = None,
) -> T:
    """Look again and again until the answer is true-ish, and return it.

    :param look: asks once.
    :param what: what is waited for, completing "waited N s for ...".
    :param seconds: how long to wait at most.
    :param every: seconds between two looks.
    :param watch: called before each look; may raise to end the wait (a component that died).
    :raises TimeoutError: naming what was waited for.
    """
    deadline = time.monotonic() + seconds
    while True:
        if watch is not None:
            watch()
        answer = look()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)
