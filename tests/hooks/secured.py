"""Ties a hook to the tests' own server: a connection, a trusted certificate, credentials that need no network."""

from __future__ import annotations

import json
import threading
from typing import Any

import grpc
import pytest
from google.auth.credentials import Credentials
from google.auth.transport import grpc as auth_grpc

from airflow_provider.agent_platform.hooks import connected
from tests.hooks.samples import PROJECT, REGION
from tests.hooks.wire import Wire


class Token(Credentials):
    """Credentials that answer at once with a token, and remember the threads that asked."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Google's is not annotated
        self.threads: set[int] = set()

    def refresh(self, request: Any) -> None:
        raise AssertionError("not called: before_request is ours")

    def before_request(self, request: Any, method: Any, url: Any, headers: dict[str, str]) -> None:
        self.threads.add(threading.get_ident())
        headers["authorization"] = "Bearer hunter2"


def connect(monkeypatch: pytest.MonkeyPatch, wire: Wire, scheme: str) -> None:
    extra = {"project": PROJECT, "region": REGION, "api_endpoint": f"{scheme}://{wire.target}"}
    monkeypatch.setenv(
        "AIRFLOW_CONN_WIRE", json.dumps({"conn_type": "google_cloud_platform", "extra": extra})
    )


def trust(monkeypatch: pytest.MonkeyPatch, wire: Wire) -> None:
    class Trusting:
        ssl_credentials = grpc.ssl_channel_credentials(wire.certificate)

    monkeypatch.setattr(auth_grpc, "SslCredentials", Trusting)


def use(monkeypatch: pytest.MonkeyPatch, credentials: Credentials) -> None:
    monkeypatch.setattr(connected, "load_credentials", lambda info, chain: (credentials, None))
