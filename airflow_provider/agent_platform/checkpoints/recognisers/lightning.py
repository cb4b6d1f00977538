"""PyTorch Lightning: a file ``*.ckpt``; or a directory ``*.ckpt/`` of a sharded or a DeepSpeed strategy.

The sharded one holds a torch.distributed checkpoint (``.metadata``), and ``meta.pt`` is written last. The one
of DeepSpeed holds ``checkpoint/`` and ``latest``.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.deepspeed import is_rank_file, ranks_missing
from airflow_provider.agent_platform.checkpoints.recognisers.evidence import rewritten
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "lightning"

SUFFIX = ".ckpt"


def lightning(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every file and every directory whose name ends in ``.ckpt``."""
    for name, child in directory.directories.items():
        if name.endswith(SUFFIX):
            why = _why(child)
            yield Checkpoint(path=child.path, step=step_in(name), complete=not why, why=why, framework=NAME)
    for name, file in directory.files.items():
        if name.endswith(SUFFIX) and not name.startswith("."):
            why = "it is empty" if file.size == 0 else ""
            yield Checkpoint(
                path=directory.join(name), step=step_in(name), complete=not why, why=why, framework=NAME
            )


def _why(child: Directory) -> str:
    engine = child.directories.get("checkpoint")
    if engine is not None and any(is_rank_file(name) for name in engine.files):
        if "latest" not in child.files:
            return "latest is not there: DeepSpeed writes it last"
        return ranks_missing(engine) or rewritten(child, "latest", in_place=step_in(child.name) is None)
    for marker in (".metadata", "meta.pt"):
        if marker not in child.files:
            return f"{marker} is not there: it is written after the shards"
    if not any(name.endswith(".distcp") for name in child.files):
        return "no shard (*.distcp) is there"
    return rewritten(
        child, "meta.pt", in_place=step_in(child.name) is None, counts=lambda path: path.endswith(".distcp")
    )
