"""
What each kind asks for by default: data.

Not here: rules, budgets, clocks and ceilings, which all may change it (``decide``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from tenacity.wait import wait_exponential

from airflow_provider.agent_platform.policy.kinds import FailureKind


class Action(str, Enum):
    """What is done after an end."""

    SUCCEED = "SUCCEED"
    REQUEUE = "REQUEUE"
    """A new job inside the same Airflow try, after a wait. Costs no retry."""
    RETRY = "RETRY"
    """A new job in a new Airflow try."""
    FAIL = "FAIL"


_BACKOFF = wait_exponential(multiplier=30, max=600)


@dataclass(frozen=True, kw_only=True)
class KindAction:
    """
    The default of one kind.

    :param action: what is done.
    :param free_if_advanced: whether it is a REQUEUE when the checkpoint advanced.
    :param waits: whether the job waits for capacity or quota, so that ``queue_timeout`` is what ends it.
    :param why: half a sentence for the reason.
    :param backoff: how the longest delay grows, in seconds; the delay itself is drawn between 0 and that (full jitter).
    """

    action: Action
    free_if_advanced: bool = False
    waits: bool = False
    why: str
    backoff: wait_exponential = _BACKOFF


ACTIONS: Mapping[FailureKind, KindAction] = MappingProxyType(
    {
        FailureKind.USER_CODE: KindAction(action=Action.FAIL, why="the training code would fail again"),
        FailureKind.CRASH: KindAction(action=Action.RETRY, why="a crash may be a matter of luck"),
        FailureKind.CANNOT_START: KindAction(
            action=Action.FAIL, why="the container cannot be started as it is"
        ),
        FailureKind.OUT_OF_MEMORY: KindAction(
            action=Action.REQUEUE,
            why="it needs a machine with more memory",
            backoff=wait_exponential(multiplier=5, max=60),
        ),
        FailureKind.OUT_OF_DISK: KindAction(
            action=Action.REQUEUE,
            why="it needs a machine with more disk",
            backoff=wait_exponential(multiplier=5, max=60),
        ),
        FailureKind.STOCKOUT: KindAction(
            action=Action.REQUEUE,
            waits=True,
            why="there was no capacity",
            backoff=wait_exponential(multiplier=60, max=900),
        ),
        FailureKind.QUOTA: KindAction(action=Action.REQUEUE, waits=True, why="the quota is used up"),
        FailureKind.PREEMPTED: KindAction(
            action=Action.RETRY,
            free_if_advanced=True,
            why="the Spot machines were taken away",
            backoff=wait_exponential(multiplier=10, max=300),
        ),
        FailureKind.INTERNAL: KindAction(
            action=Action.RETRY, free_if_advanced=True, why="the platform had an internal error"
        ),
        FailureKind.INVALID_REQUEST: KindAction(
            action=Action.FAIL, why="the platform would refuse the request again"
        ),
        FailureKind.PERMISSION_DENIED: KindAction(action=Action.FAIL, why="the permission is missing"),
        FailureKind.CANCELLED: KindAction(action=Action.FAIL, why="somebody cancelled the job"),
        FailureKind.RUN_TIMEOUT: KindAction(action=Action.FAIL, why="the job ran for as long as it may"),
        FailureKind.QUEUE_TIMEOUT: KindAction(action=Action.FAIL, why="the job did not start in time"),
        FailureKind.LOST: KindAction(
            action=Action.RETRY,
            why="the job is gone from the platform",
            backoff=wait_exponential(multiplier=10, max=300),
        ),
        FailureKind.UNKNOWN: KindAction(
            action=Action.RETRY,
            why="the platform's text says nothing that we know",
            backoff=wait_exponential(multiplier=60, max=600),
        ),
    }
)
"""One line per kind. OUT_OF_MEMORY and OUT_OF_DISK fail when there is no higher rung in ``machine_types``."""
