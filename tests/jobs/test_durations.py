"""One duration, written in every form that users and tools write it."""

from __future__ import annotations

import datetime
from typing import Any

import pendulum
import pytest
from google.protobuf import duration_pb2, json_format
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.agent_platform.jobs.durations import api_duration, seconds_of

HOUR: list[Any] = [
    3600,
    3600.0,
    "3600",
    "3600s",
    "3600.0s",
    " 3600s ",
    "PT1H",
    "PT60M",
    "1:00:00",
    datetime.timedelta(hours=1),
    pendulum.duration(hours=1),
    {"seconds": 3600},
    {"seconds": "3600", "nanos": 0},
]


@pytest.mark.parametrize("value", HOUR, ids=repr)
def test_an_hour_is_an_hour_in_every_form(value: Any) -> None:
    assert api_duration(value) == "3600s"
    assert seconds_of(value) == 3600.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (0.25, "0.25s"),
        ("1.5s", "1.5s"),
        (datetime.timedelta(microseconds=1), "0.000001s"),
        ({"nanos": 1}, "0.000000001s"),
        (pendulum.duration(days=7), "604800s"),
        (datetime.timedelta(days=400, seconds=1), "34560001s"),
        ("2 days, 3:04:05", "183845s"),
        ("1 day, 0:00:00.500000", "86400.5s"),
        ("P1DT1S", "86401s"),
        (10**9, "1000000000s"),
    ],
)
def test_durations_lose_nothing(value: Any, text: str) -> None:
    assert api_duration(value) == text


@pytest.mark.parametrize(
    "value",
    [
        "1h", "60m", "", "s", "-5s", -1, True, None, [], {}, {"minutes": 1}, {"seconds": "x"}, float("nan"),
        float("inf"), datetime.timedelta(seconds=-1), "P", "PT", "2026-11-30", "1e3", 10**12, "P1X", b"60s",
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_the_forms_that_are(value: Any) -> None:
    with pytest.raises(ValueError, match="Give seconds"):
        api_duration(value)


@given(st.timedeltas(min_value=datetime.timedelta(0), max_value=datetime.timedelta(days=10_000)))
def test_a_timedelta_and_its_text_are_the_same_and_the_api_reads_them(value: datetime.timedelta) -> None:
    text = api_duration(value)
    assert api_duration(str(value)) == text
    assert api_duration(text) == text
    message = duration_pb2.Duration()
    json_format.Parse(f'"{text}"', message)
    assert message.ToTimedelta() == value
