"""A small client of the control API, for tests and scripts; needs the standard library only.

In: the emulator's REST address. Out: what the control API answers; :class:`ControlError` for a refusal.
"""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from typing import Any

SECONDS = 60


class ControlError(Exception):
    """The emulator refused a control call; the text is its own.

    :param status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"


class Control:
    """The control API of one emulator.

    :param rest_url: e.g. ``http://127.0.0.1:8086``.
    """

    def __init__(self, rest_url: str) -> None:
        self._url = f"{rest_url.rstrip('/')}/emulator/v1"
        # An emulator is on this machine or beside it: never through a proxy.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Any call.

        :raises ControlError: it is refused.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - the address is the caller's own
            self._url + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["error"]["message"]
            raise ControlError(error.code, text) from None

    def add_fault(self, fault: str, *, match: dict[str, str] | None = None, **options: Any) -> str:
        """Arm a fault, e.g. ``add_fault("stockout", times=2)``; answers its id."""
        return str(self.call("POST", "/faults", {"fault": fault, "match": match or {}, **options})["id"])

    def faults(self) -> list[dict[str, Any]]:
        """Every fault, with how often it has fired."""
        return list(self.call("GET", "/faults"))

    def remove_fault(self, fault_id: str) -> None:
        """Disarm a fault."""
        self.call("DELETE", f"/faults/{fault_id}")

    def events(self, job: str) -> list[dict[str, Any]]:
        """A job's story.

        :param job: its name or its bare id.
        """
        return list(self.call("GET", f"/jobs/{job.rpartition('/')[2]}/events"))

    def calls(self) -> dict[str, int]:
        """Calls by method since the last reset."""
        return dict(self.call("GET", "/calls"))

    def set_quotas(self, quotas: dict[str, dict[str, int]]) -> None:
        """Replace the limits of all regions."""
        self.call("PUT", "/quotas", quotas)

    def reset(self) -> None:
        """Forget jobs, faults, quotas and counts; end all workers."""
        self.call("POST", "/reset", {})
