"""REST/JSON: the same service core, at the URLs of the public discovery document.

In: HTTP requests. Out: JSON answers, and Google's error body for every refusal. Added to the FastAPI
application that serves the control API too, by :func:`mount`. Cloud Logging's ``entries:list`` is here as
well.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from google.rpc import code_pb2
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from airflow_provider.agent_platform.emulator import json_mapping, rest_routes
from airflow_provider.agent_platform.emulator.calls import CallHangs
from airflow_provider.agent_platform.emulator.errors import ApiError, invalid_argument, unimplemented

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastapi import FastAPI

    from airflow_provider.agent_platform.emulator.log_api import LogApi
    from airflow_provider.agent_platform.emulator.service import Service

MAX_BODY = 10 * 1024 * 1024
"""Bytes of a request body, the limit of Google's front end."""
VERBS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
JSON_TYPE = "application/json; charset=UTF-8"
HTTP_CODES: Mapping[int, int] = {
    400: code_pb2.INVALID_ARGUMENT,
    403: code_pb2.PERMISSION_DENIED,
    404: code_pb2.NOT_FOUND,
    405: code_pb2.UNIMPLEMENTED,
}

logger = logging.getLogger(__name__)


def mount(app: FastAPI, service: Service, logs: LogApi) -> None:
    """Add the REST API to an application, after whatever else it serves.

    Errors of the whole application, the control API's too, get Google's body from here.
    """
    app.include_router(rest_router(service, logs))
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(Exception, _failure)


def rest_router(service: Service, logs: LogApi) -> APIRouter:
    """The routes alone."""
    router = APIRouter(include_in_schema=False)
    requests: dict[str, Callable[[], Any]] = {}

    def run(verb: str, path: str, query: list[tuple[str, str]], body: bytes) -> Any:
        if len(requests) < len(service.methods):
            requests.update({name: method.request for name, method in service.methods.items()})
        call = rest_routes.find(verb, path, query, body, requests)
        return service.call(call.method, call.request)

    async def api(request: Request) -> Response:
        query = request.query_params.multi_items()
        try:
            integers = _enums_as_integers(query)
            body = await _read(request)
            path = request.scope["raw_path"].decode("latin-1")
            answer = await run_in_threadpool(run, request.method, path, query, body)
            return _json(json_mapping.dump(answer, enums_as_numbers=integers), query)
        except CallHangs as hang:
            return await _hang(hang, request)

    async def list_entries(request: Request) -> Response:
        asked = json_mapping.load(await _read(request))
        page = await run_in_threadpool(_list_entries, logs, asked)
        return _json(page, request.query_params.multi_items())

    async def other_logging(request: Request) -> Response:
        raise unimplemented(f"{request.method} {request.url.path[:200]} is not emulated; entries:list is.")

    router.add_api_route("/v2/entries:list", list_entries, methods=["POST"])
    router.add_api_route("/v2/{rest:path}", other_logging, methods=VERBS)
    for version in ("v1", "ui", "v1beta1"):
        router.add_api_route(f"/{version}/{{rest:path}}", api, methods=VERBS)
    return router


def _enums_as_integers(query: list[tuple[str, str]]) -> bool:
    """What ``alt`` and ``$alt`` ask for.

    :raises ApiError: INVALID_ARGUMENT, another format than JSON.
    """
    integers = False
    for name, value in query:
        if name in ("alt", "$alt"):
            kind, _, option = value.partition(";")
            if kind != "json" or option not in ("", "enum-encoding=int"):
                raise invalid_argument(
                    f"Invalid value {value[:100]!r} for {name}: json or json;enum-encoding=int are supported."
                )
            integers = integers or bool(option)
    return integers


async def _read(request: Request) -> bytes:
    too_large = invalid_argument(f"Request payload size exceeds the limit: {MAX_BODY} bytes.")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY:
        raise too_large
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > MAX_BODY:
                raise too_large
            chunks.append(chunk)
    except ClientDisconnect:
        raise invalid_argument("The request ended before its body was complete.") from None
    return b"".join(chunks)


def _json(value: Any, query: list[tuple[str, str]]) -> Response:
    compact = any(name in ("prettyPrint", "$prettyPrint") and text == "false" for name, text in query)
    text = json.dumps(value, ensure_ascii=False, indent=None if compact else 2)
    # A lone surrogate in a log line is no UTF-8; the answer has to be.
    return Response(text.encode("utf-8", "replace"), media_type=JSON_TYPE)


async def _hang(hang: CallHangs, request: Request) -> Response:
    # Two ends to wait for, a thread's event and a socket: a slow poll is the simplest that sees both.
    while not hang.released.is_set() and not await request.is_disconnected():  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return _error(ApiError(code_pb2.UNAVAILABLE, "The emulator let go of a hanging call."))


LIST_FIELDS: Mapping[str, tuple[type, Any]] = {
    "resource_names": (list, []),
    "project_ids": (list, []),
    "filter": (str, ""),
    "order_by": (str, ""),
    "page_size": (int, 0),
    "page_token": (str, ""),
}


def _list_entries(logs: LogApi, asked: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {name: default for name, (_, default) in LIST_FIELDS.items()}
    for name, value in asked.items():
        field = json_mapping.snake_case(name)
        if field not in LIST_FIELDS:
            raise invalid_argument(
                f'Invalid JSON payload received. Unknown name "{name[:100]}": Cannot find field.'
            )
        kind = LIST_FIELDS[field][0]
        if value is None:
            continue
        if kind is int and isinstance(value, str) and value.isdigit():
            value = int(value)
        texts = value if isinstance(value, list) else []
        if not isinstance(value, kind) or not all(isinstance(part, str) for part in texts):
            raise invalid_argument(f"Invalid value at '{field}': expected {kind.__name__}.")
        values[field] = value
    # projectIds is the deprecated way to name projects; old clients still send it.
    values["resource_names"] = [
        *values["resource_names"],
        *(f"projects/{project}" for project in values.pop("project_ids")),
    ]
    page = logs.list_entries(**values)
    answer: dict[str, Any] = {"entries": page.entries} if page.entries else {}
    if page.next_page_token:
        answer["nextPageToken"] = page.next_page_token
    return answer


def _error(error: ApiError, status: int | None = None) -> Response:
    body = error.to_json()
    if status is not None:
        body["error"]["code"] = status
    return Response(json.dumps(body, indent=2), status_code=status or error.http_status, media_type=JSON_TYPE)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return _error(error)


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = HTTP_CODES.get(error.status_code, code_pb2.UNKNOWN)
    return _error(
        ApiError(code, f"{request.method} {request.url.path[:200]}: {error.detail}."), error.status_code
    )


async def _failure(request: Request, error: Exception) -> Response:
    return _error(ApiError(code_pb2.INTERNAL, "The emulator failed; its log has the traceback."))
