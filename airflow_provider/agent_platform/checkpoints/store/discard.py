"""Move incomplete checkpoints aside, so that a framework that resumes from the highest name does not pick
one.

To ``<base>/discarded/<job>/``: copied first, compared, and only then deleted where they were. Nothing is ever
lost: when a copy fails, all of that checkpoint stays where it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

import pendulum

from airflow_provider.agent_platform.checkpoints.store.base import CheckpointStore, ClientFactory, utc_now
from airflow_provider.agent_platform.checkpoints.store.found import FoundCheckpoint
from airflow_provider.agent_platform.checkpoints.store.scan import CHECKPOINTS

DISCARDED = "discarded"


def discard_incomplete(
    base_output_directory: str,
    incomplete: Iterable[FoundCheckpoint],
    job: str,
    client_factory: ClientFactory | None = None,
    *,
    now: Callable[[], pendulum.DateTime] = utc_now,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Move incomplete checkpoints of ``<base>/checkpoints/`` to ``<base>/discarded/<job>/``.

    Blocking. Can be repeated after it was interrupted. Only call it when no job is writing there.

    :param incomplete: `CheckpointScan.incomplete_newer`; a complete one in it is refused.
    :param job: the name or id of the job that left them; its last part names the directory.
    :return: the new address of every checkpoint moved.
    :raises CheckpointStoreError: one could not be moved; those before it are moved, the rest is untouched.
    :raises ValueError: a checkpoint is complete.
    """
    store = CheckpointStore.for_uri(base_output_directory, client_factory, now=now, sleep=sleep)
    target = f"{DISCARDED}/{_directory_name(job)}"
    moved = []
    for checkpoint in incomplete:
        if checkpoint.complete:
            raise ValueError(f"{checkpoint.uri} is complete: only incomplete checkpoints are moved aside")
        for part in checkpoint.parts:
            # Empty directories too: a framework that resumes from the highest name would take one.
            names = [f"{part}/{item.name}" for item in store.list(f"{CHECKPOINTS}/{part}")] or [part]
            copied = [(name, store.copy(f"{CHECKPOINTS}/{name}", f"{target}/{name}")) for name in names]
            for name, mark in copied:
                store.remove(f"{CHECKPOINTS}/{name}", mark)
        inside = checkpoint.uri[len(store.uri(CHECKPOINTS)) :]
        moved.append(store.uri(f"{target}{inside}"))
    return moved


def _directory_name(job: str) -> str:
    """Return a directory name for a job: the last part of its resource name, with nothing in it that leads
    elsewhere."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", job.rstrip("/").rpartition("/")[2]).strip(".")
    return name or "unknown"
