"""The ``filter`` of ListCustomJobs and ListHyperparameterTuningJobs.

In: the filter's text. Out: a :class:`Predicate` over anything that looks like a job. What the documented list
filter has is here, and nothing more: a field or comparison that the service does not document is refused,
because a client that relies on it would break there.

``display_name`` (``=``, ``!=``, ``:`` with ``*``), ``state`` (``=``, ``!=``), ``create_time`` (six
comparisons, RFC 3339), ``labels.key=value``, ``labels.key:*``.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from google.cloud.aiplatform_v1.types import JobState
from google.protobuf import timestamp_pb2

from airflow_provider.agent_platform.emulator.errors import invalid_argument
from airflow_provider.agent_platform.emulator.filter_syntax import And, Node, Not, Or, Restriction, Text
from airflow_provider.agent_platform.emulator.filter_syntax import parse as parse_syntax

STATES: Mapping[str, int] = {name: int(state) for name, state in JobState.__members__.items()}

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "display_name": ("=", "!=", ":"),
    "state": ("=", "!="),
    "create_time": ("=", "!=", "<", "<=", ">", ">="),
    "labels": ("=", ":"),
}
"""Field -> comparisons that the list filter documents."""


class JobView(Protocol):
    """What a filter looks at: a job message, or a row of an index with these four."""

    @property
    def display_name(self) -> str:
        """The job's display name."""

    @property
    def state(self) -> int:
        """The number of the job's state."""

    @property
    def create_time(self) -> Any:
        """A protobuf ``Timestamp``, an aware ``datetime``, or nanoseconds since the epoch."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The job's labels."""


Test = Callable[[JobView], bool]


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What every matching job has for certain: enough to use an index before :meth:`Predicate.matches`.

    ``None`` and an empty tuple mean that the filter says nothing about it.
    """

    states: frozenset[int] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    label_keys: tuple[str, ...] = ()
    display_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """A compiled filter. ``exact`` says that the hints alone decide, so that a store need not look again."""

    text: str
    test: Test
    hints: Hints
    exact: bool

    def matches(self, job: JobView) -> bool:
        """Whether the job is listed."""
        return self.test(job)


def parse(text: str) -> Predicate:
    """Compile a filter.

    :param text: as in the request; blank lists everything.
    :raises ApiError: INVALID_ARGUMENT, naming the field, the comparison or the value that is wrong.
    """
    node = parse_syntax(text)
    if node is None:
        return Predicate(text=text, test=lambda job: True, hints=Hints(), exact=True)
    hints, exact = _hints(node)
    return Predicate(text=text, test=_compile(node), hints=hints, exact=exact)


def _compile(node: Node) -> Test:
    if isinstance(node, And):
        return _chain([_compile(part) for part in node.parts], ends=False)
    if isinstance(node, Or):
        return _chain([_compile(part) for part in node.parts], ends=True)
    if isinstance(node, Not):
        inner = _compile(node.part)
        return lambda job: not inner(job)
    if isinstance(node, Text):
        raise invalid_argument(
            f"Invalid filter: {node.value!r} stands alone; write <field><comparison><value>, where the field "
            f"is one of {', '.join(ALLOWED)}."
        )
    tests = [_restriction(node, value) for value in node.values]
    return tests[0] if len(tests) == 1 else _chain(tests, ends=True)


def _chain(tests: list[Test], *, ends: bool) -> Test:
    """``any`` (``ends=True``) or ``all`` of some tests, without a generator for each job."""

    def chained(job: JobView) -> bool:
        for test in tests:
            if test(job) is ends:
                return ends
        return not ends

    return chained


def _restriction(node: Restriction, value: str) -> Test:
    name = node.field[0]
    allowed = ALLOWED.get(name)
    if allowed is None or (name != "labels" and len(node.field) > 1):
        raise invalid_argument(
            f"Invalid filter: unknown field {node.path!r}; the fields are display_name, state, create_time "
            "and labels.<key>."
        )
    if node.comparator not in allowed:
        raise invalid_argument(
            f"Invalid filter: {node.path} does not support {node.comparator!r}; it supports "
            f"{' '.join(allowed)}."
        )
    if name == "display_name":
        return _display_name(node.comparator, value)
    if name == "state":
        number, equal = _state_number(value), node.comparator == "="
        return lambda job: (job.state == number) is equal
    if name == "create_time":
        moment, compare = _nanoseconds_of_text(value), _COMPARE[node.comparator]
        return lambda job: compare(_nanoseconds(job.create_time), moment)
    return _label(node, value)


def _display_name(comparator: str, value: str) -> Test:
    if comparator == "=":
        return lambda job: job.display_name == value
    if comparator == "!=":
        return lambda job: job.display_name != value
    matches = wildcard(value)
    return lambda job: matches(job.display_name)


def _label(node: Restriction, value: str) -> Test:
    if len(node.field) == 1:
        # `labels:key`, the standard's other way to ask for a key.
        if node.comparator != ":" or value == "*":
            raise invalid_argument("Invalid filter: labels needs a key: labels.key=value or labels.key:*.")
        return lambda job: value in job.labels
    key = ".".join(node.field[1:])
    if node.comparator == "=":
        return lambda job: job.labels.get(key) == value
    if value == "*" and not node.quoted:
        return lambda job: key in job.labels
    matches = wildcard(value)
    return lambda job: key in job.labels and matches(job.labels[key])


def wildcard(pattern: str) -> Callable[[str], bool]:
    """A test for the whole of a string, in which ``*`` stands for any run of characters, also an empty one.

    Not a regular expression: a pattern of many stars would make one backtrack for ever.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return lambda text: text == pattern
    *middle, last = rest

    def matches(text: str) -> bool:
        if not (text.startswith(first) and text.endswith(last)) or len(text) < len(first) + len(last):
            return False
        position, end = len(first), len(text) - len(last)
        for part in middle:
            found = text.find(part, position, end)
            if found < 0:
                return False
            position = found + len(part)
        return True

    return matches


def _state_number(value: str) -> int:
    if value not in STATES:
        raise invalid_argument(
            f"Invalid filter: {value!r} is no job state; the states are {', '.join(STATES)}."
        )
    return STATES[value]


def _nanoseconds(time: Any) -> int:
    if isinstance(time, int):
        return time
    if isinstance(time, timestamp_pb2.Timestamp):
        return time.ToNanoseconds()
    if hasattr(time, "timestamp_pb"):  # proto-plus' own datetime, the only one with nanoseconds
        return int(time.timestamp_pb().ToNanoseconds())
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(time.astimezone(datetime.timezone.utc) if time.tzinfo else time)
    return stamp.ToNanoseconds()


def _nanoseconds_of_text(value: str) -> int:
    stamp = timestamp_pb2.Timestamp()
    try:
        stamp.FromJsonString(value)
    except ValueError:
        raise invalid_argument(
            f"Invalid filter: create_time {value!r} is not an RFC 3339 time such as 2026-05-18T00:00:00Z."
        ) from None
    return stamp.ToNanoseconds()


def _hints(node: Node) -> tuple[Hints, bool]:
    """The conditions that hold whatever else does, and whether they are the whole filter."""
    states: frozenset[int] | None = None
    labels: list[tuple[str, str]] = []
    keys: list[str] = []
    display_name: str | None = None
    exact = True
    for part in node.parts if isinstance(node, And) else (node,):
        found = _states_of(part)
        if found is not None:
            states = found if states is None else states & found
        elif isinstance(part, Restriction) and len(part.values) == 1 and len(part.field) > 1:
            key, value = ".".join(part.field[1:]), part.values[0]
            if part.comparator == "=":
                labels.append((key, value))
            else:
                keys.append(key)
                exact = exact and value == "*" and not part.quoted
        elif isinstance(part, Restriction) and part.field == ("display_name",) and part.comparator == "=":
            if len(part.values) > 1 or (display_name is not None and display_name != part.values[0]):
                exact = False
            else:
                display_name = part.values[0]
        else:
            exact = False
    hints = Hints(states=states, labels=tuple(labels), label_keys=tuple(keys), display_name=display_name)
    return hints, exact


def _states_of(node: Node) -> frozenset[int] | None:
    """The states a part allows, if it speaks of nothing but the state."""
    if isinstance(node, Restriction) and node.field == ("state",) and node.comparator in ALLOWED["state"]:
        numbers = [STATES.get(value, -1) for value in node.values]
        if node.comparator == "=":
            return frozenset(numbers)
        return frozenset(STATES.values()) - {numbers[0]} if len(numbers) == 1 else None
    if isinstance(node, Not):
        inner = _states_of(node.part)
        return None if inner is None else frozenset(STATES.values()) - inner
    if isinstance(node, Or):
        union: frozenset[int] = frozenset()
        for part in node.parts:
            found = _states_of(part)
            if found is None:
                return None
            union |= found
        return union
    return None
