"""Look at a base directory once: list, recognise, choose, and say what could not be told.

Never raises because of what is in a bucket or because it cannot be reached: that becomes `known=False` and a
`problem`, since a training must be submitted even when nobody may look at its checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import pendulum

from airflow_provider.agent_platform.checkpoints.recognisers import (
    Checkpoint,
    Directory,
    Listing,
    Recogniser,
    build,
    newest_complete,
    recognise_tree,
)
from airflow_provider.agent_platform.checkpoints.store.base import (
    MAX_OBJECTS,
    CheckpointStore,
    CheckpointStoreError,
    ClientFactory,
    utc_now,
)
from airflow_provider.agent_platform.checkpoints.store.found import CheckpointScan, FoundCheckpoint

CHECKPOINTS = "checkpoints"
"""``AIP_CHECKPOINT_DIR`` is ``<base>/checkpoints/``, or ``<base>/<trial>/checkpoints/`` for a trial."""

BACKWARDS_SECONDS = 120.0
"""A lower step that was written later by more than this means that the training began again."""

MOST_NAMED = 20
"""So many incomplete checkpoints are named; a directory of ten thousand leftovers must not fill the log."""


def scan(
    base_output_directory: str | None,
    client_factory: ClientFactory | None = None,
    *,
    recognisers: Sequence[str | Recogniser] = (),
    since: pendulum.DateTime | None = None,
    max_objects: int = MAX_OBJECTS,
    now: Callable[[], pendulum.DateTime] = utc_now,
    sleep: Callable[[float], None] = time.sleep,
) -> CheckpointScan:
    """Look below ``<base>/checkpoints/`` and return the newest complete checkpoint and what is further but
    incomplete.

    Blocking: up to four minutes for a slow store. Call it in a thread from async code.

    :param base_output_directory: ``gs://bucket/path`` or a local path; None gives an unknown scan.
    :param client_factory: makes the Cloud Storage client (`TrainingJobHook.storage_client`).
    :param recognisers: the user's own, as functions or dotted paths, asked before the built-in ones.
    :param since: ignore what was last written before: a training that begins anew in a used directory must
        not resume from the one before it.
    :param max_objects: give up (unknown) when there are more.
    """
    if not base_output_directory:
        return CheckpointScan(
            known=False, problem="there is no base_output_directory to look for checkpoints in"
        )
    try:
        store = CheckpointStore.for_uri(
            base_output_directory, client_factory, now=now, sleep=sleep, max_objects=max_objects
        )
        reader = _Reader(store, CHECKPOINTS)
        root, count = build(store.list(CHECKPOINTS), Listing(reader.read, atomic_rename=store.atomic_rename))
        return _judge(store, CHECKPOINTS, root, count, recognisers, since, reader)
    except CheckpointStoreError as error:
        return CheckpointScan(known=False, problem=str(error))


def scan_trials(
    base_output_directory: str,
    client_factory: ClientFactory | None = None,
    *,
    recognisers: Sequence[str | Recogniser] = (),
    since: pendulum.DateTime | None = None,
    max_objects: int = MAX_OBJECTS,
    now: Callable[[], pendulum.DateTime] = utc_now,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, CheckpointScan]:
    """Look below ``<base>/<trial>/checkpoints/`` of every trial of a tuning job, with one listing.

    :return: trial id -> scan, for every trial that wrote anything there; see `scan` for the parameters.
    :raises CheckpointStoreError: the directory cannot be listed.
    """
    store = CheckpointStore.for_uri(
        base_output_directory, client_factory, now=now, sleep=sleep, max_objects=max_objects
    )
    reader = _Reader(store, "")
    root, count = build(store.list(""), Listing(reader.read, atomic_rename=store.atomic_rename))
    found = {}
    for trial, directory in root.directories.items():
        below = directory.directories.get(CHECKPOINTS)
        if trial.isdigit() and below is not None:
            found[trial] = _judge(store, "", below, count, recognisers, since, reader)
    return found


class _Reader:
    """Reads markers for the recognisers, and keeps what went wrong for the log."""

    def __init__(self, store: CheckpointStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.problems: list[str] = []

    def read(self, name: str) -> str | None:
        try:
            return self.store.read_small(f"{self.prefix}/{name}" if self.prefix else name)
        except CheckpointStoreError as error:
            self.problems.append(str(error))
            return None


def _judge(
    store: CheckpointStore,
    prefix: str,
    root: Directory,
    count: int,
    recognisers: Sequence[str | Recogniser],
    since: pendulum.DateTime | None,
    reader: _Reader,
) -> CheckpointScan:
    """Choose among the checkpoints of one tree, and say what is doubtful about the choice."""
    everything = recognise_tree(root, recognisers=recognisers)
    checkpoints = [
        item for item in everything if since is None or item.time is None or item.time >= since.timestamp()
    ]
    newest = newest_complete(checkpoints)
    newer = [item for item in checkpoints if not item.complete and _is_further(item, newest)]
    newer.sort(key=lambda item: (-1 if item.step is None else item.step, item.time or 0.0), reverse=True)
    problem = None
    if any(item.uncertain for item in newer):
        unsure = next(item for item in newer if item.uncertain)
        problem = (reader.problems or [f"{unsure.path}: {unsure.why}"])[0]
    elif newest and (later := _later_but_lower(checkpoints, newest)):
        problem = (
            f"steps go backwards: {later.path} (step {later.step}) was written after {newest.path} "
            f"(step {newest.step}), "
            "so another training uses or used this directory"
        )
    elif not everything and any(True for _ in root.walk()):
        problem = (
            f"none of the {count:,} objects below {store.uri(prefix)} is a checkpoint of a layout known here"
        )

    def found(item: Checkpoint) -> FoundCheckpoint:
        return FoundCheckpoint(
            uri=store.uri(f"{prefix}/{item.path}"),
            step=item.step,
            framework=item.framework,
            complete=item.complete,
            why=item.why,
            time=None if item.time is None else pendulum.from_timestamp(item.time),
            parts=item.parts,
        )

    return CheckpointScan(
        newest=found(newest) if newest else None,
        incomplete_newer=tuple(found(item) for item in newer[:MOST_NAMED]),
        known=problem is None,
        problem=problem,
        objects=count,
    )


def _is_further(item: Checkpoint, newest: Checkpoint | None) -> bool:
    if newest is None:
        return True
    if item.step is not None and newest.step is not None:
        return item.step > newest.step
    return item.time is not None and newest.time is not None and item.time > newest.time


def _later_but_lower(checkpoints: Iterable[Checkpoint], newest: Checkpoint) -> Checkpoint | None:
    """Return a complete checkpoint with a lower step that was written clearly later than the highest one."""
    if newest.step is None or newest.time is None:
        return None
    later = [
        item
        for item in checkpoints
        if item.complete
        and item.step is not None
        and item.step < newest.step
        and item.time is not None
        and item.time > newest.time + BACKWARDS_SECONDS
    ]
    return max(later, key=lambda item: item.time or 0.0, default=None)
