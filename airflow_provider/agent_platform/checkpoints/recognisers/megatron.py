"""Megatron: ``latest_checkpointed_iteration.txt`` names ``iter_<N>/``; a distributed one holds
``metadata.json`` too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import fewer_files, missing_rank
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.tracker import tracked
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "megatron"

TRACKER = "latest_checkpointed_iteration.txt"

_DIRECTORY = re.compile(r"^(?:iter_\d+|release)$")
_RANK = re.compile(r"^mp_rank_(\d+)")
_DISTRIBUTED = re.compile(r"^(?:metadata\.json|\.metadata|common\.pt|.*\.distcp)$")


def megatron(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every ``iter_<N>/`` beside the tracker, or with files of Megatron in it."""
    children = [
        child
        for name, child in directory.directories.items()
        if _DIRECTORY.match(name) and (TRACKER in directory.files or _is_ours(child))
    ]
    if children:
        yield from tracked(directory, children, TRACKER, NAME, _why, _named)


def _named(text: str) -> str:
    return f"iter_{int(text):07d}" if text.isdecimal() else text


def _is_ours(child: Directory) -> bool:
    return any(_RANK.match(name) for name in child.directories) or (
        "common.pt" in child.files or "metadata.json" in child.files
    )


def _why(child: Directory, before: Directory | None) -> str:
    if any(_DISTRIBUTED.match(name) for name in child.files):
        if "metadata.json" not in child.files:
            return "metadata.json is not there: it is written after the shards"
        if any(name.endswith(".distcp") for name in child.files) and ".metadata" not in child.files:
            return ".metadata is not there: it is written after the shards"
        return ""
    ranks = {name: child.directories[name] for name in child.directories if _RANK.match(name)}
    if not ranks:
        return "no file of a rank is there"
    if any(not rank.files for rank in ranks.values()):
        return "the directory of a rank is empty"
    numbers = [int(found.group(1)) for name in ranks if (found := _RANK.match(name))]
    return missing_rank(numbers, "directory") or fewer_files(
        child, before, lambda path: path.startswith("mp_rank_")
    )
