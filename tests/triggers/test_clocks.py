"""The three clocks: which run, which ends first, and what cannot be read."""

from __future__ import annotations

import pendulum
import pytest

from airflow_provider.agent_platform.triggers.clocks import ClockName, Clocks, parse_time, utcnow

NOON = pendulum.datetime(2026, 1, 31, 12, tz="UTC")


def test_all_three_clocks_run_for_a_job_that_waits() -> None:
    clocks = Clocks.parse(
        queue_deadline="2026-01-31T14:30:00Z", run_timeout=60, execution_deadline="2026-01-31T13:00:00+00:00"
    )
    assert clocks.deadlines(started=False, start_time=None) == (
        (NOON.add(hours=1), ClockName.EXECUTION),
        (NOON.add(hours=2, minutes=30), ClockName.QUEUE),
    )


def test_the_queue_clock_ends_for_good_with_the_first_start() -> None:
    clocks = Clocks.parse(queue_deadline="2026-01-31T12:10:00Z", run_timeout=3600)
    assert clocks.deadlines(started=True, start_time=NOON) == ((NOON.add(hours=1), ClockName.RUN),)


def test_no_clock_runs_when_none_was_given() -> None:
    assert Clocks().deadlines(started=True, start_time=NOON) == ()


def test_of_two_that_ended_the_earlier_counts() -> None:
    clocks = Clocks(run_timeout=10.0, execution_deadline=NOON.add(seconds=5))
    assert [clock for _, clock in clocks.deadlines(started=True, start_time=NOON)] == [
        ClockName.EXECUTION,
        ClockName.RUN,
    ]


def test_a_deadline_in_another_zone_is_the_same_moment() -> None:
    assert parse_time("queue_deadline", "2026-01-31T14:00:00+02:00") == NOON


@pytest.mark.parametrize("text", ["", "tomorrow", "12:30", "2026-01-31", "P1D", "2026-13-01T00:00:00Z"])
def test_a_text_that_is_no_time_is_refused_with_field_value_and_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"execution_deadline is .*2026-01-31T14:30:00Z"):
        Clocks.parse(execution_deadline=text)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_a_run_timeout_that_is_no_duration_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="run_timeout is"):
        Clocks.parse(run_timeout=seconds)


def test_the_clock_is_aware_and_in_utc() -> None:
    assert utcnow().timezone_name == "UTC"
