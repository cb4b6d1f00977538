"""One public class per kind, with data, that pickles."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from datetime import timedelta

import pytest
from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowException

from airflow_provider.agent_platform import exceptions
from airflow_provider.agent_platform.exceptions import ERROR_CLASSES, TrainingJobError, error_for
from airflow_provider.agent_platform.policy.decide import Action, Decision
from airflow_provider.agent_platform.policy.failures import FailureEvidence, FailureKind, classify
from airflow_provider.agent_platform.policy.states import JobState

PUBLIC = {
    FailureKind.USER_CODE: "UserCodeError",
    FailureKind.CRASH: "CrashError",
    FailureKind.CANNOT_START: "CannotStartError",
    FailureKind.OUT_OF_MEMORY: "OutOfMemoryError",
    FailureKind.OUT_OF_DISK: "OutOfDiskError",
    FailureKind.STOCKOUT: "StockoutError",
    FailureKind.PREEMPTED: "PreemptedError",
    FailureKind.QUOTA: "QuotaError",
    FailureKind.INTERNAL: "InternalError",
    FailureKind.INVALID_REQUEST: "InvalidRequestError",
    FailureKind.PERMISSION_DENIED: "PermissionDeniedError",
    FailureKind.CANCELLED: "CancelledError",
    FailureKind.RUN_TIMEOUT: "RunTimeoutError",
    FailureKind.QUEUE_TIMEOUT: "QueueTimeoutError",
    FailureKind.LOST: "JobLostError",
    FailureKind.UNKNOWN: "UnknownFailureError",
}
DECISION = Decision(action=Action.FAIL, kind=FailureKind.CRASH, reason="it ran 4 times")
CRASHED = classify(
    FailureEvidence(
        state=JobState.FAILED, code=3, message="The replica ps 0 exited with a non-zero status of 139."
    )
)


@pytest.mark.parametrize(("kind", "name"), PUBLIC.items())
def test_each_kind_has_its_class_by_its_public_name(kind: FailureKind, name: str) -> None:
    cls = getattr(exceptions, name)

    assert ERROR_CLASSES[kind] is cls
    assert issubclass(cls, TrainingJobError)
    assert cls("x").kind is kind


def test_the_classes_are_one_per_kind() -> None:
    assert set(ERROR_CLASSES) == set(FailureKind)


def test_they_are_errors_of_airflow() -> None:
    assert issubclass(TrainingJobError, AirflowException)


def test_the_tree_in_the_docstring_is_the_real_one() -> None:
    drawn = re.findall(r"── (\w+)", exceptions.__doc__ or "")
    real = [
        name
        for name, cls in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(cls, TrainingJobError)
    ]

    assert sorted(drawn) == sorted(real)


def full_error() -> TrainingJobError:
    return error_for(
        CRASHED, DECISION, job_name="projects/1", message="first line\nsecond", console_url="https://c"
    )


def test_an_error_carries_data_not_only_text() -> None:
    error = full_error()

    assert isinstance(error, exceptions.CrashError)
    assert str(error) == "first line\nsecond"
    assert (error.kind, error.job_name, error.replica, error.exit_code, error.error_code) == (
        FailureKind.CRASH,
        "projects/1",
        "ps 0",
        139,
        3,
    )
    assert error.decision is DECISION
    assert error.console_url == "https://c"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_pickles_with_all_its_data(protocol: int) -> None:
    error = full_error()
    vars(error)["__notes__"] = ["a note"]
    again = pickle.loads(pickle.dumps(error, protocol))

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)
    assert again.decision == DECISION


@pytest.mark.parametrize("cls", ERROR_CLASSES.values())
def test_a_bare_error_pickles_and_copies(cls: type[TrainingJobError]) -> None:
    for again in (pickle.loads(pickle.dumps(cls("x"))), copy.copy(cls("x")), copy.deepcopy(cls("x"))):
        assert type(again) is cls
        assert str(again) == "x"
        assert again.kind is cls.default_kind
        assert again.decision is None


def test_the_decisions_kind_names_the_class() -> None:
    decision = Decision(action=Action.FAIL, kind=FailureKind.QUEUE_TIMEOUT, reason="r")
    error = error_for(CRASHED, decision, job_name=None, message="m")

    assert type(error) is exceptions.QueueTimeoutError
    assert error.kind is FailureKind.QUEUE_TIMEOUT
    assert type(error_for(CRASHED, None, job_name=None, message="m")) is exceptions.CrashError


def test_a_success_has_no_error() -> None:
    success = classify(FailureEvidence(state=JobState.SUCCEEDED))

    with pytest.raises(
        ValueError, match=r"^error_for got a success \(kind None\); only a failed outcome has an error$"
    ):
        error_for(success, None, job_name=None, message="m")


def test_the_base_class_can_be_raised_with_any_kind() -> None:
    assert TrainingJobError("x").kind is FailureKind.UNKNOWN
    assert TrainingJobError("x", kind=FailureKind.CRASH).kind is FailureKind.CRASH


@pytest.mark.parametrize("by_name", [True, False])
def test_a_users_own_exception_policy_matches_our_classes(by_name: bool) -> None:
    path = "airflow_provider.agent_platform.exceptions.StockoutError"
    policy = ExceptionRetryPolicy(
        rules=[
            RetryRule(
                exception=path if by_name else exceptions.StockoutError,
                action=RetryAction.RETRY,
                retry_delay=timedelta(seconds=9),
            ),
            RetryRule(exception=TrainingJobError, action=RetryAction.FAIL),
        ]
    )

    assert policy.evaluate(exceptions.StockoutError("x"), 1, 3).retry_delay == timedelta(seconds=9)
    assert policy.evaluate(exceptions.UserCodeError("x"), 1, 3).action is RetryAction.FAIL
    assert policy.evaluate(ValueError("x"), 1, 3).action is RetryAction.DEFAULT
