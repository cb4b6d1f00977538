"""Clients of the JobService for one endpoint, blocking and asynchronous.

In: an endpoint and credentials. Out: Google's own clients on a channel of ours. Calls are not made here.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider.agent_platform.hooks.endpoint import Endpoint

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.aiplatform_v1 import JobServiceAsyncClient, JobServiceClient

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A connection that died without a word is noticed by a ping, or 20 s after a request that nobody acknowledged.
    # Servers allow one ping in five minutes.
    ("grpc.keepalive_time_ms", 301_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


def blocking_channel(endpoint: Endpoint, credentials: Credentials) -> Any:
    """Return a channel for blocking calls; without TLS the credentials stay here.

    :param endpoint: where to.
    :param credentials: whose calls.
    """
    import grpc

    if endpoint.emulator:
        return grpc.insecure_channel(endpoint.target, options=_OPTIONS)
    return grpc.secure_channel(endpoint.target, _channel_credentials(credentials), options=_OPTIONS)


def blocking_client(endpoint: Endpoint, credentials: Credentials) -> JobServiceClient:
    """Return a client for blocking calls.

    :param endpoint: where to.
    :param credentials: whose calls.
    """
    from google.cloud.aiplatform_v1 import JobServiceClient
    from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

    channel = blocking_channel(endpoint, credentials)
    return JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))


async def async_client(endpoint: Endpoint, credentials: Callable[[], Credentials]) -> JobServiceAsyncClient:
    """Return a client for the running event loop.

    What takes long (imports, credentials, the client's tables) is done in a thread; only the channel is
    made in the loop, to which grpc binds it.

    :param endpoint: where to.
    :param credentials: makes them; may block.
    """
    make_channel = await asyncio.to_thread(_prepare, endpoint, credentials)
    channel = make_channel()
    return await asyncio.to_thread(_async_client_on, channel)


@contextmanager
def _no_collection() -> Iterator[None]:
    # Importing the client makes so many objects that Python collects garbage, which stops the event loop for as
    # long as it takes to walk the whole process: the longest pause of all.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            # Both together move what is new into the oldest generation without looking at it; the next young
            # collection would otherwise walk all of it at once.
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def _prepare(endpoint: Endpoint, credentials: Callable[[], Credentials]) -> Callable[[], Any]:
    with _no_collection():
        return _import_and_prepare(endpoint, credentials)


def _import_and_prepare(endpoint: Endpoint, credentials: Callable[[], Credentials]) -> Callable[[], Any]:
    import grpc.aio
    from google.cloud.aiplatform_v1 import JobServiceAsyncClient  # noqa: F401  (slow, so here)

    if endpoint.emulator:
        return lambda: grpc.aio.insecure_channel(endpoint.target, options=_OPTIONS)
    channel_credentials = _channel_credentials(credentials())
    return lambda: grpc.aio.secure_channel(endpoint.target, channel_credentials, options=_OPTIONS)


def _async_client_on(channel: Any) -> JobServiceAsyncClient:
    from google.cloud.aiplatform_v1 import JobServiceAsyncClient
    from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
        JobServiceGrpcAsyncIOTransport,
    )

    return JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))


def _channel_credentials(credentials: Credentials) -> Any:
    import grpc
    from google.auth.transport.grpc import AuthMetadataPlugin, SslCredentials
    from google.auth.transport.requests import Request

    # grpc calls the plugin in a thread of its own, so a slow refresh holds up its call, not the event loop.
    plugin = AuthMetadataPlugin(credentials, Request())  # type: ignore[no-untyped-call]  # Google's is not annotated
    tls = SslCredentials().ssl_credentials  # type: ignore[no-untyped-call]  # Google's is not annotated
    return grpc.composite_channel_credentials(tls, grpc.metadata_call_credentials(plugin))


class LoopClients:
    """The asynchronous clients of one hook: one for each event loop and endpoint, made once."""

    def __init__(self) -> None:
        self._loops: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[Endpoint, asyncio.Task[JobServiceAsyncClient]]
        ] = weakref.WeakKeyDictionary()

    async def get(
        self, endpoint: Endpoint, make: Callable[[], Awaitable[JobServiceAsyncClient]]
    ) -> JobServiceAsyncClient:
        """Return the client of an endpoint, made by the first caller; a cancelled caller does not stop the others.

        :param endpoint: where to.
        :param make: makes it.
        """

        async def build() -> JobServiceAsyncClient:
            return await make()

        clients = self._loops.setdefault(asyncio.get_running_loop(), {})
        task = clients.get(endpoint)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = clients[endpoint] = asyncio.create_task(build())
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Close the clients of the running event loop."""
        for task in self._loops.pop(asyncio.get_running_loop(), {}).values():
            try:
                client = await task
            except Exception:  # noqa: S112  (never made, so nothing to close; its callers have the error)
                continue
            await client.transport.close()  # type: ignore[no-untyped-call]  # Google's is not annotated
