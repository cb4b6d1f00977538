"""Which recognisers are asked, in which order, and how a user's own is found by its dotted path.

The order matters: who is asked first owns what it claims. Layouts with a marker of their own go before those
that only know a file's ending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from airflow_provider.agent_platform.checkpoints.recognisers.deepspeed import deepspeed
from airflow_provider.agent_platform.checkpoints.recognisers.hugging_face import hugging_face
from airflow_provider.agent_platform.checkpoints.recognisers.keras import keras
from airflow_provider.agent_platform.checkpoints.recognisers.lightning import lightning
from airflow_provider.agent_platform.checkpoints.recognisers.megatron import megatron
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.nemo import nemo
from airflow_provider.agent_platform.checkpoints.recognisers.orbax import orbax
from airflow_provider.agent_platform.checkpoints.recognisers.plain import plain
from airflow_provider.agent_platform.checkpoints.recognisers.single_file import single_file
from airflow_provider.agent_platform.checkpoints.recognisers.tensorflow import tensorflow
from airflow_provider.agent_platform.checkpoints.recognisers.torch_distributed import torch_distributed
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

Recogniser = Callable[[Directory], Iterable[Checkpoint]]
"""Gets one directory, yields the checkpoints directly in it. Called for every directory nobody has
claimed."""

BUILTIN: tuple[Recogniser, ...] = (
    plain,
    nemo,
    lightning,
    hugging_face,
    orbax,
    deepspeed,
    megatron,
    torch_distributed,
    tensorflow,
    keras,
    single_file,
)


def load(recogniser: str | Recogniser) -> Recogniser:
    """Return a recogniser: a function as it is, or the one that a dotted path names.

    :raises ImportError: the module or the name in it does not exist.
    :raises TypeError: it is not a function.
    """
    if not isinstance(recogniser, str):
        found: object = recogniser
    else:
        module, _, name = recogniser.replace(":", ".").rpartition(".")
        if not module:
            raise ImportError(
                f"checkpoint recogniser {recogniser!r} has no module: "
                "give a dotted path, e.g. 'my_package.checkpoints.recognise'"
            )
        found = getattr(import_module(module), name, None)
        if found is None:
            raise ImportError(f"checkpoint recogniser {recogniser!r}: {module} has no {name!r}")
    if not callable(found):
        raise TypeError(f"checkpoint recogniser {recogniser!r} is no function of one directory")
    return found
