"""Where the calls go: the service's regional endpoint, a private one, or an emulator.

In: the region, the connection and the settings. Out: a target and whether it is spoken to without TLS.
Credentials are never sent without TLS: an endpoint without it gets anonymous ones.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider.agent_platform.hooks.connection import ConnectionInfo
from airflow_provider.agent_platform.hooks.errors import ConfigurationError, EmulatorUnreachableError
from airflow_provider.agent_platform.settings import EMULATOR_VARIABLE

_TARGET = re.compile(r"(?P<host>\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_PAUSE = 0.5
_CONNECT_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A place that speaks the API.

    :param target: ``host:port`` or a host.
    :param emulator: True: no TLS, anonymous credentials.
    :param source: what named it, for errors.
    """

    target: str
    emulator: bool
    source: str


def endpoint_of(region: str, info: ConnectionInfo, emulator_host: str | None) -> Endpoint:
    """Return the endpoint for a region.

    The emulator of the environment comes first, then the connection's ``api_endpoint``, then Google. An
    ``api_endpoint`` is an emulator when it begins with ``http://`` or is an address of this machine.

    :param region: for example ``us-central1``.
    :param info: the connection.
    :param emulator_host: from the settings.
    :raises ConfigurationError: an address that is none.
    """
    if emulator_host:
        return _parse(emulator_host, EMULATOR_VARIABLE, emulator=True)
    custom = info.text("api_endpoint")
    if custom:
        return _parse(custom, f"the extra field 'api_endpoint' of connection {info.conn_id!r}", emulator=None)
    return Endpoint(target=f"{region}-aiplatform.googleapis.com", emulator=False, source="the region")


def wait_until_reachable(
    endpoint: Endpoint,
    *,
    bound: float = 10.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until something listens at an emulator's address; does nothing for other endpoints.

    It waits a little because an emulator that is being restarted is no mistake of the user's.

    :param endpoint: where to look.
    :param bound: seconds to wait.
    :param sleep: injected by tests.
    :param clock: injected by tests; seconds.
    :raises EmulatorUnreachableError: nothing does.
    """
    if not endpoint.emulator:
        return
    host, _, port = endpoint.target.rpartition(":")
    end = clock() + bound
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS):
                return
        except OSError as error:
            if clock() >= end:
                raise EmulatorUnreachableError(
                    f"The emulator at {endpoint.target} ({endpoint.source}) does not answer: {error}. Start it with "
                    f"'agent-platform-emulator --port {port}', or unset {EMULATOR_VARIABLE} to use Google's service. "
                    "Nothing was submitted."
                ) from error
        sleep(_PAUSE)


def _parse(text: str, source: str, *, emulator: bool | None) -> Endpoint:
    scheme, separator, rest = text.partition("://")
    address = rest.rstrip("/") if separator else text
    match = _TARGET.fullmatch(address)
    if match is None or (separator and scheme not in {"http", "https"}):
        raise ConfigurationError(
            f"{source} is {text!r}: it must be 'host:port', with 'http://' for an emulator."
        )
    if emulator is None:
        emulator = scheme == "http" if separator else _is_this_machine(match["host"])
    if emulator and match["port"] is None:
        raise ConfigurationError(
            f"{source} is {text!r}: an emulator's address needs a port, for example 8085."
        )
    return Endpoint(target=address, emulator=emulator, source=source)


def _is_this_machine(host: str) -> bool:
    import ipaddress  # 2 ms of every DAG parse otherwise

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
