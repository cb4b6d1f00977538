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


@dataclass(frozen=True, kw_only=True)
class KindAction:
    """
    The default of one kind.

    :param action: what is done.
    :param advanced: what is done when the checkpoint advanced.
    :param waits: whether the job waits for capacity or quota, so that ``queue_timeout`` is what ends it.
    :param why: half a sentence for the reason.
    :param backoff: how the longest delay grows, in seconds; the delay itself is drawn between 0 and that
        (full jitter).
    """

    action: Action
    advanced: Action
    waits: bool = False
    why: str
    backoff: wait_exponential


def _always(
    action: Action, why: str, *, first: float = 30, most: float = 600, waits: bool = False
) -> KindAction:
    return KindAction(
        action=action,
        advanced=action,
        why=why,
        waits=waits,
        backoff=wait_exponential(multiplier=first, max=most),
    )


def _free_if_advanced(why: str, *, first: float, most: float) -> KindAction:
    return KindAction(
        action=Action.RETRY,
        advanced=Action.REQUEUE,
        why=why,
        backoff=wait_exponential(multiplier=first, max=most),
    )


ACTIONS: Mapping[FailureKind, KindAction] = MappingProxyType(
    {
        FailureKind.USER_CODE: _always(Action.FAIL, "the training code would fail again"),
        FailureKind.CRASH: _always(Action.RETRY, "a crash may be a matter of luck"),
        FailureKind.CANNOT_START: _always(Action.FAIL, "the container cannot be started as it is"),
        FailureKind.OUT_OF_MEMORY: _always(
            Action.REQUEUE, "it needs a machine with more memory", first=5, most=60
        ),
        FailureKind.OUT_OF_DISK: _always(
            Action.REQUEUE, "it needs a machine with more disk", first=5, most=60
        ),
        FailureKind.STOCKOUT: _always(
            Action.REQUEUE, "there was no capacity", first=60, most=900, waits=True
        ),
        FailureKind.QUOTA: _always(Action.REQUEUE, "the quota is used up", first=30, most=600, waits=True),
        FailureKind.PREEMPTED: _free_if_advanced("the Spot machines were taken away", first=10, most=300),
        FailureKind.INTERNAL: _free_if_advanced("the platform had an internal error", first=30, most=600),
        FailureKind.INVALID_REQUEST: _always(Action.FAIL, "the platform would refuse the request again"),
        FailureKind.PERMISSION_DENIED: _always(Action.FAIL, "the permission is missing"),
        FailureKind.CANCELLED: _always(Action.FAIL, "somebody cancelled the job"),
        FailureKind.RUN_TIMEOUT: _always(Action.FAIL, "the job ran for as long as it may"),
        FailureKind.QUEUE_TIMEOUT: _always(Action.FAIL, "the job did not start in time"),
        FailureKind.LOST: _always(Action.RETRY, "the job is gone from the platform", first=10, most=300),
        FailureKind.UNKNOWN: _always(Action.RETRY, "the platform's text says nothing that we know", first=60),
    }
)
"""One line per kind. OUT_OF_MEMORY and OUT_OF_DISK fail when there is no higher rung in ``machine_types``."""
