"""Where calls go: Google, a private endpoint, or an emulator, and never with credentials in the clear."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from airflow_provider.agent_platform.hooks.connection import ConnectionInfo
from airflow_provider.agent_platform.hooks.endpoint import Endpoint, endpoint_of, wait_until_reachable
from airflow_provider.agent_platform.hooks.errors import ConfigurationError, EmulatorUnreachableError


def info(**extras: Any) -> ConnectionInfo:
    return ConnectionInfo(conn_id="gcp", exists=True, extras=extras)


def test_the_region_names_googles_endpoint() -> None:
    endpoint = endpoint_of("europe-west4", info(), None)
    assert (endpoint.target, endpoint.emulator) == ("europe-west4-aiplatform.googleapis.com", False)


@pytest.mark.parametrize(
    ("address", "target", "emulator"),
    [
        ("127.0.0.1:8085", "127.0.0.1:8085", True),
        ("localhost:8085", "localhost:8085", True),
        ("[::1]:8085", "[::1]:8085", True),
        ("http://emulator:8085", "emulator:8085", True),
        ("http://emulator:8085/", "emulator:8085", True),
        ("emulator:8085", "emulator:8085", False),
        ("10.0.0.7:443", "10.0.0.7:443", False),
        ("us-central1-aiplatform-restricted.p.googleapis.com", "us-central1-aiplatform-restricted.p.googleapis.com", False),
        ("https://private.example.com:443", "private.example.com:443", False),
        ("https://localhost:8443", "localhost:8443", False),
    ],
)  # fmt: skip
def test_a_connection_may_name_another_endpoint(address: str, target: str, emulator: bool) -> None:
    endpoint = endpoint_of("us-central1", info(api_endpoint=address), None)
    assert (endpoint.target, endpoint.emulator) == (target, emulator)


def test_the_environment_comes_before_the_connection() -> None:
    endpoint = endpoint_of("us-central1", info(api_endpoint="private.example.com"), "emulator:8085")
    assert (endpoint.target, endpoint.emulator) == ("emulator:8085", True)


@pytest.mark.parametrize(
    "address", ["ftp://x:1", "a b:1", "http://emulator", "localhost", "x:1/path", "user@host:1"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="api_endpoint"):
        endpoint_of("us-central1", info(api_endpoint=address), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Time:
    """A clock that only moves when somebody sleeps; may start a listener after some sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.after: dict[int, Any] = {}
        self.sleeps = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1
        self.after.pop(self.sleeps, lambda: None)()

    def clock(self) -> float:
        return self.now


def test_an_emulator_that_does_not_run_is_one_clear_error() -> None:
    time, port = Time(), free_port()
    endpoint = Endpoint(target=f"127.0.0.1:{port}", emulator=True, source="AGENT_PLATFORM_EMULATOR_HOST")
    with pytest.raises(EmulatorUnreachableError) as caught:
        wait_until_reachable(endpoint, bound=10, sleep=time.sleep, clock=time.clock)
    text = str(caught.value)
    assert f"The emulator at 127.0.0.1:{port} (AGENT_PLATFORM_EMULATOR_HOST) does not answer" in text
    assert f"agent-platform-emulator --port {port}" in text
    assert "Nothing was submitted" in text
    assert 10 <= time.now < 12


def test_an_emulator_that_is_being_restarted_is_waited_for() -> None:
    time, port = Time(), free_port()
    listener = socket.socket()

    def listen() -> None:
        listener.bind(("127.0.0.1", port))
        listener.listen()

    time.after[3] = listen
    try:
        wait_until_reachable(
            Endpoint(target=f"127.0.0.1:{port}", emulator=True, source="x"),
            sleep=time.sleep,
            clock=time.clock,
        )
    finally:
        listener.close()
    assert time.sleeps == 3


def test_google_is_not_probed() -> None:
    wait_until_reachable(Endpoint(target="nowhere.invalid", emulator=False, source="the region"))
