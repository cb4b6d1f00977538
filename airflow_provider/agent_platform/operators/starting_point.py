"""Where a new job starts from: the newest complete checkpoint, when the user's ``resume`` mode lets it count.

In: the book and the request. Out: a :class:`StartingPoint`. Looking at the storage may fail: then progress is unknown,
the log says why once, and training is submitted all the same, unless the user insisted on resuming.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pendulum

from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, FoundCheckpoint
from airflow_provider.agent_platform.operators.arguments import ResumeMode
from airflow_provider.agent_platform.operators.reader import Book
from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP, Step
from airflow_provider.agent_platform.policy.states import is_success

ENV_RESUME_FROM = "AIRFLOW_RESUME_FROM"
ENV_RESUME_STEP = "AIRFLOW_RESUME_STEP"
ENV_RUN_INDEX = "AIRFLOW_RUN_INDEX"

Scanner = Callable[[pendulum.DateTime | None], CheckpointScan]
"""Looks at the base directory; checkpoints written before the given time do not count."""


class ResumeRefusedError(ValueError):
    """``resume="always"`` was asked for and cannot be honoured. Nothing was submitted."""


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """What is there to start from, now.

    :param checkpoint: the newest complete one that counts; None starts from nothing.
    :param scan: the look it comes from; None when there was no need to look.
    :param fresh: by the ``resume`` mode, earlier checkpoints do not count.
    """

    checkpoint: FoundCheckpoint | None = None
    scan: CheckpointScan | None = None
    fresh: bool = False

    @property
    def step(self) -> Step:
        """The newest complete step for the ledger: a number, None for "there is none", or unknown."""
        if self.scan is None:
            return None
        if not self.scan.known:
            return UNKNOWN_STEP
        if self.scan.newest is None:
            return None
        return UNKNOWN_STEP if self.scan.newest.step is None else self.scan.newest.step

    @property
    def label(self) -> int | Literal["unknown"] | None:
        """The value of the label ``airflow-resume-step``."""
        step = self.step
        if step is None or isinstance(step, int):
            return step
        return "unknown"

    def environment(self, run_index: int) -> dict[str, str]:
        """Return what the training code is told.

        :param run_index: how many jobs of this epoch came before.
        """
        environment = {ENV_RUN_INDEX: str(run_index)}
        if self.checkpoint is not None:
            environment[ENV_RESUME_FROM] = self.checkpoint.uri
            if self.checkpoint.step is not None:
                environment[ENV_RESUME_STEP] = str(self.checkpoint.step)
        return environment

    def arguments(self, resume_args: Sequence[str]) -> list[str]:
        """Return the user's ``resume_args`` with ``{uri}`` and ``{step}`` replaced; none without a checkpoint."""
        if self.checkpoint is None:
            return []
        step = "" if self.checkpoint.step is None else str(self.checkpoint.step)
        # Plain replacement: arguments are no format strings, a brace in them must stay.
        return [text.replace("{uri}", self.checkpoint.uri).replace("{step}", step) for text in resume_args]


def counts_since(book: Book, mode: ResumeMode) -> tuple[bool, pendulum.DateTime | None]:
    """Return whether checkpoints from before this epoch are to be ignored, and since when they count.

    A training that began anew in a used directory must not resume from the one before it, nor take its last step for
    progress of its own.

    :param book: all jobs of the task instance.
    :param mode: the user's ``resume``.
    :return: (fresh, time). Fresh without a time: no job of this epoch exists yet, so nothing counts.
    """
    if mode == "always":
        return False, None
    first = book.current[0] if book.current else None
    if mode == "never":
        return True, first.create_time if first else None
    if first is not None:
        # The epoch's first job started from nothing: either nothing was there, or it did not count.
        return (True, first.create_time) if first.resume_step is None else (False, None)
    previous = book.previous
    return (previous is not None and is_success(previous.state)), None


def starting_point(book: Book, mode: ResumeMode, look: Scanner) -> StartingPoint:
    """Look at the checkpoints and say where the next job of this epoch starts.

    :param book: all jobs of the task instance.
    :param mode: the user's ``resume``.
    :param look: scans the base directory.
    """
    fresh, since = counts_since(book, mode)
    if mode == "never" or (fresh and since is None):
        return StartingPoint(fresh=True)
    scan = look(since)
    return StartingPoint(checkpoint=scan.newest, scan=scan, fresh=fresh)


def require_known(point: StartingPoint, mode: ResumeMode) -> None:
    """Refuse a submit that cannot resume though it must. Only a submit: how the last job ended is told without it.

    :param point: where the job would start.
    :param mode: the user's ``resume``.
    :raises ResumeRefusedError: ``resume="always"``, and the storage cannot be read.
    """
    scan = point.scan
    if mode == "always" and scan is not None and not scan.known and scan.newest is None:
        raise ResumeRefusedError(
            f'resume="always", but the checkpoints cannot be read: {scan.problem}. Nothing was submitted. '
            'Give the task access to base_output_directory, or set resume="retries" to train from the start instead.'
        )
