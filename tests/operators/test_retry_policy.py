"""Our decision becomes Airflow's."""

from __future__ import annotations

import datetime
import pickle

import pendulum
import pytest
from airflow.sdk.definitions.retry_policy import RetryAction, RetryDecision

from airflow_provider.agent_platform.exceptions import CrashError, TrainingJobError
from airflow_provider.agent_platform.operators.retry_policy import TrainingRetryPolicy
from airflow_provider.agent_platform.policy.decide import Action, Decision
from airflow_provider.agent_platform.policy.failures import FailureKind

POLICY = TrainingRetryPolicy()


def an_error(
    action: Action, delay: pendulum.Duration | None = None, reason: str = "because"
) -> TrainingJobError:
    decision = Decision(action=action, kind=FailureKind.CRASH, reason=reason, delay=delay)
    return CrashError("x", decision=decision)


def test_fail_is_fail_with_our_reason() -> None:
    assert POLICY.evaluate(an_error(Action.FAIL), 1, 9) == RetryDecision(
        action=RetryAction.FAIL, retry_delay=None, reason="because"
    )


def test_retry_is_retry_with_our_delay_and_reason() -> None:
    decision = POLICY.evaluate(an_error(Action.RETRY, pendulum.duration(seconds=90)), 1, 9)

    assert decision == RetryDecision(
        action=RetryAction.RETRY, retry_delay=datetime.timedelta(seconds=90), reason="because"
    )


@pytest.mark.parametrize(
    "error", [CrashError("no decision"), ValueError("x"), KeyboardInterrupt(), SystemExit(1)]
)
def test_an_error_without_a_decision_is_airflows_business(error: BaseException) -> None:
    assert POLICY.evaluate(error, 1, 9).action is RetryAction.DEFAULT


@pytest.mark.parametrize("action", [Action.SUCCEED, Action.REQUEUE])
def test_what_is_never_raised_is_left_to_airflow(action: Action) -> None:
    assert POLICY.evaluate(an_error(action), 1, 9) == RetryDecision.default()


def test_a_reason_fits_the_column_it_is_stored_in() -> None:
    reason = POLICY.evaluate(an_error(Action.RETRY, reason="r" * 900), 1, 9).reason

    assert reason is not None
    assert reason == "r" * 500
    assert POLICY.evaluate(an_error(Action.FAIL, reason="r" * 900), 1, 9).reason == "r" * 500


def test_the_policy_has_no_settings() -> None:
    again = TrainingRetryPolicy.deserialize(POLICY.serialize())

    assert POLICY.serialize() == {}
    assert again == POLICY
    assert hash(again) == hash(POLICY)
    assert object() != POLICY
    assert pickle.loads(pickle.dumps(POLICY)) == POLICY
