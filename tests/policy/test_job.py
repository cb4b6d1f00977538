"""What is read off one job's record."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.agent_platform.policy.failures import EndedBy, FailureEvidence
from airflow_provider.agent_platform.policy.states import JobState
from tests.policy.builders import T0, a_job, a_live_job


def test_the_evidence_is_all_that_the_record_knows() -> None:
    job = a_job(
        state=JobState.CANCELLED,
        error_code=1,
        error_message="x",
        strategy="SPOT",
        disable_retries=True,
        cancelled_by_us=True,
        ended_by=EndedBy.LOST,
        timeout_seconds=60.0,
    )

    assert job.evidence() == FailureEvidence(
        state=7,
        code=1,
        message="x",
        strategy="SPOT",
        ever_started=True,
        region="us-central1",
        disable_retries=True,
        cancelled_by_us=True,
        ended_by=EndedBy.LOST,
        run_seconds=1200.0,
        timeout_seconds=60.0,
    )


def test_a_job_without_an_error_has_an_empty_text() -> None:
    assert a_job(error_message=None).evidence().message == ""


def test_run_seconds_are_evidence_only_of_a_job_that_started_and_ended() -> None:
    assert a_job(start_time=None).evidence().run_seconds is None
    assert a_job(end_time=None, update_time=T0.add(hours=1)).evidence().run_seconds is None
    assert a_job(start_time=None).evidence().ever_started is False


def test_seconds_in_the_queue_end_with_the_start_or_the_end() -> None:
    assert a_job().queued_seconds() == 600
    assert a_job(start_time=None).queued_seconds() == 1800
    assert a_job(start_time=None).queued_seconds(T0.add(hours=9)) == 1800
    assert a_job(create_time=None).queued_seconds() == 0


def test_a_live_job_counts_until_now_or_until_it_was_last_seen() -> None:
    waiting = a_live_job(state=JobState.PENDING, start_time=None, update_time=T0.add(minutes=1))
    running = a_live_job(update_time=T0.add(minutes=15))

    assert waiting.queued_seconds(T0.add(minutes=5)) == 300
    assert waiting.queued_seconds() == 60
    assert running.queued_seconds(T0.add(minutes=50)) == 600
    assert running.run_seconds(T0.add(minutes=50)) == 2400
    assert running.run_seconds() == 300
    assert a_live_job().run_seconds() == 0


def test_an_ended_job_without_an_end_time_counts_until_it_was_last_seen() -> None:
    job = a_job(end_time=None, update_time=T0.add(minutes=20))

    assert job.run_seconds(T0.add(hours=5)) == 600


def test_run_seconds_are_from_start_to_end() -> None:
    assert a_job().run_seconds() == 1200
    assert a_job(start_time=None).run_seconds() == 0


def test_times_out_of_order_are_no_negative_durations() -> None:
    assert a_job(start_time=T0.subtract(seconds=1)).queued_seconds() == 0
    assert a_job(end_time=T0).run_seconds() == 0


def test_jobs_are_ordered_by_their_creation_and_a_new_one_is_last() -> None:
    first, second = a_job(1), a_job(2)
    unknown = a_job(0, create_time=None)

    assert sorted([unknown, second, first], key=lambda job: job.order) == [first, second, unknown]


def test_jobs_made_at_the_same_time_have_a_fixed_order() -> None:
    one, two = a_job(1, create_time=T0), a_job(2, create_time=T0)
    twin = a_job(1, create_time=T0, name="zzz")

    assert sorted([two, twin, one], key=lambda job: job.order) == [one, twin, two]


@pytest.mark.parametrize(("minute", "alive"), [(-1, False), (0, True), (29, True), (30, False), (31, False)])
def test_an_ended_job_was_alive_between_its_creation_and_its_end(minute: int, alive: bool) -> None:
    assert a_job().alive_at(T0.add(minutes=minute)) is alive


def test_what_is_not_known_about_a_life_is_no() -> None:
    assert not a_job().alive_at(None)
    assert not a_job(create_time=None).alive_at(T0)
    assert not a_job(end_time=None).alive_at(T0.add(minutes=1))
    assert a_live_job().alive_at(T0.add(years=1))


def test_the_limit_of_a_trial_is_no_limit_of_its_tuning_job() -> None:
    ran: dict[str, Any] = {
        "state": JobState.FAILED,
        "start_time": T0,
        "end_time": T0.add(hours=5),
        "timeout_seconds": 3600.0,
    }
    assert a_job(job_type="custom_job", **ran).evidence().timeout_seconds == 3600.0
    assert a_job(job_type="hyperparameter_tuning_job", **ran).evidence().timeout_seconds is None
