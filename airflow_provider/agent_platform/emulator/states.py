"""The states of a job, by the API's numbers, and which of them are ends."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """``google.cloud.aiplatform.v1.JobState``."""

    UNSPECIFIED = 0
    QUEUED = 1
    PENDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLING = 6
    CANCELLED = 7
    PAUSED = 8
    EXPIRED = 9
    UPDATING = 10
    PARTIALLY_SUCCEEDED = 11


ENDS = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED, State.PARTIALLY_SUCCEEDED})


def state_name(state: int) -> str:
    """``JOB_STATE_RUNNING`` for 3."""
    return f"JOB_STATE_{State(state).name}"
