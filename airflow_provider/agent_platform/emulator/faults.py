"""Faults by script: what is armed, what it matches, and how often it may still fire.

In: the JSON object of ``POST /emulator/v1/faults`` or of a YAML file. Out: a :class:`Fault`; :meth:`Faults.take`
fires one. Faults are not kept over a restart. When a fault is due, and what it does to a job, is ``engine``'s affair.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2


class FaultError(ValueError):
    """A fault that cannot be understood; the text names the field, the value and what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a fault is matched against; empty texts where it does not apply."""

    job: str = ""
    display_name: str = ""
    region: str = ""
    method: str = ""


@dataclass(kw_only=True)
class Fault:
    """One armed fault.

    :param times: firings that are left; None for no end.
    :param met: calls it was asked about so far, those it let pass too.
    :param after_seconds: seconds of the platform; None: at once.
    """

    id: str
    name: str
    match: Mapping[str, str]
    times: int | None = 1
    after_seconds: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    fired: int = 0
    met: int = 0

    def matches(self, target: Target) -> bool:
        """Whether it is meant, and may still fire."""
        return self.matches_call(target) and self.matches_job(target)

    def matches_call(self, target: Target) -> bool:
        """Whether method and region are meant, and it may still fire."""
        left = self.times is None or self.times > 0
        return left and all(self.match.get(name, found) == found for name, found in _call_fields(target))

    def matches_job(self, target: Target) -> bool:
        """Whether the job is meant."""
        pattern = self.match.get("display_name")
        meant = pattern is None or fnmatch.fnmatchcase(target.display_name, pattern)
        return meant and self.match.get("job", target.job) == target.job

    def to_json(self) -> dict[str, Any]:
        """As the control API shows it."""
        shown = {
            "id": self.id, "fault": self.name, "match": dict(self.match), "times": self.times,
            "after_seconds": self.after_seconds, "fired": self.fired,
        }  # fmt: skip
        return {**shown, **self.options}


def _call_fields(target: Target) -> tuple[tuple[str, str], ...]:
    return (("method", target.method), ("region", target.region))


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError("a finite number of seconds, 0 or more")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty")
    return value


def _replica(value: Any) -> str:
    pool, dash, index = _text(value).partition("-")
    numbers = pool.removeprefix("workerpool"), index
    if not (pool.startswith("workerpool") and dash and all(re.fullmatch("[0-9]+", one) for one in numbers)):
        raise ValueError("a replica's name such as workerpool1-0")
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _code(value: Any) -> str:
    names = [name for name in dict(code_pb2.Code.items()) if name != "OK"]
    if value not in names:
        raise ValueError(f"a gRPC code: {', '.join(names)}")
    return str(value)


def _every(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number, 1 or more: each so-many-th call is hit")
    return value


def _times(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number of firings, 1 or more, or null for no end")
    return value


def _match(value: Any) -> dict[str, str]:
    fields = ("display_name", "region", "job", "method")
    if not isinstance(value, Mapping) or any(key not in fields for key in value):
        raise ValueError(f"an object with any of {', '.join(fields)}")
    if any(not isinstance(one, str) for one in value.values()):
        raise ValueError("an object whose values are texts")
    return {key: one.rpartition("/")[2] if key == "job" else one for key, one in value.items()}


Reader = Callable[[Any], Any]
RPC: Mapping[str, Reader] = {"method": _text, "every": _every}
FAULTS: Mapping[str, Mapping[str, Reader]] = {
    "stockout": {},
    "internal_error": {},
    "job_error": {"code": _code, "message": _text},
    "preempt": {"after_log": _text},
    "maintenance": {"replica": _replica},
    "node_loss": {"replica": _replica},
    "slow_start": {"replica": _replica, "seconds": _seconds},
    "rpc_error": {**RPC, "code": _code, "message": _text, "after_effect": _flag},
    "rpc_hang": RPC,
    "list_lag": {"seconds": _seconds},
}
"""Each fault and its own options."""

COMMON: Mapping[str, Reader] = {"match": _match, "times": _times, "after_seconds": _seconds}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "job_error": ("message",),
    "slow_start": ("seconds",),
    "list_lag": ("seconds",),
}
TIMED = ("internal_error", "job_error", "preempt", "maintenance", "node_loss")
"""Faults that ``after_seconds`` can delay; the others have a moment of their own."""

STANDING = frozenset({"list_lag"})
"""Faults that are a condition, not a blow: without ``times`` they hold until they are deleted."""


def read_fault(body: Any, fault_id: str) -> Fault:
    """A fault from the control API's JSON or the file's YAML.

    :raises FaultError: naming the field, the value and what is allowed.
    """
    if not isinstance(body, Mapping):
        raise FaultError('A fault is an object such as {"fault": "stockout", "times": 2}.')
    name = body.get("fault")
    if not isinstance(name, str) or name not in FAULTS:
        raise FaultError(f"Field: fault; Message: {name!r} is no fault; the faults are {', '.join(FAULTS)}.")
    readers = {**COMMON, **FAULTS[name]}
    values: dict[str, Any] = {}
    for key, value in body.items():
        if key == "fault":
            continue
        if key not in readers:
            raise FaultError(
                f"Field: {key}; Message: {name} has no such option; it has {', '.join(readers)}."
            )
        try:
            values[key] = readers[key](value)
        except ValueError as error:
            raise FaultError(f"Field: {key}; Message: {value!r} is not allowed; expected {error}.") from None
    for key in REQUIRED.get(name, ()):
        if key not in values:
            raise FaultError(f"Field: {key}; Message: {name} needs it.")
    match = values.pop("match", {})
    if "method" in values:
        match = {**match, "method": values["method"]}
    times = values.pop("times", None if name in STANDING else 1)
    after = values.pop("after_seconds", None)
    if after and name not in TIMED:
        raise FaultError(
            f"Field: after_seconds; Message: {name} strikes by itself; only {', '.join(TIMED)} wait."
        )
    return Fault(id=fault_id, name=name, match=match, times=times, after_seconds=after, options=values)


class Faults:
    """Every armed fault, in the order they were set. Guarded by the engine's lock."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._ids = itertools.count(1)
        self.methods: Container[str] | None = None
        """The calls there are, once somebody has said it; a fault of another one would never strike."""

    def add(self, body: Any) -> Fault:
        """Arm one.

        :raises FaultError: it cannot be understood.
        """
        fault = read_fault(body, str(next(self._ids)))
        method = fault.match.get("method")
        if method is not None and self.methods is not None and method not in self.methods:
            raise FaultError(
                f"Field: method; Message: {method!r} is no call of the API; give its bare name, such as GetCustomJob."
            )
        self._faults[fault.id] = fault
        return fault

    def remove(self, fault_id: str) -> bool:
        """Disarm one; False when there is none of that id."""
        return self._faults.pop(fault_id, None) is not None

    def clear(self) -> None:
        """Disarm all."""
        self._faults.clear()

    def get(self, fault_id: str) -> Fault | None:
        """One by its id, also when it has fired out."""
        return self._faults.get(fault_id)

    def all(self) -> list[Fault]:
        """Every fault, also those that have fired out."""
        return list(self._faults.values())

    def matching(self, name: str, target: Target) -> Iterator[Fault]:
        """Armed faults of one name for a job or a call, in the order they were set."""
        return (fault for fault in self.all() if fault.name == name and fault.matches(target))

    def take(self, name: str, target: Target) -> Fault | None:
        """Fire the first that matches; None when there is none."""
        for fault in self.matching(name, target):
            fault.met += 1
            if fault.met % fault.options.get("every", 1) == 0 and self.fire(fault):
                return fault
        return None

    def fire(self, fault: Fault) -> bool:
        """Use up one firing of a fault; False when it has none left or was disarmed meanwhile."""
        if fault.id not in self._faults or (fault.times is not None and fault.times <= 0):
            return False
        fault.fired += 1
        if fault.times is not None:
            fault.times -= 1
        return True
