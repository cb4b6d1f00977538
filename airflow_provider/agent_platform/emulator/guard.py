"""Refuses what a foreign web page sends to the REST port.

In: ASGI requests. Out: the same, or 403 when ``Origin`` or ``Host`` names another place than this emulator. A
browser on the developer's machine can reach loopback; without this, any page could start processes here.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send


class Guard:
    """ASGI middleware.

    :param hosts: further host names under which this emulator is meant to be reached.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] != "lifespan":
            for name, value in scope["headers"]:
                text = value.decode("latin-1")
                if name == b"host" and not self._ours(f"//{text}"):
                    await _refuse(scope, send, "Host", text)
                    return
                if name == b"origin" and not self._ours(text):
                    await _refuse(scope, send, "Origin", text)
                    return
        await self._app(scope, receive, send)

    def _ours(self, url: str) -> bool:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return False
        if host in self._hosts or host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


async def _refuse(scope: Scope, send: Send, header: str, value: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    message = f"{header} {value!r} is not this emulator: it answers on loopback names, and on the one given with --host."
    body: dict[str, Any] = {
        "error": {"code": 403, "message": message, "status": "PERMISSION_DENIED", "details": []}
    }
    headers = [(b"content-type", b"application/json; charset=UTF-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
