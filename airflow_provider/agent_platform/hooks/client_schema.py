"""The messages of the installed client library, in the terms of ``jobs.schema``.

In: nothing but the library. Out: a :class:`~airflow_provider.agent_platform.jobs.schema.Schema`. It is
asked when our own table does not know a field, so that a newer client's field needs no new release of the
provider.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

from airflow_provider.agent_platform.jobs.schema import Field, Schema

_WELL_KNOWN = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.Int32Value": "int32",
    "google.protobuf.Int64Value": "int64",
    "google.protobuf.DoubleValue": "double",
    "google.protobuf.FloatValue": "double",
    "google.protobuf.StringValue": "string",
}
_SCALARS = {
    "TYPE_STRING": "string",
    "TYPE_BOOL": "bool",
    "TYPE_INT32": "int32",
    "TYPE_INT64": "int64",
    "TYPE_DOUBLE": "double",
    "TYPE_FLOAT": "double",
}


@cache
def client_schema() -> Schema:
    """Read the messages of the installed client library (imports it: a second, once)."""
    import google.cloud.aiplatform_v1 as api

    messages: dict[str, dict[str, Field]] = {}
    enums: dict[str, dict[str, int]] = {}
    for root in (api.CustomJob, api.HyperparameterTuningJob):
        _walk(root.pb(root()).DESCRIPTOR, messages, enums)
    return Schema(messages=messages, enums=enums)


def _walk(message: Any, messages: dict[str, dict[str, Field]], enums: dict[str, dict[str, int]]) -> None:
    name = _short(message)
    if name in messages:
        return
    messages[name] = fields = {}
    for field in message.fields:
        fields[field.name] = _field(field)
        if field.enum_type is not None:
            enums[_short(field.enum_type)] = {value.name: value.number for value in field.enum_type.values}
        elif field.message_type is not None and _has_fields_of_its_own(field.message_type):
            _walk(field.message_type, messages, enums)


def _has_fields_of_its_own(message: Any) -> bool:
    return message.full_name not in _WELL_KNOWN and not message.GetOptions().map_entry


def _field(field: Any) -> Field:
    oneof = field.containing_oneof
    # An ``optional`` field is a oneof of one to protobuf; it excludes nothing.
    group = oneof.name if oneof is not None and len(oneof.fields) > 1 else None
    if field.enum_type is not None:
        kind = _short(field.enum_type)
    elif field.message_type is None:
        kind = next(
            (ours for theirs, ours in _SCALARS.items() if getattr(field, theirs) == field.type), "string"
        )
    elif field.message_type.GetOptions().map_entry:
        return Field(type="labels")
    else:
        kind = _WELL_KNOWN.get(field.message_type.full_name) or _short(field.message_type)
    return Field(type=kind, repeated=_is_repeated(field), oneof=group)


def _is_repeated(field: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # ``label`` is on its way out, ``is_repeated`` new
        repeated = getattr(field, "is_repeated", None)
        return bool(field.label == field.LABEL_REPEATED) if repeated is None else bool(repeated)


def _short(descriptor: Any) -> str:
    return str(descriptor.full_name).removeprefix("google.cloud.aiplatform.v1.")
