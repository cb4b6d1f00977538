"""What the rest needs of a store: list, read a marker, move aside. `for_uri` picks Cloud Storage or a
local path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pendulum

from airflow_provider.agent_platform.checkpoints.recognisers.model import StoredObject

if TYPE_CHECKING:
    from google.cloud import storage

ClientFactory = Callable[[], "storage.Client"]
"""Makes a google-cloud-storage client, as `TrainingJobHook.storage_client` does. Called at most once a
store."""

MAX_OBJECTS = 500_000
"""A listing that is longer is given up: it would take minutes, and no training needs so many files to
resume."""

MARKER_BYTES = 64 * 1024
"""A marker or tracker is a few bytes; a file that is larger is not read."""


def utc_now() -> pendulum.DateTime:
    """Return the time in UTC: the default of every clock that can be injected."""
    return pendulum.now("UTC")


class CheckpointStoreError(Exception):
    """The store cannot be looked at. The text says why and what to do, and is meant for the task log."""


class CheckpointStore(ABC):
    """A directory on Cloud Storage or on a disk. All names are relative to it, with ``/`` between the
    parts."""

    atomic_rename: bool
    """Whether a directory can appear under its final name at once."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") or "/"

    @staticmethod
    def for_uri(uri: str, client_factory: ClientFactory | None = None, **options: Any) -> CheckpointStore:
        """Return the store of a ``gs://bucket/path``, a ``file:///path`` or an absolute local path.

        :param client_factory: needed for ``gs://``; default: the one of a `TrainingJobHook` on the default
            connection.
        :param options: of the store: ``now``, ``sleep`` for tests, ``max_objects``, ``budget_seconds``.
        :raises CheckpointStoreError: it is neither.
        """
        # Imported here: a store must not be paid for by those who only name the types.
        from airflow_provider.agent_platform.checkpoints.store.cloud import CloudStore
        from airflow_provider.agent_platform.checkpoints.store.local import LocalStore

        if uri.startswith("gs://"):
            return CloudStore(uri, client_factory, **options)
        path = uri[len("file://") :] if uri.startswith("file://") else uri
        if path.startswith("/"):
            return LocalStore(path, uri, **options)
        raise CheckpointStoreError(
            f"base_output_directory {uri!r} is neither gs://bucket/path nor an absolute local path"
        )

    def uri(self, name: str) -> str:
        """Return the full address of a name, without a trailing slash."""
        name = name.strip("/")
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield every object below a directory, at any depth, with names relative to that directory.

        :raises CheckpointStoreError: it cannot be listed, or is too large, or takes too long.
        """

    @abstractmethod
    def read_small(self, name: str) -> str:
        """Return the text of a small file.

        :raises CheckpointStoreError: it is not there, may not be read, is no text, or is larger than
            `MARKER_BYTES`.
        """

    @abstractmethod
    def exists(self) -> bool:
        """Say whether the bucket or the local directory can be reached.

        :raises CheckpointStoreError: it cannot be told.
        """

    @abstractmethod
    def copy(self, name: str, target: str) -> object:
        """Copy one object and make sure that the copy is whole.

        :return: what `remove` needs so as to delete the very same object and no later one.
        :raises CheckpointStoreError: it could not be copied.
        """

    @abstractmethod
    def remove(self, name: str, copied: object) -> None:
        """Delete an object that was copied, unless it was written again since.

        :raises CheckpointStoreError: it could not be deleted.
        """
