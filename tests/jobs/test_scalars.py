"""Single values: what means one thing is taken, what means two is refused."""

from __future__ import annotations

import datetime
from typing import Any

import pendulum
import pytest

from airflow_provider.agent_platform.jobs.scalars import READERS, ValueFault, enum_name

SECRET_PATH = "worker_pool_specs[0].container_spec.env[0].value"


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("string", "a", "a"),
        ("bool", True, True),
        ("bool", "True", True),
        ("bool", "false", False),
        ("bool", " FALSE ", False),
        ("int32", 4, 4),
        ("int32", "4", 4),
        ("int32", 4.0, 4),
        ("int64", "9223372036854775807", 2**63 - 1),
        ("double", "0.5", 0.5),
        ("double", 1, 1.0),
        ("duration", "60s", "60s"),
        ("timestamp", "2026-11-30T12:00:00+01:00", "2026-11-30T11:00:00Z"),
        ("timestamp", pendulum.datetime(2026, 11, 30), "2026-11-30T00:00:00Z"),
        ("timestamp", datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc), "2026-11-30T00:00:00Z"),
    ],
)
def test_values_are_read_in_the_forms_that_mean_one_thing(kind: str, value: Any, read: Any) -> None:
    result = READERS[kind](value, "field")
    assert result == read
    assert type(result) is type(read)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("string", 3, "3 is no text"),
        ("string", True, "write 'true' or 'True'"),
        ("string", b"a", "is no text"),
        ("bool", 1, "neither true nor false"),
        ("bool", "yes", "neither true nor false"),
        ("int32", True, "no whole number of 32 bits"),
        ("int32", 1.5, "no whole number"),
        ("int32", 2**31, "no whole number"),
        ("int32", "1e3", "no whole number"),
        ("int64", "99999999999999999999", "no whole number of 64 bits"),
        ("double", "fast", "no finite number"),
        ("double", float("nan"), "no finite number"),
        ("double", True, "no finite number"),
        ("duration", "soon", "no duration"),
        ("timestamp", "soon", "no time with a zone"),
        ("timestamp", datetime.datetime(2026, 11, 30), "no time with a zone"),  # noqa: DTZ001  (the fault itself)
    ],
)
def test_other_values_are_refused_with_what_is_allowed(kind: str, value: Any, text: str) -> None:
    with pytest.raises(ValueFault, match=text):
        READERS[kind](value, "field")


@pytest.mark.parametrize("path", ["p.args[0]", "p.command[2]", SECRET_PATH, "s.values[1]"])
@pytest.mark.parametrize(("value", "text"), [(3, "3"), (0.001, "0.001"), (1e-05, "1e-05")])
def test_programs_get_numbers_as_text(path: str, value: float, text: str) -> None:
    assert READERS["string"](value, path) == text


def test_a_bool_for_a_program_is_refused_because_its_spelling_matters() -> None:
    with pytest.raises(ValueFault, match="'true' or 'True'"):
        READERS["string"](True, "p.args[0]")


def test_an_error_never_shows_the_value_of_a_variable() -> None:
    with pytest.raises(ValueFault) as caught:
        READERS["string"](["hunter2"], SECRET_PATH)
    assert "hunter2" not in str(caught.value)
    assert "a list is no text" in str(caught.value)


NAMES = {"STRATEGY_UNSPECIFIED": 0, "STANDARD": 3, "SPOT": 4}


@pytest.mark.parametrize("value", ["SPOT", "spot", " Spot ", 4, "4"])
def test_an_enum_is_given_by_name_or_number(value: Any) -> None:
    assert enum_name("Strategy", NAMES, value) == "SPOT"


@pytest.mark.parametrize("value", ["FAST", 5, "5", True, None, 4.0, ["SPOT"]], ids=repr)
def test_an_unknown_name_is_answered_with_the_known_ones(value: Any) -> None:
    with pytest.raises(ValueFault, match=r"is no Strategy. Allowed: STANDARD, SPOT\."):
        enum_name("Strategy", NAMES, value)
