"""TensorFlow: ``ckpt-N.index`` and all its ``ckpt-N.data-*-of-*`` shards; the index is written after the
shards.

The file ``checkpoint`` is not needed: it is written last and only names what is there already.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import COPY_SECONDS
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "tensorflow"

_TEMPORARY = re.compile(r"^(?P<prefix>.+)_temp(?:_[0-9a-f]+)?$")


@dataclass
class _Parts:
    """The files of one prefix."""

    names: list[str] = field(default_factory=list)
    shards: list[str] = field(default_factory=list)
    newest_shard: float = float("-inf")


def tensorflow(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every prefix that has an index, a shard or a temporary directory."""
    prefixes: dict[str, _Parts] = {}
    for name, file in directory.files.items():
        prefix, _, ending = name.rpartition(".")
        is_shard = ending.startswith("data-") and "-of-" in ending
        # "variables" is a part of a SavedModel: a model to serve, not a state to resume from.
        if not (is_shard or ending in ("index", "meta")) or not prefix or prefix == "variables":
            continue
        parts = prefixes.get(prefix)
        if parts is None:
            parts = prefixes[prefix] = _Parts()
        parts.names.append(name)
        if is_shard:
            parts.shards.append(ending)
            if file.updated is not None and file.updated > parts.newest_shard:
                parts.newest_shard = file.updated
    for name in directory.directories:
        temporary = _TEMPORARY.match(name)
        if temporary and (temporary["prefix"] in prefixes or step_in(temporary["prefix"]) is not None):
            prefixes.setdefault(temporary["prefix"], _Parts()).names.append(name)
    for prefix, parts in prefixes.items():
        why = _why(directory, prefix, parts)
        yield Checkpoint(
            path=directory.join(prefix),
            step=step_in(prefix),
            complete=not why,
            why=why,
            framework=NAME,
            claims=frozenset(parts.names),
        )


def _why(directory: Directory, prefix: str, parts: _Parts) -> str:
    index = directory.files.get(f"{prefix}.index")
    if index is None:
        return f"{prefix}.index is not there: it is written after the shards"
    if index.updated is not None and parts.newest_shard > index.updated + COPY_SECONDS:
        return f"a shard was written after {prefix}.index: it is being overwritten"
    if not parts.shards:
        return "no data shard is there"
    counts = Counter(ending.rpartition("-")[2] for ending in parts.shards)
    if any(total.isdecimal() and count == int(total) for total, count in counts.items()):
        return ""
    total, count = counts.most_common(1)[0]
    return f"{count} of {total.lstrip('0')} data shards are there"
