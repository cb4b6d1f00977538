"""What several recognisers ask of a directory: is every shard there, is the marker older than what it vouches
for.

Answers are a reason for a person, or "" when nothing is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

COPY_SECONDS = 300.0
"""A copied tree has its times in the order of the copy: within five minutes an older marker proves
nothing."""

_SHARD = re.compile(r"^(?P<stem>.*?)-?(?P<index>\d+)-of-(?P<total>\d+)(?P<rest>.*)$")


def rewritten(
    directory: Directory, marker: str, *, in_place: bool, counts: Callable[[str], bool] = lambda name: True
) -> str:
    """Say whether a file was written after the marker that vouches for it: an older checkpoint is being
    overwritten.

    :param in_place: the directory is used for one checkpoint after the other. Then any newer file counts;
        else only one that is newer by more than `COPY_SECONDS`.
    :param counts: which of the files (paths relative to the directory) are vouched for.
    """
    marked = directory.files[marker].updated
    if marked is None:
        return ""
    limit = marked + (0.0 if in_place else COPY_SECONDS)
    for path, file in directory.walk():
        if file.updated is not None and file.updated > limit and path != marker and counts(path):
            return f"{path} was written after {marker}: it is being overwritten"
    return ""


def missing_shard(names: Iterable[str]) -> str:
    """Name a shard that is not there, among names like ``model-00001-of-00003.safetensors``; "" when all
    are."""
    groups: dict[tuple[str, int, str], set[int]] = {}
    example: dict[tuple[str, int, str], str] = {}
    for name in names:
        if found := _SHARD.match(name):
            key = (found["stem"], int(found["total"]), found["rest"])
            groups.setdefault(key, set()).add(int(found["index"]))
            example[key] = name
    for key, present in groups.items():
        total = key[1]
        # TensorFlow counts its shards from 0, safetensors from 1; `total` shards in a row are complete either
        # way.
        if len(present) < total:
            return f"{len(present)} of {total} shards are there ({example[key]}, ...)"
    return ""


def missing_rank(ranks: Iterable[int], what: str) -> str:
    """Name a rank whose file is not there, given those that are; "" when they run from 0 without a gap."""
    present = set(ranks)
    for rank in range(max(present, default=-1) + 1):
        if rank not in present:
            return f"the {what} of rank {rank} is missing"
    return ""


def fewer_files(directory: Directory, before: Directory | None, counts: Callable[[str], bool]) -> str:
    """Say whether a directory lacks a file that the checkpoint before it had: a rank that did not get that
    far.

    A cluster that was made smaller costs one checkpoint this way; the next is compared with that one.
    """
    if before is None:
        return ""
    here = {path for path, _ in directory.walk() if counts(path)}
    missing = min((path for path, _ in before.walk() if counts(path) and path not in here), default="")
    return f"{missing} is missing, which {before.name} has" if missing else ""
