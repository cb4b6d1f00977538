"""The plain layout: ``<anything>-<step>/`` with ``_SUCCESS`` or ``COMPLETE`` in it, written last.

For training code that has no framework to save for it (see docs/checkpoints.md). The marker alone decides;
what else is in the directory is the training's own affair.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.agent_platform.checkpoints.recognisers.evidence import rewritten
from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import is_container, step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

NAME = "plain"
MARKERS = ("_SUCCESS", "COMPLETE")


def plain(directory: Directory) -> Iterator[Checkpoint]:
    """Yield every sub-directory that holds a marker. One without is judged after everything else: see
    `unmarked`."""
    for name, child in directory.directories.items():
        marker = next((marker for marker in MARKERS if marker in child.files), None)
        if marker is None or is_container(name):
            continue
        step = step_in(name)
        if len(child.files) == 1 and not child.directories:
            why = f"there is nothing in it but {marker}"
        else:
            why = rewritten(child, marker, in_place=step is None)
        yield Checkpoint(path=child.path, step=step, complete=not why, why=why, framework=NAME)


def unmarked(child: Directory, step: int) -> Checkpoint:
    """Return the incomplete checkpoint that a directory with a step in its name and no marker is."""
    why = f"no {' or '.join(MARKERS)} in it, and no framework's own marker"
    if not child.files and not child.directories:
        why = "it is empty"
    return Checkpoint(path=child.path, step=step, complete=False, why=why, framework=NAME)
