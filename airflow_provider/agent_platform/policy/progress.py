"""
Did a job get further than where it started? Advanced, not advanced, or unknown.

Enters: checkpoint steps as far as they are known. Leaves: one of three values. Unknown is a value of its
own: it is never taken for "no checkpoint" (that would charge work that may have been done) nor for progress
(that would be free for ever).
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias


class Unknown(Enum):
    """The type of :data:`UNKNOWN_STEP`, so that a checker tells it from None."""

    UNKNOWN = "unknown"


UNKNOWN_STEP: Literal[Unknown.UNKNOWN] = Unknown.UNKNOWN
"""The step is not known: the storage did not answer. None differs: there is no checkpoint, that is known."""

Step: TypeAlias = "int | Literal[Unknown.UNKNOWN] | None"
"""A checkpoint's step; None: there is no complete checkpoint; UNKNOWN_STEP: could not be found out."""


class Progress(str, Enum):
    """Whether a job advanced the newest complete checkpoint."""

    ADVANCED = "ADVANCED"
    NOT_ADVANCED = "NOT_ADVANCED"
    UNKNOWN = "UNKNOWN"


def progress_between(resume_step: Step, reached_step: Step, *, floor: int | None = None) -> Progress:
    """
    Compare where a job started with what is there after it.

    :param resume_step: the newest complete step when the job was submitted.
    :param reached_step: the newest complete step after its end.
    :param floor: the highest step that was there before the job by what earlier jobs tell; a checkpoint that
        was deleted and written again is no progress.
    """
    if isinstance(reached_step, Unknown):
        return Progress.UNKNOWN
    if reached_step is None:
        return Progress.NOT_ADVANCED
    known = [step for step in (resume_step, floor) if isinstance(step, int)]
    if known and reached_step <= max(known):
        return Progress.NOT_ADVANCED
    # Somebody got further; whether this job did cannot be said when its own start is not known.
    return Progress.UNKNOWN if isinstance(resume_step, Unknown) else Progress.ADVANCED
