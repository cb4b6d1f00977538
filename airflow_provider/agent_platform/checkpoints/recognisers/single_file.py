"""One file is the whole checkpoint: XGBoost's ``model_100.ubj``, ``torch.save`` of ``model-500.pt``.

An object of Cloud Storage appears only when its upload ends, so that there it is complete when it exists. On
a mounted or local path a crash leaves a truncated file; what shows without reading it is that it is much
smaller than the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "file"

TRUNCATED = 0.5
"""On a disk, a file smaller than this part of the one before it was cut off."""

_KINDS = frozenset(
    [
        "pt",
        "pth",
        "ubj",
        "bst",
        "pkl",
        "pickle",
        "joblib",
        "npz",
        "h5",
        "hdf5",
        "keras",
        "safetensors",
        "msgpack",
        "tar",
        "nemo",
    ]
)
_SOMETIMES = frozenset(["json", "txt", "bin", "model", "cbm"])
"""Endings that say little: the name must be that of a model, with a number."""

_MODEL = re.compile(r"^(?:model|booster|xgb\w*|lgbm?\w*|checkpoint|ckpt)[-_.]?\d+$", re.IGNORECASE)
_FLAX = re.compile(r"^checkpoint_\d+$")
_PART = re.compile(
    r"^(?:optimizer|scheduler|scaler|rng_state|random_states|training_args|trainer_state|tokenizer)"
    r"|\d+[-_]of[-_]\d+|(?:^|[-_.])(?:part|shard|rank|mp_rank)[-_.]?\d+",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")


def single_file(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every file whose name says that it is a checkpoint by itself."""
    found = [
        (step_in(name), name, file)
        for name, file in directory.files.items()
        if _is_checkpoint(name) and not name.startswith(".") and not _PART.search(name)
    ]
    found.sort(key=lambda item: (-1 if item[0] is None else item[0], item[1]))
    before: dict[str, int] = {}
    for step, name, file in found:
        why = "it is empty" if file.size == 0 else ""
        if directory.listing.atomic_rename and step is not None and not why:
            series = _DIGITS.sub("#", name)
            if file.size < TRUNCATED * before.get(series, 0):
                why = f"it has {file.size} bytes, the one before {before[series]}: it was cut off"
            else:
                before[series] = file.size
        yield Checkpoint(
            path=directory.join(name),
            step=step,
            complete=not why,
            why=why,
            framework=NAME,
            time=file.updated,
        )


def _is_checkpoint(name: str) -> bool:
    stem, _, ending = name.rpartition(".")
    ending = ending.lower()
    if not stem:
        return _FLAX.match(name) is not None
    return ending in _KINDS or (ending in _SOMETIMES and _MODEL.match(stem) is not None)
