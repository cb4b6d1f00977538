"""Durations and counts as people write them."""

from __future__ import annotations

import pytest

from airflow_provider.agent_platform.policy.words import count_of, seconds_in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (-5, "0 s"), (0.4, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (7500, "2 h 5 min"),
     (7501, "2 h 5 min"), (90000, "1 d 1 h"), (86400 * 10, "10 d"), (3601, "1 h 1 s")],
)  # fmt: skip
def test_a_duration_has_its_two_largest_units(seconds: float, words: str) -> None:
    assert seconds_in_words(seconds) == words


def test_a_noun_follows_its_number() -> None:
    assert [count_of(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
