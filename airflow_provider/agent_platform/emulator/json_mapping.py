"""JSON of the public REST API to the client library's messages and back.

In: bytes of a request body, or a message. Out: a message, or plain JSON values. The mapping is protobuf's
own; what is added are the precise errors that Google's front end gives: which name is unknown, and where.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

import proto
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2

from airflow_provider.agent_platform.emulator.errors import ApiError

M = TypeVar("M", bound=Message)

MOST_VIOLATIONS = 20
MAX_DEPTH = 90
"""Deepest nesting of a body; below the limit of protobuf's own parser."""


def load(body: bytes) -> dict[str, Any]:
    """Read a body as one JSON object; an empty body is an empty object.

    :raises ApiError: INVALID_ARGUMENT, with the line and column where it stops being JSON.
    """
    if not body.strip():
        return {}
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise _payload(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _payload(f"{error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _payload("nested too deeply") from None
    except ValueError as error:
        raise _payload(str(error)) from None
    if not isinstance(value, dict):
        raise _payload(f"expected an object, found {_kind(value)}")
    return value


def parse(value: dict[str, Any], message: M, *, root: str) -> M:
    """Fill a message from JSON values.

    Field names in camelCase or snake_case, enum values as names or numbers.

    :param message: the empty message to fill; bare protobuf.
    :param root: how paths in errors begin, e.g. ``custom_job``.
    :raises ApiError: INVALID_ARGUMENT with a ``BadRequest`` detail for each wrong place.
    """
    violations: list[tuple[str, str]] = []
    for path, text in _violations(message.DESCRIPTOR, value, root, 0):
        violations.append((path, text))
        if len(violations) == MOST_VIOLATIONS:
            break
    if violations:
        raise _bad_request(violations)
    try:
        json_format.ParseDict(value, message, max_recursion_depth=MAX_DEPTH + 5)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, OverflowError, KeyError) as error:
        raise _bad_request([(root, f"Invalid value at '{root}': {_short(str(error))}")]) from None
    return message


def dump(message: Message | proto.Message, *, enums_as_numbers: bool = False) -> dict[str, Any]:
    """A message as JSON values: camelCase, no defaults, 64-bit numbers as strings.

    :param enums_as_numbers: what ``$alt=json;enum-encoding=int`` asks for.
    """
    bare = type(message).pb(message) if isinstance(message, proto.Message) else message
    return json_format.MessageToDict(bare, use_integers_for_enums=enums_as_numbers)


def field_mask_paths(text: str) -> list[str]:
    """``name,displayName`` or ``name,display_name`` as snake_case paths."""
    paths = [path.strip() for path in text.split(",")]
    return [snake_case(path) for path in paths if path]


def snake_case(name: str) -> str:
    """``displayName`` -> ``display_name``; dots stay."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def _violations(descriptor: Any, value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Unknown names, and values of the wrong JSON kind, with their places."""
    if depth > MAX_DEPTH:
        yield path, f"Invalid JSON payload received. Nested too deeply at '{path[:200]}'."
        return
    if descriptor.full_name.startswith("google.protobuf."):
        return  # well-known types have JSON forms of their own; protobuf's parser checks them
    if not isinstance(value, dict):
        yield (
            path,
            f"Invalid value at '{path}' (type.{descriptor.name}): expected an object, found {_kind(value)}.",
        )
        return
    fields: dict[str, Any] = {}
    for known in descriptor.fields:
        fields[known.name] = fields[known.json_name] = known
    for name, inner in value.items():
        field = fields.get(name)
        if field is None:
            unknown = f"Unknown name \"{name[:100]}\" at '{path}': Cannot find field."
            yield path, f"Invalid JSON payload received. {unknown}"
        elif inner is not None:
            yield from _field_violations(field, inner, f"{path}.{field.name}", depth)


def _field_violations(field: Any, value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        if not isinstance(value, dict):
            yield path, f"Invalid value at '{path}': expected an object, found {_kind(value)}."
        elif kind.fields_by_name["value"].message_type is None:
            for key, inner in value.items():
                if (
                    not isinstance(inner, str)
                    and kind.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING
                ):
                    yield path, f"Invalid value at '{path}[{key}]' (TYPE_STRING): found {_kind(inner)}."
    elif field.is_repeated:
        if not isinstance(value, list):
            yield path, f"Invalid value at '{path}': expected a list, found {_kind(value)}."
        elif kind is not None:
            for index, inner in enumerate(value):
                yield from _violations(kind, inner, f"{path}[{index}]", depth + 1)
    elif kind is not None:
        yield from _violations(kind, value, path, depth + 1)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    for types, name in (
        ((bool,), "a boolean"),
        ((int, float), "a number"),
        ((str,), "a string"),
        ((list,), "a list"),
    ):
        if isinstance(value, types):
            return name
    return "an object"


def _short(text: str) -> str:
    return text if len(text) <= 500 else text[:500] + "..."


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        # One pass: a body may have a million names. `add` answers None, so that the first one seen again is found.
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice[:100]!r} is there twice in one object")
    return value


def _payload(problem: str) -> ApiError:
    return _bad_request([("", f"Invalid JSON payload received. {problem[:1].upper()}{problem[1:]}.")])


def _bad_request(violations: list[tuple[str, str]]) -> ApiError:
    detail = error_details_pb2.BadRequest()
    for path, text in violations:
        detail.field_violations.add(field=path, description=text)
    return ApiError(code_pb2.INVALID_ARGUMENT, "\n".join(text for _, text in violations), [detail])
