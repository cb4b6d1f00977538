"""Cloud Logging over gRPC: ``LoggingServiceV2``'s ListLogEntries and TailLogEntries.

In: calls of google-cloud-logging and of ``gcloud``. Out: generic handlers for a gRPC server. The message
types are those of the google-cloud-logging package; without it there are no handlers, and REST alone serves
the logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import json_format

from airflow_provider.agent_platform.emulator.wire_grpc import answer

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.log_api import LogApi

SERVICE = "google.logging.v2.LoggingServiceV2"


def logging_handler(api: LogApi) -> grpc.GenericRpcHandler | None:
    """The service's handlers, ``None`` where google-cloud-logging is not installed."""
    try:
        from google.cloud.logging_v2 import types
    except ImportError:
        return None
    calls = _Calls(api, types)
    handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "ListLogEntries": grpc.unary_unary_rpc_method_handler(
                calls.list_entries,
                request_deserializer=types.ListLogEntriesRequest.deserialize,
                response_serializer=types.ListLogEntriesResponse.serialize,
            ),
            "TailLogEntries": grpc.stream_stream_rpc_method_handler(
                calls.tail_entries,
                request_deserializer=types.TailLogEntriesRequest.deserialize,
                response_serializer=types.TailLogEntriesResponse.serialize,
            ),
        },
    )
    return handler


class _Calls:
    def __init__(self, api: LogApi, types: Any) -> None:
        self._api = api
        self._types = types

    def list_entries(self, request: Any, context: grpc.ServicerContext) -> Any:
        page = answer(
            lambda: self._api.list_entries(
                resource_names=request.resource_names,
                filter=request.filter,
                order_by=request.order_by,
                page_size=request.page_size,
                page_token=request.page_token,
            ),
            context,
        )
        response = self._types.ListLogEntriesResponse.pb(self._types.ListLogEntriesResponse())
        for entry in page.entries:
            json_format.ParseDict(entry, response.entries.add())
        response.next_page_token = page.next_page_token
        return self._types.ListLogEntriesResponse.wrap(response)

    def tail_entries(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        request = next(iter(requests), None)
        if request is None:
            return
        # Clients half-close after their one request and go on listening.
        batches = self._api.tail_entries(
            resource_names=request.resource_names,
            filter=request.filter,
            active=context.is_active,
        )
        while True:
            batch = answer(lambda: next(batches, None), context)
            if batch is None:
                return
            response = self._types.TailLogEntriesResponse.pb(self._types.TailLogEntriesResponse())
            for entry in batch:
                json_format.ParseDict(entry, response.entries.add())
            yield self._types.TailLogEntriesResponse.wrap(response)
