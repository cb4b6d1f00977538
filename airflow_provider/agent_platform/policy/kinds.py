"""
The words of the failure table: kinds, phases, and what our own watching can add to a job's state.

Not here: the table itself (``failures``) and what follows from a kind (``actions``).
"""

from __future__ import annotations

from enum import Enum


class FailureKind(str, Enum):
    """
    How a job ended when it did not succeed. One exception class each (``exceptions``).

    The values are stored in XCom and in users' DAGs: a renamed one breaks both.
    """

    USER_CODE = "USER_CODE"
    CRASH = "CRASH"
    CANNOT_START = "CANNOT_START"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    OUT_OF_DISK = "OUT_OF_DISK"
    STOCKOUT = "STOCKOUT"
    PREEMPTED = "PREEMPTED"
    QUOTA = "QUOTA"
    INTERNAL = "INTERNAL"
    INVALID_REQUEST = "INVALID_REQUEST"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    CANCELLED = "CANCELLED"
    RUN_TIMEOUT = "RUN_TIMEOUT"
    QUEUE_TIMEOUT = "QUEUE_TIMEOUT"
    LOST = "LOST"
    UNKNOWN = "UNKNOWN"


class FailurePhase(str, Enum):
    """Where an error was met. The same code and text mean different things in different phases."""

    SUBMIT = "SUBMIT"
    """The create call was refused: there is no job."""
    JOB = "JOB"
    """The job ended; the error is the job's own ``error`` field."""
    POLL = "POLL"
    """A read failed: says nothing about the job, save that it is gone (404)."""


class EndedBy(str, Enum):
    """What our own watching knows beyond the job's state; the values are a trigger's event types."""

    QUEUE_TIMEOUT = "queue_timeout"
    RUN_TIMEOUT = "run_timeout"
    EXECUTION_TIMEOUT = "execution_timeout"
    LOST = "lost"
