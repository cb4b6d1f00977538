"""Delays grow like tenacity's, are spread by full jitter, and are the same for the same question."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from tenacity.wait import wait_exponential

from airflow_provider.agent_platform.policy.delays import full_jitter, wait_seeded_full_jitter

GROWTH = wait_exponential(multiplier=10, max=60)


def test_the_same_seed_and_attempt_give_the_same_delay() -> None:
    random.seed(1)
    first = full_jitter(GROWTH, attempt=2, seed="a")
    random.seed(2)

    assert full_jitter(GROWTH, attempt=2, seed="a") == first


def test_another_process_draws_the_same_delay() -> None:
    code = (
        "from tenacity.wait import wait_exponential\n"
        "from airflow_provider.agent_platform.policy.delays import full_jitter\n"
        "print(full_jitter(wait_exponential(multiplier=10, max=60), attempt=3, seed='task').total_seconds())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert float(said) == full_jitter(GROWTH, attempt=3, seed="task").total_seconds()


def test_seeds_and_attempts_are_spread() -> None:
    drawn = {full_jitter(GROWTH, attempt=4, seed=str(seed)).total_seconds() for seed in range(200)}

    assert len(drawn) > 190
    assert min(drawn) < 5
    assert max(drawn) > 55
    assert full_jitter(GROWTH, attempt=5, seed="0") != full_jitter(GROWTH, attempt=6, seed="0")


@pytest.mark.parametrize(("attempt", "limit"), [(1, 10), (2, 20), (3, 40), (4, 60), (50, 60), (5000, 60)])
def test_the_limit_doubles_until_its_largest(attempt: int, limit: float) -> None:
    drawn = [full_jitter(GROWTH, attempt=attempt, seed=str(seed)).total_seconds() for seed in range(100)]

    assert min(drawn) >= 0
    assert limit * 0.9 < max(drawn) <= limit


def test_a_delay_is_one_draw_between_nothing_and_the_limit() -> None:
    drawn = random.Random("x#2").uniform(0, 20)

    assert full_jitter(GROWTH, attempt=2, seed="x").total_seconds() == int(drawn * 1000) / 1000


def test_a_delay_has_whole_milliseconds() -> None:
    seconds = full_jitter(GROWTH, attempt=1, seed="x").total_seconds()

    assert seconds == round(seconds, 3)
    assert seconds > 0.1


def test_it_is_a_wait_of_tenacity() -> None:
    from tenacity import RetryCallState, Retrying

    state = RetryCallState(Retrying(), None, (), {})
    added = wait_seeded_full_jitter(GROWTH, "a") + wait_exponential(multiplier=1000, min=1000)

    assert added(state) >= 1000
