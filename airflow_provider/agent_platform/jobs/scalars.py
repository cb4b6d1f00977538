"""Single values of a job description: text, switches, numbers, durations, times, names of enums.

In: a value in any form that means one thing, and the path of its field. Out: the value as the API's JSON
takes it, or a :class:`ValueFault` whose text says what is allowed. What means two things is refused, never
guessed.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping

import pendulum

from airflow_provider.agent_platform.jobs.durations import api_duration
from airflow_provider.agent_platform.jobs.errors import shown

# A program reads its numbers from text; so they may be written as numbers, but only where that is the reader.
_FOR_PROGRAMS = re.compile(r"(?:(?:args|command|values)\[\d+\]|env\[\d+\]\.value)$")
_SECRET = re.compile(r"env(?:\[\d+\](?:\.value)?)?$")


class ValueFault(ValueError):
    """A value that cannot be sent; the text becomes part of a ``SpecError``."""


def shown_at(value: object, path: str) -> str:
    """Return a value as an error may show it; of an environment variable only its type, it may be a secret.

    :param value: the value.
    :param path: of its field.
    """
    return f"a {type(value).__name__}" if _SECRET.search(path) else shown(value)


def text(value: object, path: str) -> str:
    """Return a string. A number is one in arguments, commands, variables and categories, a bool never is."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        raise ValueFault(f"{value} is no text, and programs spell it differently: write 'true' or 'True'.")
    if isinstance(value, (int, float)) and _FOR_PROGRAMS.search(path):
        return str(value)
    raise ValueFault(f"{shown_at(value, path)} is no text: give a string.")


def switch(value: object, path: str) -> bool:
    """Return a bool; Jinja renders one to ``"True"``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ValueFault(f"{shown(value)} is neither true nor false: give a bool, or the text 'true' or 'false'.")


def whole(bits: int) -> Callable[[object, str], int]:
    """Return the reader of a signed whole number; the API's JSON and Jinja write it as text.

    :param bits: 32 or 64.
    """
    limit = 2 ** (bits - 1)

    def read(value: object, path: str) -> int:
        number: int | None = None
        if (
            (isinstance(value, int) and not isinstance(value, bool))
            or (isinstance(value, float) and value.is_integer())
            or (isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,19}\s*", value))
        ):
            number = int(value)
        if number is None or not -limit <= number < limit:
            raise ValueFault(f"{shown(value)} is no whole number of {bits} bits.")
        return number

    return read


def number(value: object, path: str) -> float:
    """Return a finite float."""
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            result = float(value)
        except (ValueError, OverflowError):
            result = math.nan
        if math.isfinite(result):
            return result
    raise ValueFault(f"{shown(value)} is no finite number.")


def duration(value: object, path: str) -> str:
    """Return ``"3600s"``."""
    try:
        return api_duration(value)
    except ValueError as error:
        raise ValueFault(str(error)) from None


def moment(value: object, path: str) -> str:
    """Return a time in UTC, RFC 3339; a text without a zone is UTC, a datetime without one is refused."""
    parsed: object = value
    if isinstance(value, str):
        try:
            parsed = pendulum.parse(value)
        except ValueError:
            parsed = None
    if not isinstance(parsed, datetime.datetime) or parsed.tzinfo is None:
        raise ValueFault(f"{shown(value)} is no time with a zone: give '2026-11-30T12:00:00Z' or a datetime.")
    return pendulum.instance(parsed).in_timezone("UTC").isoformat().replace("+00:00", "Z")


def enum_name(enum: str, names: Mapping[str, int], value: object) -> str:
    """Return the name of an enum's value, given by name (any case) or number.

    :param enum: name of the enum.
    :param names: its names and numbers.
    :param value: what the user gave.
    """
    if isinstance(value, str) and not value.strip().isdigit():
        if value.strip().upper() in names:
            return value.strip().upper()
    elif isinstance(value, (int, str)) and not isinstance(value, bool):
        for name, known in names.items():
            if known == int(value):
                return name
    allowed = ", ".join(name for name, known in names.items() if known)
    raise ValueFault(f"{shown(value)} is no {enum}. Allowed: {allowed}.")


READERS: Mapping[str, Callable[[object, str], object]] = {
    "string": text,
    "bool": switch,
    "int32": whole(32),
    "int64": whole(64),
    "double": number,
    "duration": duration,
    "timestamp": moment,
}
