"""One file is the whole checkpoint: XGBoost's ``model_100.ubj``, ``torch.save`` of ``model-500.pt``, and the
like.

An object of Cloud Storage appears only when its upload ends, so that there it is complete when it exists. On
a mounted or local path a crash leaves a truncated file; what can be seen of that without reading it is its
size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "file"

_KIND = re.compile(
    r"\.(?:pt|pth|ubj|bst|pkl|pickle|joblib|npz|h5|hdf5|keras|safetensors|msgpack|tar|nemo)$", re.IGNORECASE
)
_NAMED_KIND = re.compile(
    r"^(?:model|booster|xgb\w*|lgbm?\w*|checkpoint|ckpt)[-_.]?\d+\.(?:json|txt|bin|model|cbm)$",
    re.IGNORECASE,
)
_PART = re.compile(
    r"^(?:optimizer|scheduler|scaler|rng_state|random_states|training_args|trainer_state|tokenizer)"
    r"|\d+[-_]of[-_]\d+|(?:^|[-_.])(?:part|shard|rank|mp_rank)[-_.]?\d+",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    r"(?:\.(?:tmp|temp|part|partial|incomplete|writing)(?:[-_.]?\w*)?|~)$", re.IGNORECASE
)


def single_file(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every file whose name says that it is a checkpoint by itself."""
    for name, file in directory.files.items():
        if name.startswith(".") or not (_KIND.search(name) or _NAMED_KIND.match(name)):
            continue
        if _PART.search(name) or _UNFINISHED.search(name):
            continue
        why = "it is empty" if file.size == 0 else ""
        yield Checkpoint(
            path=directory.join(name),
            step=step_in(name),
            complete=not why,
            why=why,
            framework=NAME,
            time=file.updated,
        )
