"""Durations in every form that users, gcloud and the API write them.

In: seconds, ``"3600s"``, ISO 8601, a timedelta, a message. Out: seconds, or the text of the API.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import cast

import pendulum

from airflow_provider.agent_platform.jobs.errors import shown

ALLOWED = (
    "Give seconds (3600, '3600s'), ISO 8601 ('PT1H'), 'H:MM:SS' as Python prints a timedelta, or a timedelta."
)
_MAX_SECONDS = Decimal(315_576_000_000)  # of google.protobuf.Duration
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)s?")
_CLOCK = re.compile(r"(?:([0-9]+) days?, )?([0-9]+):([0-5][0-9]):([0-5][0-9](?:\.[0-9]+)?)")


def seconds_of(value: object) -> float:
    """Return a duration in seconds.

    :param value: see :data:`ALLOWED`; also a ``Duration`` message as a dict.
    :raises ValueError: none of these forms, or negative.
    """
    return float(_decimal(value))


def api_duration(value: object) -> str:
    """Return a duration as the API's JSON writes it: ``"3600s"``, with at most nine decimals.

    :raises ValueError: as :func:`seconds_of`.
    """
    seconds = _decimal(value).quantize(Decimal("1e-9")).normalize()
    return f"{seconds:f}s"


def _decimal(value: object) -> Decimal:
    seconds = _read(value)
    if seconds is None:
        raise ValueError(f"{shown(value)} is no duration. {ALLOWED}")
    if not 0 <= seconds <= _MAX_SECONDS:
        raise ValueError(f"{shown(value)} is no duration between 0 and {_MAX_SECONDS} seconds. {ALLOWED}")
    return seconds


def _read(value: object) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime.timedelta):  # pendulum's Duration is one
        return _of_timedelta(value)
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    if isinstance(value, str):
        return _read_text(value.strip())
    if isinstance(value, Mapping) and value and set(value) <= {"seconds", "nanos"}:
        return _read_parts(value)
    return None


def _read_text(text: str) -> Decimal | None:
    if plain := _SECONDS.fullmatch(text):
        return Decimal(plain[1])
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = clock.groups()
        return Decimal(int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60) + Decimal(seconds)
    if text.startswith("P") and any(character.isdigit() for character in text):
        try:
            parsed = cast(object, pendulum.parse(text))
        except (ValueError, OverflowError):
            return None
        return _of_timedelta(parsed) if isinstance(parsed, datetime.timedelta) else None
    return None


def _read_parts(parts: Mapping[object, object]) -> Decimal | None:
    try:
        return Decimal(str(parts.get("seconds", 0))) + Decimal(str(parts.get("nanos", 0))) / 10**9
    except ArithmeticError:
        return None


def _of_timedelta(value: datetime.timedelta) -> Decimal:
    # The float is exact to the microsecond for 285 years; pendulum's Duration cannot be divided by a timedelta.
    return Decimal(round(value.total_seconds() * 10**6)) / 10**6
