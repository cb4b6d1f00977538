"""torch.distributed.checkpoint: a directory of shards ``__<rank>_<n>.distcp`` and ``.metadata``, which is
written last.

``.metadata`` is written as ``.metadata.tmp`` and renamed. It is a pickle, and so is not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import rewritten
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "torch_distributed"

MARKER = ".metadata"
SHARD = ".distcp"


def torch_distributed(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every sub-directory with a shard or the metadata in it, and the listed directory itself if it
    has them."""
    for child in directory.directories.values():
        if own := _own(child):
            yield _checkpoint(child, own, None)
    if not directory.prefix and (own := _own(directory)):
        yield _checkpoint(directory, own, own)


def _own(directory: Directory) -> frozenset[str]:
    return frozenset(
        name for name in directory.files if name.endswith(SHARD) or name in (MARKER, f"{MARKER}.tmp")
    )


def _checkpoint(directory: Directory, own: frozenset[str], claims: frozenset[str] | None) -> Checkpoint:
    step = step_in(directory.name)
    why = ""
    if MARKER not in own:
        why = f"{MARKER} is not there: it is written last"
    elif not any(name.endswith(SHARD) for name in own):
        why = f"no shard (*{SHARD}) is there"
    else:
        why = rewritten(directory, MARKER, in_place=step is None, counts=lambda path: path.endswith(SHARD))
    return Checkpoint(
        path=directory.path, step=step, complete=not why, why=why, framework=NAME, claims=claims
    )
