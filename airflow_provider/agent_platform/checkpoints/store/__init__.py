"""Where checkpoints lie, and what a look at them gives: `scan`, `scan_trials`, `discard_incomplete`.

Blocking, with deadlines: never call it in an event loop (`checkpoints.watch` uses a thread). Which checkpoint
is complete is not decided here but in `checkpoints.recognisers`; what follows from it, in `policy`.
"""

from airflow_provider.agent_platform.checkpoints.store.base import CheckpointStore, CheckpointStoreError
from airflow_provider.agent_platform.checkpoints.store.discard import discard_incomplete
from airflow_provider.agent_platform.checkpoints.store.found import CheckpointScan, FoundCheckpoint
from airflow_provider.agent_platform.checkpoints.store.scan import scan, scan_trials

__all__ = [
    "CheckpointScan",
    "CheckpointStore",
    "CheckpointStoreError",
    "FoundCheckpoint",
    "discard_incomplete",
    "scan",
    "scan_trials",
]
