"""TensorFlow: ``ckpt-N.index`` and all its ``ckpt-N.data-*-of-*`` shards; the index is written after the
shards.

The file ``checkpoint`` is not needed: it is written last and only names what is there already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import COPY_SECONDS
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "tensorflow"

_FILE = re.compile(r"^(?P<prefix>.+)\.(?:(?P<index>index)|data-(?P<shard>\d+)-of-(?P<total>\d+)|meta)$")
_TEMPORARY = re.compile(r"^(?P<prefix>.+)_temp(?:_[0-9a-f]+)?$")


def tensorflow(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every prefix that has an index, a shard or a temporary directory."""
    names: dict[str, set[str]] = {}
    for name in directory.files:
        # "variables" is a part of a SavedModel: a model to serve, not a state to resume from.
        if (found := _FILE.match(name)) and found["prefix"] != "variables":
            names.setdefault(found["prefix"], set()).add(name)
    for name in directory.directories:
        if (found := _TEMPORARY.match(name)) and (
            found["prefix"] in names or step_in(found["prefix"]) is not None
        ):
            names.setdefault(found["prefix"], set()).add(name)
    for prefix, parts in names.items():
        why = _why(directory, prefix, parts)
        yield Checkpoint(
            path=directory.join(prefix),
            step=step_in(prefix),
            complete=not why,
            why=why,
            framework=NAME,
            claims=frozenset(parts),
        )


def _why(directory: Directory, prefix: str, parts: set[str]) -> str:
    index = directory.files.get(f"{prefix}.index")
    if index is None:
        return f"{prefix}.index is not there: it is written after the shards"
    shards: dict[int, set[int]] = {}
    for name in parts:
        found = _FILE.match(name)
        if found and found["shard"]:
            shards.setdefault(int(found["total"]), set()).add(int(found["shard"]))
            written = directory.files[name].updated
            if (
                None not in (written, index.updated)
                and (written or 0.0) > (index.updated or 0.0) + COPY_SECONDS
            ):
                return f"{name} was written after {prefix}.index: it is being overwritten"
    if any(len(present) == total for total, present in shards.items()):
        return ""
    if not shards:
        return "no data shard is there"
    total, present = max(shards.items())
    return f"{len(present)} of {total} data shards are there"
