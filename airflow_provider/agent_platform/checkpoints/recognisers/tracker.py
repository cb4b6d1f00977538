"""Layouts where one small file names the checkpoint that was finished last (DeepSpeed, Megatron).

What the tracker names, and what is older, was finished; what is newer was not. Every directory is looked at
as well, since the tracker is written by one rank for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from airflow_provider.agent_platform.checkpoints.recognisers.model import Checkpoint
from airflow_provider.agent_platform.checkpoints.recognisers.steps import step_in
from airflow_provider.agent_platform.checkpoints.recognisers.tree import Directory

Why = Callable[[Directory, "Directory | None"], str]
"""Says what is missing in a directory, given the one before it."""

LONGEST_NAME = 255


def tracked(
    directory: Directory,
    children: Sequence[Directory],
    tracker: str,
    framework: str,
    why: Why,
    named: Callable[[str], str] = lambda text: text,
) -> Iterator[Checkpoint]:
    """Yield one checkpoint for each of the children.

    :param named: turns the tracker's text into the name of a child.
    """
    text = directory.read(tracker)
    uncertain = tracker in directory.files and not _is_name(text)
    name = named((text or "").strip()) if _is_name(text) else ""
    reached = step_in(name)
    before: Directory | None = None
    for child in sorted(children, key=lambda child: (step_in(child.name) or 0, child.name)):
        step = step_in(child.name)
        if tracker not in directory.files:
            reason = f"{tracker} is not there: it is written last"
        elif uncertain:
            reason = f"{tracker} cannot be read, so nobody knows whether it is complete"
        elif child.name == name or (step is not None and reached is not None and step < reached):
            reason = why(child, before)
        else:
            reason = f"{tracker} names {name}: this one was not finished"
        yield Checkpoint(
            path=child.path,
            step=step,
            complete=not reason,
            why=reason,
            framework=framework,
            uncertain=uncertain,
        )
        before = child


def _is_name(text: str | None) -> bool:
    """Say whether a tracker's text can be a name: one printable line."""
    stripped = (text or "").strip()
    return 0 < len(stripped) <= LONGEST_NAME and stripped.isprintable()
