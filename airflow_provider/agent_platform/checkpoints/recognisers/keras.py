"""Keras BackupAndRestore: ``latest.weights.h5``, then ``training_metadata.json``, both overwritten in place.

With ``double_checkpoint`` the pair before is kept with the ending ``.bkp``, which Keras itself falls back to.
Either way the callback is given the directory, so that is the address.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "keras"

WEIGHTS, METADATA = "latest.weights.h5", "training_metadata.json"
BACKUP = ".bkp"


def keras(directory: Directory) -> Iterator[Checkpoint]:
    """Yield the directory itself when it holds the weights or the metadata."""
    files = directory.files
    if METADATA not in files and WEIGHTS not in files:
        return
    claims = frozenset(
        name for name in (WEIGHTS, METADATA, WEIGHTS + BACKUP, METADATA + BACKUP) if name in files
    )
    why = _torn(directory, "")
    suffix = ""
    if why and WEIGHTS + BACKUP in files and not _torn(directory, BACKUP):
        why, suffix = "", BACKUP
    text = directory.read(METADATA + suffix) if not why else None
    yield Checkpoint(
        path=directory.path,
        step=_epochs(text) if text is not None else None,
        complete=not why,
        why=why,
        framework=NAME,
        time=files[METADATA + suffix].updated if not why else None,
        claims=claims,
    )


def _torn(directory: Directory, suffix: str) -> str:
    weights, metadata = directory.files.get(WEIGHTS + suffix), directory.files.get(METADATA + suffix)
    if weights is None:
        return f"{WEIGHTS} is not there"
    if metadata is None:
        return f"{METADATA} is not there: it is written after the weights"
    if weights.size == 0 or metadata.size == 0:
        return "one of its files is empty"
    if None not in (weights.updated, metadata.updated) and (weights.updated or 0.0) > (
        metadata.updated or 0.0
    ):
        return f"{WEIGHTS} was written after {METADATA}: it is being overwritten"
    return ""


def _epochs(text: str) -> int | None:
    """Return the number of epochs done. Inside an epoch the step is not known: an epoch's length is not
    written."""
    try:
        metadata = json.loads(text)
        epoch, batch = metadata["epoch"], metadata.get("batch")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return epoch if isinstance(epoch, int) and not batch else None
