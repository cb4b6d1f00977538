"""
A user's own lines before the default table: :class:`FailureRule`.

Enters: what a DAG author writes, checked when the DAG is parsed. Leaves: the action that replaces the
default one. A rule changes what is done, never what a failure is called: the kind stays the platform's
evidence.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pendulum

from airflow_provider.agent_platform.policy.kinds import FailureKind
from airflow_provider.agent_platform.policy.outcome import Outcome

RuleAction = Literal["retry", "requeue", "fail"]
_ACTIONS: tuple[str, ...] = get_args(RuleAction)


@dataclass(frozen=True, kw_only=True)
class FailureRule:
    """
    "When a job ends like this, do that"; the first rule that matches wins over the default table.

    All given conditions must hold; at least one must be given. ``FailureRule(exit_codes=[75],
    action="requeue")`` submits again, at no cost in ``retries``, whenever a replica exits with 75.

    What an action costs: "retry" is one Airflow retry and at least one charged run; "requeue" is a new job
    inside the same try and charges nothing; "fail" ends the task. ``max_jobs`` and the budget hold over
    every rule.

    :param kinds: kinds the outcome must be one of: members of :class:`FailureKind` or their names. Default:
        any.
    :param exit_codes: exit codes (0-255) the first failing replica must have ended with. Default: any.
    :param message: a regular expression searched in the platform's error text. Default: any.
    :param action: "retry", "requeue" or "fail".
    :param delay: how long to wait before the next job: a timedelta or seconds. Default: the kind's own
        back-off.
    :raises ValueError: when a field is not as described; names the field, the value and what is allowed.
    """

    kinds: Collection[FailureKind | str] = ()
    exit_codes: Collection[int] = ()
    message: str | None = None
    action: RuleAction = "retry"
    delay: datetime.timedelta | float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", _kinds(self.kinds))
        object.__setattr__(self, "exit_codes", _exit_codes(self.exit_codes))
        object.__setattr__(self, "delay", _delay(self.delay))
        _check_message(self.message)
        if self.action not in _ACTIONS:
            raise ValueError(f"FailureRule.action is {self.action!r}; give one of {', '.join(_ACTIONS)}")
        if not self.kinds and not self.exit_codes and self.message is None:
            raise ValueError(
                "FailureRule has no condition and would match every failure; "
                "give at least one of kinds=[...], exit_codes=[...], message='...'"
            )
        if self.action == "fail" and self.delay is not None:
            raise ValueError("FailureRule.delay has no meaning with action='fail'; leave it out")

    def matches(self, *, kind: FailureKind | None, exit_code: int | None, message: str) -> bool:
        """
        Whether this rule speaks about such an end.

        :param kind: the kind of the outcome; None is a success, which no rule matches.
        :param exit_code: exit code of the first failing replica, if the text gives one.
        :param message: the platform's error text.
        """
        if kind is None:
            return False
        if self.kinds and kind not in self.kinds:
            return False
        if self.exit_codes and exit_code not in self.exit_codes:
            return False
        return self.message is None or re.search(self.message, message) is not None


def _listed(name: str, value: object, example: str) -> tuple[object, ...]:
    # A bare string is a collection too, of its letters: the most likely slip, and a silent one.
    if isinstance(value, str) or not isinstance(value, Collection):
        raise ValueError(f"FailureRule.{name} is {value!r}; give a list, as in {name}=[{example}]")
    return tuple(value)


def _kinds(value: object) -> tuple[FailureKind, ...]:
    kinds = []
    for item in _listed("kinds", value, "FailureKind.CRASH"):
        try:
            kinds.append(FailureKind(item))
        except ValueError:
            allowed = ", ".join(kind.value for kind in FailureKind)
            raise ValueError(f"FailureRule.kinds names {item!r}; allowed are {allowed}") from None
    return tuple(kinds)


def _exit_codes(value: object) -> tuple[int, ...]:
    codes: list[int] = []
    for item in _listed("exit_codes", value, "75"):
        if isinstance(item, bool) or not isinstance(item, int) or not 1 <= item <= 255:
            raise ValueError(
                f"FailureRule.exit_codes names {item!r}; "
                "an exit code of a failed process is a whole number from 1 to 255"
            )
        codes.append(item)
    return tuple(codes)


def _check_message(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value:
        raise ValueError(f"FailureRule.message is {value!r}; give a regular expression as a non-empty string")
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(
            f"FailureRule.message {value!r} is not a regular expression: {error}; "
            "escape special characters with a backslash"
        ) from None


def _delay(value: object) -> pendulum.Duration | None:
    if value is None:
        return None
    if isinstance(value, datetime.timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        seconds = float(value)
    else:
        raise ValueError(f"FailureRule.delay is {value!r}; give a timedelta or a number of seconds")
    if seconds < 0:
        raise ValueError(f"FailureRule.delay is {value!r}; it cannot be negative")
    return pendulum.duration(seconds=seconds)


def first_matching(rules: Sequence[FailureRule], outcome: Outcome) -> FailureRule | None:
    """
    The rule that speaks about an outcome.

    :param rules: the task's ``failure_rules``, in their order.
    :param outcome: how a job ended.
    :return: the first that matches; None when none does, and for a success.
    """
    for rule in rules:
        if rule.matches(kind=outcome.kind, exit_code=outcome.exit_code, message=outcome.message):
            return rule
    return None
