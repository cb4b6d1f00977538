"""A listing as a tree of directories: what every recogniser looks at.

A stream of objects enters and is held once, as nested dictionaries whose keys are shared strings: 200,000
objects take some 40 MB. No meaning is given to any name here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from sys import intern

from airflow_provider.agent_platform.checkpoints.recognisers.model import StoredObject

ReadMarker = Callable[[str], "str | None"]
"""Gives the text of a small file by its name relative to the listed directory; None when it cannot be
read."""

READS_PER_LISTING = 64
"""A thousand trial directories with a tracker each must not become a thousand reads."""


class Listing:
    """What all directories of one listing share: how a marker is read, and what kind of store it is.

    :param read: see `ReadMarker`; None when nothing can be read.
    :param atomic_rename: whether a directory appears under its final name at once. True on a local disk;
        there is no directory rename on Cloud Storage.
    """

    __slots__ = ("atomic_rename", "read", "reads_left")

    def __init__(self, read: ReadMarker | None, *, atomic_rename: bool) -> None:
        self.read = read
        self.atomic_rename = atomic_rename
        self.reads_left = READS_PER_LISTING


class Directory:
    """One directory: its files and its sub-directories by name.

    :param prefix: what the names of its entries begin with, relative to the listed directory: "" for the
        listed directory itself, else its path and a slash. A name may be empty: on Cloud Storage ``a//b`` is
        not ``a/b``.
    """

    __slots__ = ("directories", "files", "listing", "name", "prefix")

    def __init__(self, prefix: str, name: str, listing: Listing) -> None:
        self.prefix = prefix
        self.name = name
        self.listing = listing
        self.files: dict[str, StoredObject] = {}
        self.directories: dict[str, Directory] = {}

    @property
    def path(self) -> str:
        """Its path relative to the listed directory, without a trailing slash."""
        return self.prefix[:-1]

    def join(self, name: str) -> str:
        """Return the path of a child."""
        return self.prefix + name

    def read(self, name: str) -> str | None:
        """Return the text of a small file of this directory; None when it is not there or cannot be read."""
        listing = self.listing
        if name not in self.files or listing.read is None or listing.reads_left <= 0:
            return None
        listing.reads_left -= 1
        return listing.read(self.join(name))

    def walk(self) -> Iterator[tuple[str, StoredObject]]:
        """Yield every file at or below this directory with its path relative to it."""
        yield from self.files.items()
        for name, directory in self.directories.items():
            for path, file in directory.walk():
                yield f"{name}/{path}", file

    def without(self, names: Set[str]) -> Directory:
        """Return the same directory without some of its entries."""
        rest = Directory(self.prefix, self.name, self.listing)
        rest.files = {name: file for name, file in self.files.items() if name not in names}
        rest.directories = {name: child for name, child in self.directories.items() if name not in names}
        return rest

    def newest(self) -> float | None:
        """Return when a file at or below this directory was last written; None when no file tells."""
        times = [file.updated for file in self.files.values() if file.updated is not None]
        for directory in self.directories.values():
            below = directory.newest()
            if below is not None:
                times.append(below)
        return max(times, default=None)


def build(objects: Iterable[StoredObject], listing: Listing) -> tuple[Directory, int]:
    """Return the tree of a listing and the number of objects in it. The stream is consumed once and not
    kept."""
    root = Directory("", "", listing)
    known: dict[str, Directory] = {"": root}
    count = 0
    files, last = root.files, ""
    for item in objects:
        count += 1
        parent, slash, leaf = item[0].rpartition("/")
        if parent != last or not parent:
            # A listing is sorted: nearly all objects are in the directory of the one before.
            prefix = parent + slash
            files, last = (known.get(prefix) or _grow(prefix, known, listing)).files, parent
        if leaf:
            files[intern(leaf)] = item
    return root, count


def _grow(prefix: str, known: dict[str, Directory], listing: Listing) -> Directory:
    """Make the directories of a prefix that are not there yet."""
    missing = []
    while prefix not in known:
        missing.append(prefix)
        parent, slash, _ = prefix[:-1].rpartition("/")
        prefix = parent + slash
    directory = known[prefix]
    for prefix in reversed(missing):
        name = intern(prefix[:-1].rpartition("/")[2])
        child = Directory(prefix, name, listing)
        directory.directories[name] = known[prefix] = child
        directory = child
    return directory
