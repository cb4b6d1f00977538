"""What a look at a base directory gives: plain records for the lifecycle, the sensor and the watch."""

from __future__ import annotations

from dataclasses import dataclass

import pendulum


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundCheckpoint:
    """A checkpoint with its address.

    :param uri: what the training code is given, without a trailing slash.
    :param step: None when the layout does not tell.
    :param framework: the layout, e.g. ``hugging_face``.
    :param complete: whether a training can be resumed from it.
    :param why: why not, for a person; "" when it is complete.
    :param time: when it was last written; None when the store does not say.
    :param parts: the files and directories that make it up, relative to ``<base>/checkpoints/`` (or the
        trial's).
    """

    uri: str
    step: int | None
    framework: str
    complete: bool = True
    why: str = ""
    time: pendulum.DateTime | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointScan:
    """What was found below ``<base>/checkpoints/``.

    :param newest: the complete checkpoint to start from; None when there is none, or when nothing could be
        seen.
    :param incomplete_newer: those that are further than `newest` but not complete, newest first, with the
        reason of each.
    :param known: False when it cannot be told how far the training is: progress is then unknown, which is
        neither "none" nor "some".
    :param problem: why it is not known; None when it is. To be logged once.
    :param objects: how many objects were listed.
    """

    newest: FoundCheckpoint | None = None
    incomplete_newer: tuple[FoundCheckpoint, ...] = ()
    known: bool = True
    problem: str | None = None
    objects: int = 0

    @property
    def step(self) -> int | None:
        """The step of `newest`; None when there is none or it is not told."""
        return self.newest.step if self.newest else None

    @property
    def step_known(self) -> bool:
        """Whether `step` can be compared: None then means that there is no checkpoint, and not that nobody
        knows."""
        return self.known and not (self.newest is not None and self.newest.step is None)

    @property
    def latest_time(self) -> pendulum.DateTime | None:
        """When the newest complete checkpoint was written."""
        return self.newest.time if self.newest else None
