"""From a listing to its checkpoints: walks the tree, asks every recogniser, settles who owns what.

Objects enter, checkpoints leave, sorted from the oldest step to the newest. Nothing is read but through the
`read` function that the caller gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider.agent_platform.checkpoints.recognisers import plain
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint, StoredObject
from airflow_provider.agent_platform.checkpoints.recognisers.registry import BUILTIN, Recogniser, load
from airflow_provider.agent_platform.checkpoints.recognisers.single_file import NAME as SINGLE_FILE
from airflow_provider.agent_platform.checkpoints.recognisers.steps import is_container, step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory, Listing, ReadMarker, build

DEEPEST = 12
"""Directories below this are not looked at: no trainer nests its checkpoints so deep."""

SAME_MOMENT_SECONDS = 120.0
"""A checkpoint without a step (``last.ckpt``) goes before one with a step only when it is newer by more than
this: trainers write both at the same moment, and the step is worth knowing."""


def recognise(
    objects: Iterable[StoredObject],
    read: ReadMarker | None = None,
    *,
    recognisers: Sequence[str | Recogniser] = (),
    atomic_rename: bool = False,
) -> list[Checkpoint]:
    """Return every checkpoint in a listing, complete or not, from the oldest step to the newest.

    :param objects: the listing, with names relative to the listed directory; consumed once, in any order.
    :param read: gives the text of a small marker file by its name, None when it cannot be read. At most 64
        calls.
    :param recognisers: the user's own, asked before ours: functions, or dotted paths of functions.
    :param atomic_rename: True for a local disk, False for Cloud Storage, where no directory can be renamed at
        once.
    :raises ImportError: a dotted path cannot be imported.
    :raises TypeError: it does not name a function.
    """
    root, _ = build(objects, Listing(read, atomic_rename=atomic_rename))
    return recognise_tree(root, recognisers=recognisers)


def recognise_tree(root: Directory, *, recognisers: Sequence[str | Recogniser] = ()) -> list[Checkpoint]:
    """Return every checkpoint of a tree that is already built: see `recognise`."""
    asked = (*(load(item) for item in recognisers), *BUILTIN)
    return sorted(_look(root, asked, 0), key=_order)


def newest_complete(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the complete checkpoint that a new training should start from, or None.

    The highest step wins, then the latest time. One whose step is unknown wins when it is clearly newer.
    """
    complete = [checkpoint for checkpoint in checkpoints if checkpoint.complete]
    stepped = max((item for item in complete if item.step is not None), key=_order, default=None)
    stepless = max((item for item in complete if item.step is None), key=_order, default=None)
    if stepped is None or stepless is None:
        return stepped or stepless
    if stepped.time is None or stepless.time is None:
        return stepped
    return stepless if stepless.time > stepped.time + SAME_MOMENT_SECONDS else stepped


def _order(checkpoint: Checkpoint) -> tuple[int, float, str]:
    step = -1 if checkpoint.step is None else checkpoint.step
    return step, checkpoint.time if checkpoint.time is not None else float("-inf"), checkpoint.path


def _look(directory: Directory, asked: Sequence[Recogniser], depth: int) -> list[Checkpoint]:
    """Return the checkpoints at and below a directory."""
    found: list[Checkpoint] = []
    rest = directory
    for recogniser in asked:
        taken: set[str] = set()
        for checkpoint in recogniser(rest):
            claims = _claims(directory, checkpoint)
            if not taken.isdisjoint(claims):
                continue  # on Cloud Storage "x.ckpt" and "x.ckpt/..." can both be there: the first one owns the name
            found.append(_dated(directory, checkpoint, claims))
            taken |= claims
        if taken:
            # Who is asked later does not see what is claimed: no part of a checkpoint is taken for another
            # one.
            rest = rest.without(taken)
    if depth >= DEEPEST:
        return found
    for child in rest.directories.values():
        found += _below(child, _look(child, asked, depth + 1))
    return found


def _below(child: Directory, inner: list[Checkpoint]) -> list[Checkpoint]:
    """Settle a sub-directory nobody claimed: a container of checkpoints, or one itself that lacks its marker.

    ``checkpoint-500/model.pt`` without a marker may be half of a checkpoint, so the file in it must not be
    taken for a whole one. ``trial-1/`` and ``run-3/`` hold checkpoints of their own.
    """
    step = step_in(child.name)
    if step is None or is_container(child.name) or "checkpoints" in child.directories:
        return inner
    own = [item for item in inner if item.framework != SINGLE_FILE and item.step is not None]
    if own:
        return own
    return [replace(plain.unmarked(child, step), time=child.newest(), parts=(child.path,))]


def _claims(directory: Directory, checkpoint: Checkpoint) -> frozenset[str]:
    if checkpoint.claims is not None:
        return checkpoint.claims
    inside = checkpoint.path[len(directory.prefix) :]
    return frozenset({inside.partition("/")[0]})


def _dated(directory: Directory, checkpoint: Checkpoint, claims: frozenset[str]) -> Checkpoint:
    """Fill in which files belong to the checkpoint, and when one of them was last written."""
    time = checkpoint.time
    if time is None:
        times = [directory.files[name].updated for name in claims if name in directory.files]
        times += [directory.directories[name].newest() for name in claims if name in directory.directories]
        time = max((time for time in times if time is not None), default=None)
    return Checkpoint(  # `dataclasses.replace` takes five times as long, ten thousand times
        path=checkpoint.path,
        step=checkpoint.step,
        complete=checkpoint.complete,
        framework=checkpoint.framework,
        why=checkpoint.why,
        time=time,
        uncertain=checkpoint.uncertain,
        claims=claims,
        parts=tuple(sorted([directory.prefix + name for name in claims])),
    )
