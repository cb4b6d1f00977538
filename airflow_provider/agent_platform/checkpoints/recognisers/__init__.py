"""Which checkpoints a listing holds, and which are complete: pure functions over names, sizes and times.

One module a framework. No I/O: the few small markers that have to be read come through a function that the
caller gives.
"""

from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint, StoredObject
from airflow_provider.agent_platform.checkpoints.recognisers.recognise import (
    newest_complete,
    recognise,
    recognise_tree,
)
from airflow_provider.agent_platform.checkpoints.recognisers.registry import BUILTIN, Recogniser, load
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory, Listing, build

__all__ = [
    "BUILTIN",
    "Checkpoint",
    "Directory",
    "Listing",
    "Recogniser",
    "StoredObject",
    "build",
    "load",
    "newest_complete",
    "recognise",
    "recognise_tree",
    "step_in",
]
