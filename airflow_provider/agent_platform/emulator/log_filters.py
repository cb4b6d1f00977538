"""The query language of Cloud Logging, as far as a job's log entries go.

In: the text of a query. Out: a :class:`Query` over entries in their JSON form. Any field can be compared;
texts compare without regard to case, severities by their order, times as times; a field that is not there
matches nothing but ``!=``. ``=~`` and ``!~`` take a regular expression. Functions (``SEARCH``, ``sample``,
``ip_in_net``) are refused.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import timestamp_pb2

from airflow_provider.agent_platform.emulator import patterns
from airflow_provider.agent_platform.emulator.errors import invalid_argument
from airflow_provider.agent_platform.emulator.filter_syntax import And, Node, Not, Or, Restriction, Text
from airflow_provider.agent_platform.emulator.filter_syntax import parse as parse_syntax

SEVERITIES: Mapping[str, int] = {
    "DEFAULT": 0,
    "DEBUG": 100,
    "INFO": 200,
    "NOTICE": 300,
    "WARNING": 400,
    "ERROR": 500,
    "CRITICAL": 600,
    "ALERT": 700,
    "EMERGENCY": 800,
}
TIMES = frozenset({"timestamp", "receiveTimestamp", "receive_timestamp"})

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SNAKE = {
    "log_name": "logName",
    "insert_id": "insertId",
    "text_payload": "textPayload",
    "json_payload": "jsonPayload",
    "receive_timestamp": "receiveTimestamp",
}

Entry = Mapping[str, Any]
Test = Callable[[Entry], bool]


@dataclass(frozen=True, kw_only=True)
class Query:
    """A compiled query.

    :param job_ids: the only jobs whose entries can match; ``None``: all.
    """

    test: Test
    job_ids: frozenset[str] | None = None

    def matches(self, entry: Entry) -> bool:
        """Whether the entry, in its JSON form, is asked for."""
        return self.test(entry)


def parse(text: str) -> Query:
    """Compile a query; blank asks for everything.

    :raises ApiError: INVALID_ARGUMENT, naming what is wrong.
    """
    node = parse_syntax(text)
    if node is None:
        return Query(test=lambda entry: True)
    return Query(test=_compile(node), job_ids=_job_ids(node))


def nanoseconds(text: str) -> int:
    """An RFC 3339 time as nanoseconds since the epoch.

    :raises ApiError: INVALID_ARGUMENT, it is none.
    """
    stamp = timestamp_pb2.Timestamp()
    # A date alone is midnight UTC in this language, and google-cloud-logging writes +0000 for +00:00.
    whole = f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else text
    whole = re.sub(r"([+-]\d{2})(\d{2})$", r"\1:\2", whole) if "T" in whole else whole
    try:
        stamp.FromJsonString(whole)
    except ValueError:
        raise invalid_argument(f"Invalid filter: {text!r} is not an RFC 3339 time.") from None
    return stamp.ToNanoseconds()


@functools.lru_cache(maxsize=4096)
def _stored_nanoseconds(text: str) -> int:
    return nanoseconds(text)


def severity_number(text: str) -> int:
    """A severity's number; names and numbers are understood.

    :raises ApiError: INVALID_ARGUMENT, it is no severity.
    """
    if text.upper() in SEVERITIES:
        return SEVERITIES[text.upper()]
    if text.isdigit():
        return int(text)
    raise invalid_argument(
        f"Invalid filter: {text!r} is no severity; the severities are {', '.join(SEVERITIES)}."
    )


def _compile(node: Node) -> Test:
    if isinstance(node, And):
        parts = [_compile(part) for part in node.parts]
        return lambda entry: all(part(entry) for part in parts)
    if isinstance(node, Or):
        parts = [_compile(part) for part in node.parts]
        return lambda entry: any(part(entry) for part in parts)
    if isinstance(node, Not):
        inner = _compile(node.part)
        return lambda entry: not inner(entry)
    if isinstance(node, Text):
        wanted = node.value.casefold()
        return lambda entry: any(wanted in text.casefold() for text in _texts(entry))
    tests = [_restriction(node, value) for value in node.values]
    return tests[0] if len(tests) == 1 else lambda entry: any(test(entry) for test in tests)


def _restriction(node: Restriction, value: str) -> Test:
    path = (_SNAKE.get(node.field[0], node.field[0]), *node.field[1:])
    comparator = node.comparator
    if comparator == ":" and value == "*" and not node.quoted:
        return lambda entry: _get(entry, path) is not None
    if comparator in ("=~", "!~"):
        return _regular_expression(path, value, matching=comparator == "=~")
    if path == ("severity",):
        return _ordered(path, comparator, severity_number(value), severity_number)
    if len(path) == 1 and path[0] in TIMES:
        return _ordered(path, comparator, nanoseconds(value), _stored_nanoseconds)
    if comparator == ":":
        wanted = value.casefold()
        return lambda entry: any(wanted in text.casefold() for text in _texts(_get(entry, path)))
    return _compared(path, comparator, value)


def _ordered(path: tuple[str, ...], comparator: str, wanted: int, read: Callable[[str], int]) -> Test:
    compare = _ORDER["=" if comparator == ":" else comparator]

    def test(entry: Entry) -> bool:
        found = _get(entry, path)
        return comparator == "!=" if found is None else compare(read(found), wanted)

    return test


def _compared(path: tuple[str, ...], comparator: str, value: str) -> Test:
    compare, number = _ORDER[comparator], _number(value)

    def test(entry: Entry) -> bool:
        found = _get(entry, path)
        if found is None or isinstance(found, (dict, list)):
            return comparator == "!="
        if isinstance(found, bool):
            return compare(str(found).casefold(), value.casefold())
        if isinstance(found, (int, float)) and number is not None:
            return compare(found, number)
        return compare(str(found).casefold(), value.casefold())

    return test


def _regular_expression(path: tuple[str, ...], pattern: str, *, matching: bool) -> Test:
    found = patterns.search(pattern)
    return lambda entry: any(found(text) for text in _texts(_get(entry, path))) is matching


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _get(entry: Entry, path: tuple[str, ...]) -> Any:
    """The value at a path; a key that has dots itself may be written as it is."""
    value: Any = entry
    for index, name in enumerate(path):
        if not isinstance(value, Mapping):
            return None
        if name not in value:
            return value.get(".".join(path[index:]))
        value = value[name]
    return value


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, however deep."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _job_ids(node: Node) -> frozenset[str] | None:
    """The jobs that a query is limited to for certain."""
    found: frozenset[str] | None = None
    for part in node.parts if isinstance(node, And) else (node,):
        if (
            isinstance(part, Restriction)
            and part.field == ("resource", "labels", "job_id")
            and part.comparator == "="
        ):
            found = frozenset(part.values) if found is None else found & frozenset(part.values)
    return found
