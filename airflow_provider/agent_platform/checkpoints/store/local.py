"""Checkpoints on a local or mounted path: for tests, for a laptop, and for clusters with a shared disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider.agent_platform.checkpoints.recognisers.model import StoredObject
from airflow_provider.agent_platform.checkpoints.store.base import (
    MARKER_BYTES,
    MAX_OBJECTS,
    CheckpointStore,
    CheckpointStoreError,
)


class LocalStore(CheckpointStore):
    """An absolute local path.

    :param shown: the address as the user gave it (``file:///...`` or the path), which `uri` builds on.
    """

    atomic_rename = True

    def __init__(
        self, path: str, shown: str | None = None, *, max_objects: int = MAX_OBJECTS, **_: Any
    ) -> None:
        super().__init__(shown or path)
        self.path = Path(path)
        self._max_objects = max_objects

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield every file below a directory, and every empty directory as a name that ends in ``/``."""
        top = self.path / prefix.strip("/")
        if not top.is_dir():
            return
        for count, item in enumerate(self._walk(top, ""), start=1):
            if count > self._max_objects:
                raise CheckpointStoreError(f"more than {self._max_objects:,} files below {top}")
            yield item

    def read_small(self, name: str) -> str:
        """Return the text of a small file: see `CheckpointStore.read_small`."""
        path = self.path / name
        try:
            with path.open("rb") as file:
                data = file.read(MARKER_BYTES + 1)
        except OSError as error:
            raise CheckpointStoreError(f"cannot read {path}: {error.strerror}") from error
        if len(data) > MARKER_BYTES:
            raise CheckpointStoreError(f"{path} is larger than {MARKER_BYTES} bytes: not a marker")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise CheckpointStoreError(f"{path} is no text") from None

    def exists(self) -> bool:
        """Say whether the directory is there."""
        return self.path.is_dir()

    def copy(self, name: str, target: str) -> object:
        """Copy a file and compare the sizes. A rename would do on one disk, but not on a mounted bucket."""
        source, copy = self.path / name, self.path / target
        try:
            if source.is_dir():  # an empty one
                copy.mkdir(parents=True, exist_ok=True)
                return None
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
            before, after = source.stat(), copy.stat()
        except OSError as error:
            raise CheckpointStoreError(f"cannot copy {source} to {copy}: {error.strerror}") from error
        if before.st_size != after.st_size:
            raise CheckpointStoreError(f"the copy {copy} differs from {source}: nothing was deleted")
        return before.st_mtime_ns

    def remove(self, name: str, copied: object) -> None:
        """Delete a file that was not written since it was copied, and the directories that this empties."""
        path = self.path / name
        try:
            if copied is None:
                path.rmdir()
            elif path.stat().st_mtime_ns != copied:
                return
            else:
                path.unlink()
            for parent in path.parents:
                if parent == self.path or any(parent.iterdir()):
                    return
                parent.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            raise CheckpointStoreError(f"cannot delete {path}: {error.strerror}") from error

    def _walk(self, directory: Path, below: str) -> Iterator[StoredObject]:
        try:
            with os.scandir(directory) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return  # deleted by the training while we look
        except OSError as error:
            raise CheckpointStoreError(f"cannot list {directory}: {error.strerror}") from error
        if not listed and below:
            yield StoredObject(below, 0, None)
        for entry in listed:
            try:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(directory / entry.name, f"{below}{entry.name}/")
                    continue
                status = entry.stat()
            except OSError:
                continue  # a dangling link, or gone
            if entry.is_file():
                yield StoredObject(f"{below}{entry.name}", status.st_size, status.st_mtime)
