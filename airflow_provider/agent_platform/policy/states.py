"""
The states of a job: which are ends, which are waits.

Enters: the number the API gives. Leaves: a name, and what may be concluded from it. Not a state machine: the
platform moves jobs, we only read them. A number we do not know is live, never an end and never a success: a
new state of the service must not end a task.
"""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """``google.cloud.aiplatform.v1.JobState``, by the numbers of the API."""

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


ENDS = frozenset(
    {
        JobState.SUCCEEDED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.EXPIRED,
        JobState.PARTIALLY_SUCCEEDED,
    }
)
WAITING = frozenset({JobState.QUEUED, JobState.PENDING})

_PREFIX = "JOB_STATE_"


def state_name(value: int) -> str:
    """
    Name a state as the API does.

    :param value: the number of the API; unknown numbers are allowed.
    :return: ``JOB_STATE_RUNNING``; for an unknown number ``JOB_STATE_<n>``.
    """
    try:
        return _PREFIX + JobState(value).name
    except ValueError:
        return f"{_PREFIX}{value}"


def state_of(name: str) -> int:
    """
    Read a state as a person or an API writes it.

    :param name: ``FAILED``, ``JOB_STATE_FAILED``, ``failed`` or the number.
    :return: the number of the API; a number that is not in the table is returned as it is.
    :raises ValueError: when it is neither a name of the table nor a number; names the allowed ones.
    """
    text = name.strip().upper().removeprefix(_PREFIX)
    if text.isdecimal():
        return int(text)
    try:
        return int(JobState[text])
    except KeyError:
        allowed = ", ".join(state.name for state in JobState)
        raise ValueError(f"state {name!r} is not a job state; give one of {allowed}") from None


def is_end(value: int) -> bool:
    """Whether the job will never change its state again. PAUSED is not an end; unknown numbers are not."""
    return value in ENDS


def is_live(value: int) -> bool:
    """Whether the job may still run, and cost money. The opposite of :func:`is_end`."""
    return value not in ENDS


def is_waiting(value: int) -> bool:
    """Whether the job waits to start: QUEUED (quota) or PENDING (capacity, provisioning)."""
    return value in WAITING


def is_success(value: int) -> bool:
    """Whether the job did what was asked. SUCCEEDED alone; PARTIALLY_SUCCEEDED is not."""
    return value == JobState.SUCCEEDED


def has_failed(value: int) -> bool:
    """Whether the job ended in any other way than SUCCEEDED."""
    return is_end(value) and not is_success(value)
