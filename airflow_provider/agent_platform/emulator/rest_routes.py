"""Which URL is which method of the API.

In: an HTTP verb, a path, query parameters, a body. Out: the method's name and its request message. The rows
are those of the public discovery document; operations are found under ``/ui/`` as well, where the generated
client asks first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from google.protobuf import field_mask_pb2

from airflow_provider.agent_platform.emulator import json_mapping
from airflow_provider.agent_platform.emulator.errors import invalid_argument, unimplemented

SYSTEM_PARAMETERS = frozenset(
    {
        "$.xgafv",
        "$.xgafv_trace",
        "$alt",
        "alt",
        "access_token",
        "key",
        "oauth_token",
        "prettyPrint",
        "quotaUser",
    }
    | {"uploadType", "upload_protocol", "$prettyPrint", "$key", "$trace"}
)
"""Parameters that every Google API takes; they change nothing here but ``alt`` and ``prettyPrint``."""

PARENT = r"(?P<parent>projects/[^/]+/locations/[^/]+)"
OPERATIONS_OF = r"projects/[^/]+/locations/[^/]+(?:/[A-Za-z]+/[^/]+)?"
OPERATION = rf"(?P<name>{OPERATIONS_OF}/operations/[^/:]+)"


@dataclass(frozen=True, kw_only=True)
class Route:
    """One row.

    :param body: the request's field that the HTTP body fills; ``*`` for the request itself; "" for none.
    """

    verb: str
    path: re.Pattern[str]
    method: str
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a URL asks for."""

    method: str
    request: Any


def _job_routes(collection: str, name: str, field: str) -> list[Route]:
    job = rf"(?P<name>projects/[^/]+/locations/[^/]+/{collection}/[^/:]+)"
    version = "/v1/"
    return [
        Route(
            verb="POST",
            path=re.compile(rf"{version}{PARENT}/{collection}"),
            method=f"Create{name}",
            body=field,
        ),
        Route(verb="GET", path=re.compile(rf"{version}{PARENT}/{collection}"), method=f"List{name}s"),
        Route(verb="GET", path=re.compile(version + job), method=f"Get{name}"),
        Route(verb="DELETE", path=re.compile(version + job), method=f"Delete{name}"),
        Route(verb="POST", path=re.compile(rf"{version}{job}:cancel"), method=f"Cancel{name}", body="*"),
    ]


def _operation_routes() -> list[Route]:
    version = "/(?:v1|ui)/"
    return [
        Route(verb="GET", path=re.compile(version + OPERATION), method="GetOperation"),
        Route(
            verb="GET",
            path=re.compile(rf"{version}(?P<name>{OPERATIONS_OF})/operations"),
            method="ListOperations",
        ),
        Route(verb="POST", path=re.compile(rf"{version}{OPERATION}:wait"), method="WaitOperation", body="*"),
        Route(
            verb="POST", path=re.compile(rf"{version}{OPERATION}:cancel"), method="CancelOperation", body="*"
        ),
        Route(verb="DELETE", path=re.compile(version + OPERATION), method="DeleteOperation"),
    ]


ROUTES: tuple[Route, ...] = (
    *_job_routes("customJobs", "CustomJob", "custom_job"),
    *_job_routes("hyperparameterTuningJobs", "HyperparameterTuningJob", "hyperparameter_tuning_job"),
    *_operation_routes(),
)


def find(
    verb: str,
    path: str,
    query: Sequence[tuple[str, str]],
    body: bytes,
    requests: Mapping[str, Callable[[], Any]],
) -> Call:
    """The method that a URL stands for, and its request.

    :param path: as it was sent, percent-encoded.
    :param requests: method -> its request class, bare protobuf; only what is there is emulated.
    :raises ApiError: UNIMPLEMENTED for a URL that is not emulated, INVALID_ARGUMENT for what is wrong in it.
    """
    path = unquote(path)
    for route in ROUTES:
        found = route.path.fullmatch(path) if route.verb == verb else None
        if found is not None and route.method in requests:
            request = requests[route.method]()
            _fill(request, route, body)
            for name, value in query:
                _set_parameter(request, name, value)
            for name, value in found.groupdict().items():
                setattr(request, name, value)
            return Call(method=route.method, request=request)
    raise unimplemented(f"{verb} {path[:200]} is not emulated; see docs/emulator.md for what is.")


def _fill(request: Any, route: Route, body: bytes) -> None:
    if not route.body:
        if body.strip():
            raise invalid_argument(f"Invalid request: {route.method} takes no body.")
        return
    value = json_mapping.load(body)
    if route.body == "*":
        json_mapping.parse(value, request, root="request")
        return
    message = getattr(request, route.body)
    message.SetInParent()
    json_mapping.parse(value, message, root=route.body)


def _set_parameter(request: Any, name: str, value: str) -> None:
    if name in SYSTEM_PARAMETERS:
        return
    if name in ("fields", "$fields"):
        if value != "*":
            raise unimplemented("The system parameter 'fields' (partial responses) is not emulated.")
        return
    field = request.DESCRIPTOR.fields_by_name.get(json_mapping.snake_case(name))
    if field is None:
        raise invalid_argument(
            f'Invalid JSON payload received. Unknown name "{name[:100]}": Cannot bind query parameter. Field '
            f"'{name[:100]}' could not be found in request message."
        )
    if field.message_type is not None and field.message_type.full_name == "google.protobuf.FieldMask":
        mask = field_mask_pb2.FieldMask(paths=json_mapping.field_mask_paths(value))
        getattr(request, field.name).MergeFrom(mask)
    else:
        json_mapping.parse({field.name: value}, request, root="request")
