"""Did a job get further? Unknown is an answer of its own."""

from __future__ import annotations

import pytest

from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP, Progress, Step, progress_between

A, N, U = Progress.ADVANCED, Progress.NOT_ADVANCED, Progress.UNKNOWN


@pytest.mark.parametrize(
    ("resume", "reached", "floor", "progress"),
    [
        (None, None, None, N),
        (None, 0, None, A),
        (None, 1, None, A),
        (5, 6, None, A),
        (5, 5, None, N),
        (5, 4, None, N),
        (5, None, None, N),
        (5, UNKNOWN_STEP, None, U),
        (None, UNKNOWN_STEP, 9, U),
        (UNKNOWN_STEP, UNKNOWN_STEP, None, U),
        (UNKNOWN_STEP, None, None, N),
        (UNKNOWN_STEP, 3, None, U),
        (UNKNOWN_STEP, 3, 3, N),
        (UNKNOWN_STEP, 4, 3, U),
        (None, 8, 8, N),
        (2, 8, 8, N),
        (2, 9, 8, A),
        (9, 9, 8, N),
        (0, 0, None, N),
    ],
)
def test_progress_is_what_is_there_against_what_was_there(
    resume: Step, reached: Step, floor: int | None, progress: Progress
) -> None:
    assert progress_between(resume, reached, floor=floor) is progress
