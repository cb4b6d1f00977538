"""Creates whose reply is lost, refused, or answered late: always one job in the end."""

from __future__ import annotations

from typing import Any

import pendulum
import pytest
from google.api_core import exceptions as api

from airflow_provider.agent_platform.exceptions import (
    InvalidRequestError,
    PermissionDeniedError,
    QueueTimeoutError,
    QuotaError,
    TrainingJobError,
)
from airflow_provider.agent_platform.operators.steps import WaitForJob, WaitUntil
from tests.operators.setting import Setting

QUOTA = "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
RATE = "Quota exceeded for quota metric 'Create requests' and limit 'Creates per minute' of service 'aiplatform.googleapis.com'"
ACT_AS = "You do not have permission to act as service_account: a@b.iam.gserviceaccount.com. (or it may not exist)."
OTHER_BUCKET = (
    "The Cloud Storage bucket of `gs://b/x` is in location `us`. "
    "It must be in the same regional location as the service location `us-central1`."
)

LOST_REPLIES = [
    api.ServiceUnavailable("The service is currently unavailable."),  # type: ignore[no-untyped-call]
    api.DeadlineExceeded("Deadline Exceeded"),  # type: ignore[no-untyped-call]
    api.InternalServerError("Internal error encountered."),  # type: ignore[no-untyped-call]
    api.Unknown("Stream removed"),  # type: ignore[no-untyped-call]
    ConnectionResetError("Connection reset by peer"),
]


@pytest.mark.parametrize("error", LOST_REPLIES, ids=lambda error: type(error).__name__)
def test_a_lost_create_reply_leaves_one_job(error: Exception) -> None:
    setting = Setting()
    setting.platform.after_create = [error]
    step = setting.start()
    assert isinstance(step, WaitForJob)
    assert setting.platform.creates == [step.record.name]


@pytest.mark.parametrize("error", LOST_REPLIES, ids=lambda error: type(error).__name__)
def test_a_create_that_failed_and_stored_nothing_is_sent_again(error: Exception) -> None:
    setting = Setting()
    setting.platform.before_create = [error]
    step = setting.start()
    assert isinstance(step, WaitForJob)
    assert setting.platform.creates == [step.record.name]


def test_a_list_that_lags_behind_a_lost_reply_is_asked_again() -> None:
    setting = Setting()
    setting.platform.after_create = [api.ServiceUnavailable("gone")]  # type: ignore[no-untyped-call]
    setting.platform.hidden_from_list = 3
    step = setting.start()
    assert isinstance(step, WaitForJob)
    assert setting.platform.creates == [step.record.name]


def test_a_duplicate_that_shows_up_late_is_cancelled_and_the_oldest_stays() -> None:
    setting = Setting()
    setting.platform.after_create = [api.ServiceUnavailable("gone")]  # type: ignore[no-untyped-call]
    # So far behind that the search gives up, and a second create is sent.
    setting.platform.hidden_from_list = 9
    step = setting.start()
    oldest, second = setting.platform.creates
    if setting.platform.cancels == []:
        # Found at the latest when the wait ends.
        assert isinstance(step, WaitForJob)
        step = setting.next_try().start()
    assert isinstance(step, WaitForJob)
    assert step.record.name == oldest
    assert setting.platform.cancels == [second]


def test_creates_that_are_never_stored_end_in_an_error() -> None:
    setting = Setting()
    setting.platform.before_create = [api.ServiceUnavailable("no") for _ in range(9)]  # type: ignore[no-untyped-call]
    with pytest.raises(TrainingJobError):
        setting.start()
    assert setting.platform.creates == []


def test_a_create_refused_for_its_rate_is_repeated_after_a_wait() -> None:
    setting = Setting()
    setting.platform.before_create = [api.ResourceExhausted(RATE), api.ResourceExhausted(RATE)]  # type: ignore[no-untyped-call]
    step = setting.start()
    assert isinstance(step, WaitForJob)
    assert len(setting.platform.time.slept) == 2
    assert setting.platform.creates == [step.record.name]


def test_a_create_refused_for_quota_waits_without_a_job_and_costs_no_try() -> None:
    setting = Setting(retries=0)
    setting.platform.before_create = [api.ResourceExhausted(QUOTA), api.ResourceExhausted(QUOTA)]  # type: ignore[no-untyped-call]
    step: Any = setting.start()
    waits = []
    while isinstance(step, WaitUntil):
        waits.append((step.moment - setting.platform.time.now()).total_seconds())
        setting.platform.time.moment = step.moment
        step = setting.wait_over(step.carried)
    assert isinstance(step, WaitForJob)
    assert len(waits) == 2
    assert all(wait > 0 for wait in waits)
    assert dict(setting.platform.last.labels)["airflow-try"] == "1"


def until_refused(setting: Setting, step: Any) -> None:
    while isinstance(step, WaitUntil):
        setting.platform.time.moment = step.moment
        step = setting.wait_over(step.carried)


def test_waiting_for_quota_ends_with_the_queue_timeout() -> None:
    setting = Setting(queue_timeout=pendulum.duration(minutes=30))
    setting.platform.before_create = [api.ResourceExhausted(QUOTA) for _ in range(40)]  # type: ignore[no-untyped-call]
    step: Any = setting.start()
    began = setting.platform.time.now()
    with pytest.raises((QueueTimeoutError, QuotaError)):
        until_refused(setting, step)
    assert (setting.platform.time.now() - began).total_seconds() <= 31 * 60
    assert setting.platform.creates == []


@pytest.mark.parametrize(
    ("error", "expected", "hint"),
    [
        (api.InvalidArgument(ACT_AS), PermissionDeniedError, "actAs"),  # type: ignore[no-untyped-call]
        (api.FailedPrecondition(OTHER_BUCKET), InvalidRequestError, "bucket"),  # type: ignore[no-untyped-call]
        (api.InvalidArgument("Machine type x is not supported."), InvalidRequestError, ""),  # type: ignore[no-untyped-call]
        (
            api.PermissionDenied("Permission 'aiplatform.customJobs.create' denied on resource"),  # type: ignore[no-untyped-call]
            PermissionDeniedError,
            "",
        ),
    ],
)
def test_a_refused_create_fails_at_once_with_its_kind(
    error: Exception, expected: type[TrainingJobError], hint: str
) -> None:
    setting = Setting(retries=3)
    setting.platform.before_create = [error]
    with pytest.raises(expected) as caught:
        setting.start()
    assert caught.value.decision is not None
    assert caught.value.decision.action.value == "FAIL"
    assert hint in str(caught.value)
    assert setting.platform.creates == []
