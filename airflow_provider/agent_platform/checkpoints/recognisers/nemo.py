"""NeMo: while ``<name>-unfinished`` lies beside a checkpoint it is not complete; the marker is removed last.

A checkpoint is a directory with ``weights/`` (or ``model_weights/``), or a file ``.ckpt`` or ``.nemo``.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "nemo"

UNFINISHED = "-unfinished"
_WEIGHTS = ("weights", "model_weights")


def nemo(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every entry with an unfinished marker, and every directory of NeMo without one."""
    unfinished = {name[: -len(UNFINISHED)]: name for name in directory.files if name.endswith(UNFINISHED)}
    for base, marker in unfinished.items():
        entries = [
            name
            for name in (base, f"{base}.ckpt", f"{base}.nemo", f"{base}-EMA.ckpt")
            if name in directory.files or name in directory.directories
        ]
        yield Checkpoint(
            path=directory.join(entries[0] if entries else base),
            step=step_in(base),
            complete=False,
            why=f"{marker} is there: it is removed when the checkpoint is complete",
            framework=NAME,
            claims=frozenset({marker, *entries}),
        )
    for name, child in directory.directories.items():
        if name not in unfinished and (weights := _weights(child)):
            why = _why(weights)
            yield Checkpoint(path=child.path, step=step_in(name), complete=not why, why=why, framework=NAME)


def _weights(child: Directory) -> Directory | None:
    for name in _WEIGHTS:
        weights = child.directories.get(name)
        if weights is not None and ("context" in child.directories or _is_distributed(weights)):
            return weights
    return None


def _is_distributed(weights: Directory) -> bool:
    return any(name in weights.files for name in ("metadata.json", "common.pt")) or any(
        name.endswith(".distcp") for name in weights.files
    )


def _why(weights: Directory) -> str:
    if not weights.files and not weights.directories:
        return f"{weights.name}/ is empty"
    if _is_distributed(weights) and "metadata.json" not in weights.files:
        return f"{weights.name}/metadata.json is not there: it is written after the shards"
    return ""
