"""A user's rules are checked when they are written, and match what they say."""

from __future__ import annotations

import copy
import datetime
import pickle
from typing import Any

import pendulum
import pytest

from airflow_provider.agent_platform.policy.kinds import FailureKind
from airflow_provider.agent_platform.policy.rules import FailureRule, first_matching
from tests.policy.builders import an_outcome, exited


def test_a_rule_takes_kinds_by_member_and_by_name() -> None:
    rule = FailureRule(kinds=["CRASH", FailureKind.INTERNAL])

    assert rule.kinds == (FailureKind.CRASH, FailureKind.INTERNAL)
    assert rule.action == "retry"
    assert rule.delay is None
    assert rule.exit_codes == ()
    assert rule.message is None


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [(30, 30), (0, 0), (1.5, 1.5), (datetime.timedelta(minutes=2), 120), (pendulum.duration(hours=1), 3600)],
)
def test_a_delay_is_seconds_or_a_timedelta(delay: Any, seconds: float) -> None:
    rule = FailureRule(kinds=["CRASH"], delay=delay)

    assert isinstance(rule.delay, pendulum.Duration)
    assert rule.delay.total_seconds() == seconds


CLEAR_ERRORS: list[tuple[dict[str, Any], str]] = [
    (
        {},
        "FailureRule has no condition and would match every failure; give at least one of kinds=[...], "
        "exit_codes=[...], message='...'",
    ),
    (
        {"kinds": []},
        "FailureRule has no condition and would match every failure; give at least one of kinds=[...], "
        "exit_codes=[...], message='...'",
    ),
    ({"kinds": "CRASH"}, "FailureRule.kinds is 'CRASH'; give a list, as in kinds=[FailureKind.CRASH]"),
    ({"kinds": None}, "FailureRule.kinds is None; give a list, as in kinds=[FailureKind.CRASH]"),
    ({"exit_codes": 75}, "FailureRule.exit_codes is 75; give a list, as in exit_codes=[75]"),
    (
        {"exit_codes": ["75"]},
        "FailureRule.exit_codes names '75'; an exit code of a failed process is a whole number from 1 to 255",
    ),
    (
        {"exit_codes": [0]},
        "FailureRule.exit_codes names 0; an exit code of a failed process is a whole number from 1 to 255",
    ),
    (
        {"exit_codes": [256]},
        "FailureRule.exit_codes names 256; an exit code of a failed process is a whole number from 1 to 255",
    ),
    (
        {"exit_codes": [True]},
        "FailureRule.exit_codes names True; an exit code of a failed process is a whole number from 1 to 255",
    ),
    ({"message": ""}, "FailureRule.message is ''; give a regular expression as a non-empty string"),
    ({"message": 7}, "FailureRule.message is 7; give a regular expression as a non-empty string"),
    (
        {"message": "(oops"},
        "FailureRule.message '(oops' is not a regular expression: missing ), unterminated "
        "subpattern at position 0; escape special characters with a backslash",
    ),
    (
        {"kinds": ["CRASH"], "action": "ignore"},
        "FailureRule.action is 'ignore'; give one of retry, requeue, fail",
    ),
    ({"kinds": ["CRASH"], "delay": -1}, "FailureRule.delay is -1; it cannot be negative"),
    (
        {"kinds": ["CRASH"], "delay": "5m"},
        "FailureRule.delay is '5m'; give a timedelta or a number of seconds",
    ),
    (
        {"kinds": ["CRASH"], "delay": True},
        "FailureRule.delay is True; give a timedelta or a number of seconds",
    ),
    (
        {"kinds": ["CRASH"], "delay": float("nan")},
        "FailureRule.delay is nan; give a timedelta or a number of seconds",
    ),
    (
        {"kinds": ["CRASH"], "action": "fail", "delay": 5},
        "FailureRule.delay has no meaning with action='fail'; leave it out",
    ),
]


@pytest.mark.parametrize(("fields", "message"), CLEAR_ERRORS)
def test_a_wrong_rule_says_which_field_and_what_is_allowed(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        FailureRule(**fields)

    assert str(error.value) == message


def test_an_unknown_kind_is_refused_with_all_kinds() -> None:
    with pytest.raises(ValueError) as error:
        FailureRule(kinds=["OOM"])

    allowed = ", ".join(kind.value for kind in FailureKind)
    assert str(error.value) == f"FailureRule.kinds names 'OOM'; allowed are {allowed}"


@pytest.mark.parametrize("code", [1, 255])
def test_the_ends_of_the_range_of_exit_codes_are_allowed(code: int) -> None:
    assert FailureRule(exit_codes=[code]).exit_codes == (code,)


@pytest.mark.parametrize("kinds", [("CRASH",), {"CRASH"}, frozenset({FailureKind.CRASH})])
def test_any_collection_of_kinds_will_do(kinds: Any) -> None:
    assert FailureRule(kinds=kinds).kinds == (FailureKind.CRASH,)


def test_a_rule_can_be_copied_and_pickled() -> None:
    rule = FailureRule(kinds=["CRASH"], message="x+", delay=3, action="requeue")

    assert copy.deepcopy(rule) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert hash(rule) == hash(copy.copy(rule))


def test_all_given_conditions_must_hold() -> None:
    rule = FailureRule(kinds=["USER_CODE"], exit_codes=[75, 76], message=r"check\w+ saved")
    fits = {"kind": FailureKind.USER_CODE, "exit_code": 76, "message": "the\ncheckpoint saved"}

    assert rule.matches(**fits)  # type: ignore[arg-type]
    assert not rule.matches(**{**fits, "kind": FailureKind.CRASH})  # type: ignore[arg-type]
    assert not rule.matches(**{**fits, "exit_code": 77})  # type: ignore[arg-type]
    assert not rule.matches(**{**fits, "exit_code": None})  # type: ignore[arg-type]
    assert not rule.matches(**{**fits, "message": "nothing"})  # type: ignore[arg-type]


def test_a_success_matches_no_rule() -> None:
    assert not FailureRule(message=".*").matches(kind=None, exit_code=None, message="anything")


def test_the_first_rule_that_matches_wins() -> None:
    general = FailureRule(kinds=["USER_CODE"], action="fail")
    special = FailureRule(exit_codes=[75], action="requeue")

    assert first_matching([special, general], an_outcome(exited(75))) is special
    assert first_matching([general, special], an_outcome(exited(75))) is general
    assert first_matching([special, general], an_outcome(exited(1))) is general
    assert first_matching([special], an_outcome(exited(1))) is None
    assert first_matching([], an_outcome(exited(1))) is None
