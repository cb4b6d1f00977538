"""
How long to wait before the next job: tenacity's exponential growth, with full jitter that is a pure function.

Enters: a growth, which attempt it is, a seed. Leaves: a duration. tenacity's own ``wait_random_exponential``
draws from the global random generator: a process killed after its decision would come back to another one.
"""

from __future__ import annotations

import random

import pendulum
from tenacity import RetryCallState, Retrying
from tenacity.wait import wait_base, wait_exponential


class wait_seeded_full_jitter(wait_base):
    """
    A tenacity wait between 0 and what another wait gives, drawn from a seed.

    :param ceiling: the wait that grows.
    :param seed: the same seed and attempt give the same wait.
    """

    def __init__(self, ceiling: wait_exponential, seed: str) -> None:
        self.ceiling = ceiling
        self.seed = seed

    def __call__(self, retry_state: RetryCallState) -> float:
        """Seconds to wait after the attempt."""
        # A text seeds by its SHA-512, not by the process's hash: the same in every process.
        draw = random.Random(f"{self.seed}#{retry_state.attempt_number}")  # noqa: S311 - no secret
        return draw.uniform(0, self.ceiling(retry_state))


def full_jitter(ceiling: wait_exponential, *, attempt: int, seed: str) -> pendulum.Duration:
    """
    Draw the delay before the next job.

    :param ceiling: how the longest delay grows.
    :param attempt: how often in a row it has ended like this, from 1.
    :param seed: something of the task and its ledger.
    :return: whole milliseconds.
    """
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    return pendulum.duration(milliseconds=int(wait_seeded_full_jitter(ceiling, seed)(state) * 1000))
