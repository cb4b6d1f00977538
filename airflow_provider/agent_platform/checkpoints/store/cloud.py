"""Checkpoints on Cloud Storage: one recursive listing, page by page, with nothing in it but names, sizes
and times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pendulum

from airflow_provider.agent_platform.checkpoints.recognisers.model import StoredObject
from airflow_provider.agent_platform.checkpoints.store.base import (
    MARKER_BYTES,
    MAX_OBJECTS,
    CheckpointStore,
    CheckpointStoreError,
    ClientFactory,
    utc_now,
)
from airflow_provider.agent_platform.checkpoints.store.reads import TIMEOUT, describe, retrying

if TYPE_CHECKING:
    from google.cloud import storage

T = TypeVar("T")

FIELDS = "items(name,size,updated),nextPageToken"
"""A tenth of what an object's metadata weighs otherwise."""

PAGE_SIZE = 1000
"""The most that the service gives at once."""

BUDGET_SECONDS = 240.0
"""How long one look may take altogether. 200,000 objects take about a minute from a worker near the
bucket."""


class CloudStore(CheckpointStore):
    """A ``gs://bucket/path``.

    :param now: the clock of the budget.
    :param sleep: how a pause between two attempts is made.
    """

    atomic_rename = False

    def __init__(
        self,
        uri: str,
        client_factory: ClientFactory | None = None,
        *,
        now: Callable[[], pendulum.DateTime] = utc_now,
        sleep: Callable[[float], None] = time.sleep,
        max_objects: int = MAX_OBJECTS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> None:
        super().__init__(uri)
        bucket, _, path = self.root[len("gs://") :].partition("/")
        if not bucket:
            raise CheckpointStoreError(f"{uri!r} names no bucket: give gs://bucket/path")
        self.bucket_name = bucket
        self.path = path.strip("/")
        self._client_factory = client_factory or _default_client
        self._client: storage.Client | None = None
        self._now = now
        self._sleep = sleep
        self._max_objects = max_objects
        self._deadline = now().add(seconds=budget_seconds)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield every object below a directory: see `CheckpointStore.list`. One page is held at a time."""
        full = self._name(prefix, directory=True)
        cut, count, token = len(full), 0, None
        where = f"gs://{self.bucket_name}/{full}"
        while True:
            page, token = self._call(lambda token=token: self._page(full, token), where)  # type: ignore[misc]
            for name, size, updated in page:
                count += 1
                if count > self._max_objects:
                    raise CheckpointStoreError(
                        f"more than {self._max_objects:,} objects below {where}: "
                        "delete old checkpoints, or keep other files elsewhere"
                    )
                yield StoredObject(name[cut:], size, updated)
            if not token:
                return
            if self._seconds_left() <= 0:
                raise CheckpointStoreError(f"listing {where} takes too long: stopped after {count:,} objects")

    def read_small(self, name: str) -> str:
        """Return the text of a small object: see `CheckpointStore.read_small`."""
        blob = self.client.bucket(self.bucket_name).blob(self._name(name))
        where = self.uri(name)
        # One byte more than allowed, so that a larger file is seen without a second request for its size.
        data: bytes = self._call(
            lambda: blob.download_as_bytes(
                start=0, end=MARKER_BYTES, timeout=TIMEOUT, retry=None, checksum=None
            ),
            where,
            "read",
            "storage.objects.get",
        )
        if len(data) > MARKER_BYTES:
            raise CheckpointStoreError(f"{where} is larger than {MARKER_BYTES} bytes: not a marker")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise CheckpointStoreError(f"{where} is no text") from None

    def exists(self) -> bool:
        """Say whether the bucket is there. Listing one name needs no more permission than the scan itself."""
        from google.api_core.exceptions import NotFound

        try:
            self._attempt(lambda: self._page(self._name("", directory=True), None, size=1))
        except NotFound:
            return False
        except Exception as error:
            raise CheckpointStoreError(describe(error, self.root)) from error
        return True

    def copy(self, name: str, target: str) -> object:
        """Copy an object inside the bucket, on the service's side, and compare the sums of both."""
        bucket = self.client.bucket(self.bucket_name)
        source = self._call(
            lambda: bucket.get_blob(self._name(name), timeout=TIMEOUT, retry=None),
            self.uri(name),
            "read",
            "storage.objects.get",
        )
        if source is None:
            raise CheckpointStoreError(f"{self.uri(name)} is gone")
        copy = bucket.blob(self._name(target))
        token = None
        while True:
            token, _, _ = self._call(
                lambda token=token: copy.rewrite(  # type: ignore[misc]
                    source,
                    token=token,
                    if_source_generation_match=source.generation,
                    timeout=TIMEOUT,
                    retry=None,
                ),
                self.uri(target),
                "write",
                "storage.objects.create",
            )
            if token is None:
                break
        if (copy.size, copy.crc32c) != (source.size, source.crc32c):
            raise CheckpointStoreError(
                f"the copy {self.uri(target)} differs from {self.uri(name)}: nothing was deleted"
            )
        return int(source.generation)

    def remove(self, name: str, copied: object) -> None:
        """Delete the generation that was copied; a later one stays."""
        from google.api_core.exceptions import NotFound, PreconditionFailed

        blob = self.client.bucket(self.bucket_name).blob(self._name(name))
        try:
            self._attempt(lambda: blob.delete(if_generation_match=copied, timeout=TIMEOUT, retry=None))
        except (NotFound, PreconditionFailed):
            return
        except Exception as error:
            raise CheckpointStoreError(
                describe(error, self.uri(name), "delete", "storage.objects.delete")
            ) from error

    @property
    def client(self) -> storage.Client:
        """The client, made at the first need."""
        if self._client is None:
            try:
                self._client = self._client_factory()
            except Exception as error:
                raise CheckpointStoreError(describe(error, self.root, "open")) from error
        return self._client

    def _page(
        self, prefix: str, token: str | None, size: int | None = None
    ) -> tuple[Sequence[tuple[str, int, float | None]], str | None]:
        iterator = self.client.list_blobs(
            self.bucket_name,
            prefix=prefix,
            fields=FIELDS,
            page_size=size or PAGE_SIZE,
            page_token=token,
            timeout=TIMEOUT,
            retry=None,
        )
        page = next(iterator.pages, ())
        rows = [
            (blob.name, blob.size or 0, blob.updated.timestamp() if blob.updated is not None else None)
            for blob in page
        ]
        return rows, iterator.next_page_token

    def _attempt(self, call: Callable[[], T]) -> T:
        return retrying(self._sleep, self._seconds_left())(call)

    def _call(
        self, call: Callable[[], T], where: str, what: str = "list", permission: str = "storage.objects.list"
    ) -> T:
        try:
            return self._attempt(call)
        except CheckpointStoreError:
            raise
        except Exception as error:
            raise CheckpointStoreError(describe(error, where, what, permission)) from error

    def _seconds_left(self) -> float:
        return float((self._deadline - self._now()).total_seconds())

    def _name(self, name: str, *, directory: bool = False) -> str:
        full = "/".join(part for part in (self.path, name.lstrip("/")) if part)
        return f"{full}/" if directory and full and not full.endswith("/") else full


def _default_client() -> Any:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

    return TrainingJobHook().storage_client()
