"""Protocol buffer messages made plain, without importing protobuf.

In: a message (of proto-plus or of protobuf itself), or containers that hold some. Out: dicts and lists with
the fields that are set, in snake_case; durations and times as text.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pendulum

from airflow_provider.agent_platform.jobs.durations import api_duration

_PACKAGE = "google.protobuf."


def is_message(value: object) -> bool:
    """Return whether a value is a message of proto-plus or of protobuf."""
    return _raw(value) is not None


def plain(value: object) -> Any:
    """Return a value with every message in it as a dict; lists and dicts are copied, other values kept.

    :param value: a message, or any nesting of dicts and lists.
    """
    raw = _raw(value)
    if raw is not None:
        return _message(raw)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if type(value).__module__.startswith("proto.marshal"):  # proto-plus' own list and map views
        return plain(dict(cast("Any", value)) if hasattr(value, "items") else list(cast("Any", value)))
    return value


def message_name(value: object) -> str | None:
    """Return the name of a message's type without its package (``CustomJobSpec``); None for other values."""
    raw = _raw(value)
    if raw is None:
        return None
    full_name = str(raw.DESCRIPTOR.full_name)
    # A message of v1beta1 is read as well: what v1 does not know is refused field by field.
    return re.sub(r"^google\.cloud\.aiplatform\.v[0-9]+(beta[0-9]+)?\.", "", full_name)


def _raw(value: object) -> Any:
    """The protobuf message itself: proto-plus wraps one in ``_pb``."""
    if isinstance(value, type):
        return None
    raw = getattr(value, "_pb", value) if type(type(value)).__module__.startswith("proto.") else value
    return raw if hasattr(raw, "ListFields") and hasattr(raw, "DESCRIPTOR") else None


def _message(raw: Any) -> Any:
    name = raw.DESCRIPTOR.full_name
    if name == f"{_PACKAGE}Duration":
        return api_duration({"seconds": raw.seconds, "nanos": raw.nanos})
    if name == f"{_PACKAGE}Timestamp":
        moment = pendulum.from_timestamp(raw.seconds) + datetime.timedelta(microseconds=raw.nanos // 1000)
        return moment.isoformat()
    if name.startswith(_PACKAGE) and name.endswith("Value"):
        return raw.value
    return {descriptor.name: _field(descriptor, value) for descriptor, value in raw.ListFields()}


def _field(descriptor: Any, value: Any) -> Any:
    if hasattr(value, "ListFields"):
        return _message(value)
    if isinstance(value, (str, bytes, int, float)):
        known = descriptor.enum_type.values_by_number.get(value) if descriptor.enum_type is not None else None
        return value if known is None else known.name
    if hasattr(value, "items"):  # a map field
        return dict(value)
    return [_field(descriptor, item) for item in cast("Iterable[Any]", value)]
