"""The storage emulator in this process, made to page, to narrow fields, to check generations and to fail as
Cloud Storage does.

The emulator answers a listing whole, whatever page was asked for, and ignores ``fields`` and preconditions.
Tests of those need a server that has them.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any

import gcp_storage_emulator.server as emulator  # type: ignore[import-untyped]
from gcp_storage_emulator.handlers import objects  # type: ignore[import-untyped]
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

BUCKET = "bucket"

Handler = Callable[..., None]


class StorageServer(AbstractContextManager["StorageServer"]):
    """A bucket on a free port of loopback.

    :ivar listings: the query of every listing that was answered.
    :ivar failures: statuses that the next calls get instead of an answer, first in, first out.
    :ivar denied: methods that get 403.
    """

    def __init__(self, *, paging: bool = True) -> None:
        self.paging = paging
        self.listings: list[dict[str, str]] = []
        self.failures: list[int] = []
        self.denied: set[str] = set()
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = emulator.create_server("127.0.0.1", self.port, in_memory=True, default_bucket=BUCKET)
        self._replaced: list[tuple[dict[str, Handler], str, Handler]] = []
        self._clients: list[Any] = []
        self._sorted: tuple[int, list[str]] = (-1, [])

    @property
    def storage(self) -> Any:
        return self._server._storage

    def __enter__(self) -> StorageServer:
        wrapped = {
            objects.ls: ("list", self._list),
            objects.get: ("get", objects.get),
            objects.download: ("get", objects.download),
            objects.delete: ("delete", self._delete),
            objects.rewrite: ("create", objects.rewrite),
        }
        for _, methods in emulator.HANDLERS:
            for verb, handler in methods.items():
                if handler in wrapped:
                    self._replaced.append((methods, verb, handler))
                    methods[verb] = self._guarded(*wrapped[handler])
        self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._clients:
            client.close()
        self._server.stop()
        for methods, verb, handler in self._replaced:
            methods[verb] = handler

    def client(self) -> Any:
        """Make a client, as a hook does."""
        client = storage.Client(
            project="project",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self.url},
        )
        self._clients.append(client)
        return client

    def reset(self) -> None:
        """Empty the bucket and forget what was asked and what shall fail."""
        self.storage.objects.get(BUCKET, {}).clear()
        self.listings.clear()
        self.failures = []
        self.denied = set()

    def put(self, *names: str, text: str | bytes = "x") -> None:
        bucket = self.client().bucket(BUCKET)
        for name in names:
            bucket.blob(name).upload_from_string(text)

    def fill(self, rows: list[tuple[str, int, str]]) -> None:
        """Put many objects in at once, without their contents: name, bytes, time."""
        there = self.storage.objects.setdefault(BUCKET, {})
        for name, size, updated in rows:
            there[name] = {
                "name": name,
                "size": str(size),
                "updated": updated,
                "generation": "1",
                "bucket": BUCKET,
            }

    def names(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self.storage.objects.get(BUCKET, {}) if name.startswith(prefix))

    def _guarded(self, permission: str, handler: Handler) -> Handler:
        def guarded(request: Any, response: Any, store: Any, *rest: Any) -> None:
            if permission in self.denied:
                self._refuse(response, 403, f"caller does not have storage.objects.{permission} access")
            elif self.failures:
                self._refuse(response, self.failures.pop(0), "as the test asked")
            else:
                handler(request, response, store, *rest)

        return guarded

    @staticmethod
    def _refuse(response: Any, status: int, message: str) -> None:
        response.json({"error": {"code": status, "message": message}})
        response.status = HTTPStatus(status)

    def _list(self, request: Any, response: Any, store: Any, *rest: Any) -> None:
        query = {name: values[0] for name, values in request.query.items()}
        self.listings.append(query)
        if not self.paging:
            objects.ls(request, response, store, *rest)
            return
        if request.params["bucket_name"] not in store.buckets:
            self._refuse(response, 404, "The specified bucket does not exist.")
            return
        bucket = store.objects.get(request.params["bucket_name"], {})
        if len(bucket) < 10_000 or self._sorted[0] != len(bucket):
            self._sorted = (len(bucket), sorted(bucket))
        names = [name for name in self._sorted[1] if name.startswith(query.get("prefix", ""))]
        start = int(query.get("pageToken", 0))
        end = start + min(int(query.get("maxResults", 1000)), 1000)
        fields = ("name", "size", "updated") if "fields" in query else None
        answer: dict[str, Any] = {
            "items": [
                bucket[name] if fields is None else {field: bucket[name][field] for field in fields}
                for name in names[start:end]
            ]
        }
        if end < len(names):
            answer["nextPageToken"] = str(end)
        response["Content-type"] = "application/json"
        response._content = json.dumps(answer)

    def _delete(self, request: Any, response: Any, store: Any, *rest: Any) -> None:
        wanted = request.query.get("ifGenerationMatch", [None])[0]
        there = store.objects.get(request.params["bucket_name"], {}).get(request.params["object_id"])
        if wanted is not None and there is not None and there["generation"] != wanted:
            self._refuse(response, 412, "At least one of the pre-conditions you specified did not hold.")
            return
        objects.delete(request, response, store, *rest)
