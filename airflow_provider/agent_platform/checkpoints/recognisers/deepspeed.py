"""DeepSpeed: ``latest`` names the directory ``global_stepN/``, which holds a file of every rank.

Only rank 0 writes ``latest``, when it has written its own files: another rank's may still be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import fewer_files, missing_rank
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.tracker import tracked
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "deepspeed"

TRACKER = "latest"

_STEP = re.compile(r"^global_step\d+$")
_MODEL = re.compile(r"^(?:zero_pp_rank_\d+_)?mp_rank_(\d+)_model_states\.pt$")
_OPTIMIZER = re.compile(r"^(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$")


def is_rank_file(name: str) -> bool:
    """Say whether a file is one that a rank of DeepSpeed writes."""
    if not name.endswith("_states.pt"):
        return False
    return _MODEL.match(name) is not None or _OPTIMIZER.match(name) is not None


def deepspeed(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every sub-directory that holds files of ranks, judged by what ``latest`` names."""
    children = [
        child
        for name, child in directory.directories.items()
        if _STEP.match(name) or any(is_rank_file(file) for file in child.files)
    ]
    if children:
        yield from tracked(directory, children, TRACKER, NAME, _why)


def _why(child: Directory, before: Directory | None) -> str:
    return ranks_missing(child) or fewer_files(child, before, is_rank_file)


def ranks_missing(child: Directory) -> str:
    """Name a rank of which a file is missing; "" when none is, as far as the names tell."""
    models = [int(found.group(1)) for name in child.files if (found := _MODEL.match(name))]
    if not models:
        return "no model states are there"
    if why := missing_rank(models, "model states file"):
        return why
    optimizers: dict[int, list[int]] = {}
    for name in child.files:
        if found := _OPTIMIZER.match(name):
            optimizers.setdefault(int(found.group(2)), []).append(int(found.group(1)))
    every = {rank for ranks in optimizers.values() for rank in ranks}
    for model, ranks in optimizers.items():
        if why := missing_rank({*ranks, max(every) + 1}, f"optimizer file (model rank {model})"):
            return why
    if optimizers and (absent := set(models) - set(optimizers)):
        return f"no optimizer file of model rank {min(absent)} is there"
    return ""
