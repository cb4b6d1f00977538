"""The sentences of a wait."""

from __future__ import annotations

from typing import Any

import pendulum
import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.clocks import Clocks
from airflow_provider.agent_platform.triggers.view import JobView
from airflow_provider.agent_platform.triggers.words import WHY, clock_time, describe, span

NOON = pendulum.datetime(2026, 1, 31, 12, tz="UTC")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (11100, "3 h 5 min"),
        (86400, "1 d"),
        (187200, "2 d 4 h"),
    ],
)
def test_a_span_has_at_most_two_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_time_of_another_day_has_its_date_and_all_are_in_utc() -> None:
    assert clock_time(NOON.add(hours=2), NOON) == "14:00 UTC"
    assert clock_time(NOON.add(hours=2).in_timezone("Asia/Tokyo"), NOON) == "14:00 UTC"
    assert clock_time(NOON.add(days=1), NOON) == "2026-02-01 12:00 UTC"


@pytest.mark.parametrize(
    ("view", "started", "start"),
    [
        (
            {"state": JobState.QUEUED, "create_time": NOON},
            False,
            "QUEUED for 1 h (just created, or waiting for",
        ),
        ({"state": JobState.PENDING, "create_time": NOON}, False, "PENDING for 1 h (the service looks for"),
        (
            {"state": JobState.PENDING, "start_time": NOON, "update_time": NOON.add(minutes=50)},
            True,
            "PENDING for 10 min (it ran before",
        ),
        (
            {"state": JobState.RUNNING, "start_time": NOON},
            True,
            "RUNNING for 1 h (all workers are available)",
        ),
        ({"state": JobState.CANCELLING}, True, "CANCELLING (a cancel was asked for"),
        ({"state": 77}, True, "77 (a state this version does not know"),
        ({"state": JobState.FAILED, "end_time": NOON}, True, "FAILED at 12:00 UTC"),
        ({"state": JobState.SUCCEEDED}, True, "SUCCEEDED"),
    ],
)
def test_a_line_says_the_state_since_when_and_why(view: dict[str, Any], started: bool, start: str) -> None:
    text = describe(JobView(name="n", **view), Clocks(), started=started, now=NOON.add(hours=1))
    assert text.startswith(start)


def test_every_live_state_has_its_reason() -> None:
    from airflow_provider.agent_platform.policy.states import is_live

    assert {state for state in JobState if is_live(state)} - set(WHY) == {JobState.UNSPECIFIED}
