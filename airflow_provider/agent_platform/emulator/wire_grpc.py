"""gRPC: generic handlers over the service core's table of methods.

In: a :class:`Service`. Out: a started server on a port. Threads and not asyncio: the emulator runs inside test
processes whose own event loops use ``grpc.aio``, and two loops with it in one process disturb each other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import grpc
from google.rpc import code_pb2, status_pb2
from grpc_status import rpc_status  # type: ignore[import-untyped]  # ships no types

from airflow_provider.agent_platform.emulator.calls import CallHangs
from airflow_provider.agent_platform.emulator.errors import ApiError
from airflow_provider.agent_platform.emulator.service import Method, Service

THREADS = 128
"""Calls served at once, hanging ones included; threads are made as they are needed."""

MAX_STATUS = 7_000
"""Bytes of metadata that an error may take."""
MAX_MESSAGE = 64 * 1024 * 1024
logger = logging.getLogger(__name__)


class PortTaken(OSError):
    """The port cannot be had; the text says what to do."""


def serve(
    service: Service,
    host: str,
    port: int,
    more: Sequence[grpc.GenericRpcHandler] = (),
) -> tuple[GrpcServer, int]:
    """Start a server.

    :param port: 0 for a free one.
    :param more: handlers of what is no method of the core (Cloud Logging).
    :return: the server and its port.
    :raises PortTaken: somebody listens there.
    """
    # so_reuseport off: with it two emulators would share a port, and each get half of the calls.
    options = [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MAX_MESSAGE),
        ("grpc.max_send_message_length", MAX_MESSAGE),
    ]
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="emulator-grpc")
    server = grpc.server(threads, options=options)
    server.add_generic_rpc_handlers(tuple(_handlers(service)))
    server.add_generic_rpc_handlers((*more, _NotThere(service)))
    try:
        bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError:
        bound = 0
    if bound == 0:
        raise PortTaken(
            f"--port {port}: cannot listen on {host}:{port}; another program does, choose another port"
        )
    server.start()
    return GrpcServer(server, threads), bound


class GrpcServer:
    """A started server and its threads."""

    def __init__(self, server: grpc.Server, threads: ThreadPoolExecutor) -> None:
        self._server = server
        self._threads = threads

    def stop(self) -> None:
        """Take no more calls, end those under way, and wait for the threads."""
        self._server.stop(grace=0.2).wait()
        # gRPC leaves the threads to whoever made them.
        self._threads.shutdown(wait=True)


def _handlers(service: Service) -> list[grpc.GenericRpcHandler]:
    by_service: dict[str, dict[str, grpc.RpcMethodHandler]] = {}
    for method in service.methods.values():
        by_service.setdefault(method.service, {})[method.name] = grpc.unary_unary_rpc_method_handler(
            _behaviour(service, method),
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
    return [grpc.method_handlers_generic_handler(name, methods) for name, methods in by_service.items()]


def _behaviour(service: Service, method: Method) -> Callable[[Any, grpc.ServicerContext], Any]:
    def run(request: Any, context: grpc.ServicerContext) -> Any:
        return answer(lambda: service.call(method.name, request), context)

    return run


def answer(do: Callable[[], Any], context: grpc.ServicerContext) -> Any:
    """Run a call, and turn what it raises into a gRPC status; also for other services on this server."""
    try:
        return do()
    except ApiError as error:
        context.abort_with_status(rpc_status.to_status(_that_fits(error)))
    except CallHangs as hang:
        _hang(hang, context)
    except Exception:
        logger.exception("A call failed inside the emulator")
        context.abort_with_status(
            rpc_status.to_status(
                ApiError(code_pb2.INTERNAL, "The emulator failed; its log has the traceback.").to_status()
            )
        )


def _that_fits(error: ApiError) -> status_pb2.Status:
    """The error as a status that a client takes.

    It travels in the trailing metadata, twice: percent-encoded, and with its details in Base64. gRPC refuses more
    than 16 kB of these, beginning at 8 kB, and the caller reads RESOURCE_EXHAUSTED instead of what was wrong.
    """
    status = error.to_status()
    if _encoded(status) > MAX_STATUS:
        del status.details[:]
    text = status.message
    while _encoded(status) > MAX_STATUS:
        text = text[: len(text) * 3 // 4]
        status.message = f"{text}... (shortened; over REST the whole text is answered)"
    return status


def _encoded(status: status_pb2.Status) -> int:
    return len(quote(status.message)) + int(status.ByteSize()) * 4 // 3


def _hang(hang: CallHangs, context: grpc.ServicerContext) -> None:
    gone = threading.Event()
    if context.add_callback(gone.set):
        while not hang.released.is_set() and not gone.wait(0.5):
            pass
    context.abort(grpc.StatusCode.UNAVAILABLE, "The emulator let go of a hanging call.")


class _NotThere(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
    """Counts and refuses the methods of Google's services that are not emulated."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        package, _, name = handler_call_details.method.rpartition("/")
        if not package.startswith("/google.cloud.aiplatform.") or name in self._service.methods:
            return None
        run = lambda request, context: answer(lambda: self._service.call(name, request), context)  # noqa: E731
        return grpc.unary_unary_rpc_method_handler(run)
