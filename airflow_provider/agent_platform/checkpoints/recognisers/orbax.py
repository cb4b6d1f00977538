"""Orbax: on Cloud Storage ``commit_success.txt`` in the step's directory, written last; elsewhere the final
name.

Elsewhere a step is written to ``<step>.orbax-checkpoint-tmp*/`` and renamed. A rename on a mounted bucket is
not atomic, and so counts for nothing there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import rewritten
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import is_container, step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "orbax"

MARKER = "commit_success.txt"
TEMPORARY = ".orbax-checkpoint-tmp"
METADATA = "_CHECKPOINT_METADATA"

_OF_AN_ITEM = frozenset({"_METADATA", "manifest.ocdbt", "_sharding", MARKER})


def orbax(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every sub-directory that Orbax has written into, under a temporary name or the final one."""
    temporary = {name.partition(TEMPORARY)[0] for name in directory.directories if TEMPORARY in name}
    marked = any(MARKER in child.files for child in directory.directories.values())
    for name, child in directory.directories.items():
        final = name.partition(TEMPORARY)[0]
        if TEMPORARY in name:
            if step_in(final) is None:
                continue  # an item of a step, seen from inside
            why = "it has its temporary name"
        elif not _is_step(child):
            continue
        else:
            why = _why(child, half_renamed=name in temporary, marked=marked)
        yield Checkpoint(path=child.path, step=step_in(final), complete=not why, why=why, framework=NAME)


def _is_step(child: Directory) -> bool:
    if METADATA in child.files or MARKER in child.files:
        return True
    if step_in(child.name) is None or is_container(child.name):
        return False
    return any(_is_item(item) for item in child.directories.values())


def _is_item(item: Directory) -> bool:
    if METADATA in item.files:
        return False  # a step of its own
    return (
        TEMPORARY in item.name
        or not _OF_AN_ITEM.isdisjoint(item.files)
        or any(name.startswith("ocdbt.process_") for name in item.directories)
    )


def _why(child: Directory, *, half_renamed: bool, marked: bool) -> str:
    if any(TEMPORARY in name for name in child.directories):
        return "an item in it has its temporary name"
    if MARKER in child.files:
        if half_renamed and not child.listing.atomic_rename:
            return "a part of it still has its temporary name"
        return rewritten(child, MARKER, in_place=step_in(child.name) is None)
    if not child.listing.atomic_rename:
        return f"{MARKER} is not there: it is written last (write to gs://, a rename on a mounted bucket proves nothing)"
    if marked or any(MARKER in item.files for item in child.directories.values()):
        return f"{MARKER} is not there: this version of Orbax writes it last"
    if not any(_is_item(item) for item in child.directories.values()):
        return "no item is in it yet"
    if _is_uncommitted(child.read(METADATA)):
        return f"{METADATA} says that it is not committed"
    return ""


def _is_uncommitted(text: str | None) -> bool:
    try:
        metadata = json.loads(text or "")
    except ValueError:
        return False
    return isinstance(metadata, dict) and metadata.get("commit_timestamp_nsecs", 0) is None
