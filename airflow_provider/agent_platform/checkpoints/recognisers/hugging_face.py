"""Hugging Face Trainer: ``checkpoint-N/`` with weights and ``trainer_state.json``, which is written last.

The trainer's own auto-resume takes the highest N by name, complete or not, and breaks on one that is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import missing_shard, rewritten
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "hugging_face"

STATE = "trainer_state.json"

_NAME = re.compile(r"^(?:tmp-)?checkpoint-\d+$")
_EVIDENCE = re.compile(
    r"^(?:trainer_state\.json|training_args\.bin|config\.json|generation_config\.json|adapter_config\.json"
    r"|optimizer\.(?:pt|bin)|scheduler\.pt|scaler\.pt|rng_state(?:_\d+)?\.pth|tokenizer.*|special_tokens_map\.json"
    r"|(?:model|adapter_model)\b.*\.safetensors.*|(?:pytorch_|adapter_)model\b.*\.bin.*)$"
)
_WEIGHTS = re.compile(
    r"^(?:model|adapter_model|pytorch_model|pytorch_model_fsdp|tf_model|flax_model|diffusion_pytorch_model)"
    r"(?P<shard>-\d+-of-\d+)?(?:\.[\w]+)?\.(?:safetensors|bin|h5|msgpack)$"
)
_INDEX = re.compile(r"\.(?:safetensors|bin)\.index\.json$")


def hugging_face(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every ``checkpoint-N/`` with a file of the trainer in it, and others that hold its state."""
    for name, child in directory.directories.items():
        named = _NAME.match(name) is not None
        if STATE not in child.files and not (named and any(_EVIDENCE.match(file) for file in child.files)):
            continue
        if not named and any(_NAME.match(inner) for inner in child.directories):
            continue  # the trainer's output directory after its end: the checkpoints are inside
        step = step_in(name)
        why = "it has its temporary name" if name.startswith("tmp-") else _why(child, in_place=step is None)
        yield Checkpoint(path=child.path, step=step, complete=not why, why=why, framework=NAME)


def _why(child: Directory, *, in_place: bool) -> str:
    state = child.files.get(STATE)
    if state is None:
        return f"{STATE} is not there: it is written last"
    if state.size == 0:
        return f"{STATE} is empty"
    weights = [name for name in child.files if _WEIGHTS.match(name)]
    if any(child.files[name].size == 0 for name in weights):
        return "a file with weights is empty"
    if weights:
        if why := missing_shard(name for name in weights if "-of-" in name):
            return why
    elif any(_INDEX.search(name) for name in child.files):
        return "the index is there, but no shard of the weights"
    elif why := _sharded(child):
        return why
    return rewritten(child, STATE, in_place=in_place, counts=lambda path: path in weights)


def _sharded(child: Directory) -> str:
    """Judge weights that an FSDP or DeepSpeed engine saved in a directory of their own."""
    for name, engine in child.directories.items():
        if name.startswith("pytorch_model_fsdp"):
            return "" if ".metadata" in engine.files else f"{name}/.metadata is not there"
        if name.startswith("global_step"):
            return "" if "latest" in child.files else "latest is not there: DeepSpeed writes it last"
    return "no weights are there"
