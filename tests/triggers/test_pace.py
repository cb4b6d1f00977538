"""When the next poll is: never later than was asked for, but when all is quiet in the queue."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.agent_platform.triggers.pace import QUIET_AFTER, seconds_to_next

OLD: dict[str, Any] = {
    "interval": 30.0,
    "youngest": 1e9,
    "quiet_for": 0.0,
    "all_queued": False,
    "random": 0.0,
}


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({}, 30),
        ({"random": 1.0}, 27),
        ({"youngest": 1.0}, 2),
        ({"youngest": 10.0}, 5),
        ({"youngest": 50.0}, 10),
        ({"youngest": 61.0}, 30),
        ({"youngest": 1.0, "interval": 1.0}, 1),
        ({"all_queued": True, "quiet_for": QUIET_AFTER}, 60),
        ({"all_queued": True, "quiet_for": QUIET_AFTER - 1}, 30),
        ({"all_queued": False, "quiet_for": 1e6}, 30),
        ({"all_queued": True, "quiet_for": QUIET_AFTER, "youngest": 1.0}, 2),
    ],
)
def test_the_pause(values: dict[str, Any], seconds: float) -> None:
    assert seconds_to_next(**{**OLD, **values}) == pytest.approx(seconds)


@given(
    interval=st.floats(0.1, 3600),
    youngest=st.floats(0, 1e6),
    quiet_for=st.floats(0, 1e6),
    random=st.floats(0, 1),
)
def test_the_end_of_a_running_job_is_seen_within_the_interval(**values: float) -> None:
    assert 0 < seconds_to_next(all_queued=False, **values) <= values["interval"]
