"""The state machine of one wait: steps, lines, deadlines, the late error. Pure: time is a number."""

from __future__ import annotations

import logging
from typing import Any

import pendulum
import pytest

from airflow_provider.agent_platform.policy.states import ENDS, JobState
from airflow_provider.agent_platform.triggers.clocks import Clocks
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from airflow_provider.agent_platform.triggers.view import JobView
from airflow_provider.agent_platform.triggers.watch import Do, JobWatch

NAME = "projects/1/locations/us-central1/customJobs/42"
NOON = pendulum.datetime(2026, 1, 31, 12, tz="UTC")


def at(seconds: float) -> pendulum.DateTime:
    return NOON.add(seconds=seconds)


def watch(*, quiet: float = 5.0, cancel_bound: float = 300.0, **clocks: Any) -> JobWatch:
    return JobWatch(NAME, clocks=Clocks(**clocks), cancel_bound=cancel_bound, began=NOON, quiet=quiet)


def view(state: int, **values: Any) -> JobView:
    return JobView(name=NAME, state=state, create_time=NOON, **values)


def lines(one: JobWatch) -> list[str]:
    return [line.text for line in one.take_lines()]


def event_of(one: JobWatch, now: pendulum.DateTime) -> TrainingJobEvent:
    step = one.step(now)
    assert step.do is Do.FIRE
    assert step.event is not None
    return step.event


# --- ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [*range(12), 99])
def test_only_an_end_fires_and_an_unknown_number_is_none(state: int) -> None:
    one = watch()
    one.observe(view(state, error_code=3, error_message="said"), at(10))
    step = one.step(at(10))
    assert (step.do is Do.FIRE) == (state in ENDS)
    if step.event is not None:
        assert (step.event.type, step.event.state) == ("ended", state)


def test_no_event_in_the_first_five_seconds() -> None:
    one = watch()
    one.observe(view(JobState.SUCCEEDED), at(0.5))
    step = one.step(at(0.5))
    assert (step.do, step.until) == (Do.WAIT, at(5))
    assert event_of(one, at(5)).type == "ended"


def test_a_job_that_is_gone_is_lost() -> None:
    one = watch()
    one.observe(view(JobState.RUNNING), at(10))
    one.gone("does not exist")
    event = event_of(one, at(20))
    assert (event.type, event.state, event.message) == ("lost", JobState.RUNNING, "does not exist")


def test_a_refusal_carries_its_code_and_text() -> None:
    one = watch()
    one.refused(7, "denied for 5 min")
    event = event_of(one, at(20))
    assert (event.type, event.state, event.error_code, event.message) == (
        "refused",
        None,
        7,
        "denied for 5 min",
    )


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
def test_an_end_without_its_error_waits_two_minutes_from_the_end_for_it(state: int) -> None:
    one = watch()
    one.observe(view(state, end_time=at(100)), at(110))
    step = one.step(at(110))
    assert (step.do, step.until) == (Do.WAIT, at(220))
    assert one.step(at(219)).do is Do.WAIT
    assert event_of(one, at(220)).error_code is None


def test_a_late_error_ends_that_wait() -> None:
    one = watch()
    one.observe(view(JobState.FAILED, end_time=at(100)), at(110))
    assert one.step(at(110)).do is Do.WAIT
    one.observe(view(JobState.FAILED, end_time=at(100), error_code=8, error_message="low on memory"), at(165))
    event = event_of(one, at(165))
    assert (event.error_code, event.error_message) == (8, "low on memory")


def test_an_end_long_ago_without_an_error_is_not_waited_for_again() -> None:
    one = watch()
    one.observe(view(JobState.FAILED, end_time=NOON.subtract(hours=1)), at(6))
    assert one.step(at(6)).until == at(16)
    assert event_of(one, at(16)).type == "ended"


def test_a_service_clock_that_runs_ahead_does_not_lengthen_the_wait_for_the_error() -> None:
    one = watch()
    one.observe(view(JobState.FAILED, end_time=at(9999)), at(10))
    assert one.step(at(10)).until == at(130)


# --- clocks -----------------------------------------------------------------------------------------


def test_the_queue_clock_reads_then_cancels_then_waits_for_the_end() -> None:
    one = watch(queue_deadline=at(600))
    one.observe(view(JobState.QUEUED), at(10))
    assert one.step(at(10)).until == at(600)
    assert one.step(at(600)).do is Do.READ
    one.observe(view(JobState.QUEUED), at(601), fresh=True)
    assert one.step(at(601)).do is Do.CANCEL
    one.cancel_sent()
    step = one.step(at(602))
    assert (step.do, step.until) == (Do.WAIT, at(901))
    one.observe(view(JobState.CANCELLED), at(640))
    event = event_of(one, at(640))
    assert (event.type, event.state) == ("queue_timeout", JobState.CANCELLED)


def test_a_job_that_started_just_before_the_deadline_is_not_cancelled() -> None:
    one = watch(queue_deadline=at(600))
    one.observe(view(JobState.QUEUED), at(10))
    assert one.step(at(600)).do is Do.READ
    one.observe(view(JobState.RUNNING, start_time=at(599)), at(601), fresh=True)
    assert one.step(at(601)).do is Do.WAIT


def test_a_job_back_in_pending_between_attempts_keeps_its_start() -> None:
    one = watch(queue_deadline=at(600), run_timeout=1000)
    one.observe(view(JobState.RUNNING, start_time=at(100)), at(110))
    one.observe(view(JobState.PENDING, start_time=at(100)), at(500))
    step = one.step(at(650))
    assert (step.do, step.until) == (Do.WAIT, at(1100))
    one.observe(view(JobState.RUNNING, start_time=at(700)), at(710))
    assert one.step(at(710)).until == at(1100)


def test_a_restarted_trigger_learns_from_start_time_that_a_pending_job_ran_before() -> None:
    one = watch(queue_deadline=at(60))
    one.observe(view(JobState.PENDING, start_time=at(-500)), at(10))
    assert one.step(at(100)).until == at(3600)


def test_a_running_job_without_a_start_time_counts_from_when_it_was_seen() -> None:
    one = watch(run_timeout=100)
    one.observe(view(JobState.RUNNING), at(50))
    assert one.step(at(60)).until == at(150)


def test_a_success_that_comes_while_it_is_cancelled_is_a_success() -> None:
    one = watch(run_timeout=100)
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(10))
    one.step(at(100))
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(101), fresh=True)
    assert one.step(at(101)).do is Do.CANCEL
    one.cancel_sent()
    one.observe(view(JobState.SUCCEEDED), at(110))
    assert event_of(one, at(110)).type == "ended"


def test_the_end_of_a_cancel_by_us_does_not_wait_for_a_late_error() -> None:
    one = watch(execution_deadline=at(100))
    one.step(at(100))
    one.observe(view(JobState.RUNNING), at(101), fresh=True)
    one.step(at(101))
    one.cancel_sent()
    one.observe(view(JobState.CANCELLED), at(105))
    assert event_of(one, at(105)).type == "execution_timeout"


def test_a_job_that_somebody_cancels_already_is_not_cancelled_again() -> None:
    one = watch(run_timeout=100)
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(10))
    one.step(at(100))
    one.observe(view(JobState.CANCELLING, start_time=at(0)), at(101), fresh=True)
    step = one.step(at(101))
    assert (step.do, step.until) == (Do.WAIT, at(401))
    assert any("already" in text for text in lines(one))


def test_a_cancel_that_failed_is_repeated_after_a_pause_until_it_was_taken() -> None:
    one = watch(run_timeout=100)
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(10))
    one.step(at(100))
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(100), fresh=True)
    assert one.step(at(100)).do is Do.CANCEL
    one.cancel_failed("503", at(101))
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(102), fresh=True)
    step = one.step(at(102))
    assert (step.do, step.until) == (Do.WAIT, at(111))
    assert one.step(at(111)).do is Do.CANCEL
    one.cancel_sent()
    assert one.step(at(112)).do is Do.WAIT


def test_a_cancel_whose_answer_was_lost_is_not_repeated() -> None:
    one = watch(run_timeout=100)
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(10))
    one.step(at(100))
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(100), fresh=True)
    assert one.step(at(100)).do is Do.CANCEL
    one.cancel_failed("deadline exceeded", at(120))
    one.observe(view(JobState.CANCELLING, start_time=at(0)), at(121), fresh=True)
    assert one.step(at(200)).do is Do.WAIT


def test_a_job_that_does_not_end_after_its_cancel_is_named_in_the_event() -> None:
    one = watch(run_timeout=100, cancel_bound=60)
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(10))
    one.step(at(100))
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(100), fresh=True)
    one.step(at(100))
    one.cancel_sent()
    one.observe(view(JobState.CANCELLING, start_time=at(0)), at(110))
    event = event_of(one, at(160))
    assert (event.type, event.state) == ("run_timeout", JobState.CANCELLING)
    assert event.message is not None
    assert "did not end within 1 min" in event.message


def test_a_deadline_in_an_outage_ends_within_the_bound_and_says_that_the_job_was_left() -> None:
    one = watch(execution_deadline=at(100), cancel_bound=60)
    assert one.step(at(100)).do is Do.READ
    one.read_failed("ServiceUnavailable: 503", at(101))
    assert one.step(at(102)).until == at(111)
    assert one.step(at(111)).do is Do.READ
    one.read_failed("ServiceUnavailable: 503", at(112))
    event = event_of(one, at(160))
    assert event.type == "execution_timeout"
    assert event.message is not None
    assert "could not be cancelled" in event.message
    assert "503" in event.message


# --- what a person reads ----------------------------------------------------------------------------


def test_one_line_for_each_change_of_state_and_none_for_a_poll_without_one() -> None:
    one = watch(queue_deadline=at(9000))
    assert one.observe(view(JobState.QUEUED), at(720))
    assert lines(one) == [
        "42: QUEUED for 12 min (just created, or waiting for training quota of the project in this region), "
        "fails at 14:30 UTC (queue_timeout)"
    ]
    for seconds in range(730, 900, 10):
        assert not one.observe(view(JobState.QUEUED), at(seconds))
        one.step(at(seconds))
    assert lines(one) == []
    assert one.observe(view(JobState.PENDING), at(900))
    assert "PENDING" in lines(one)[0]


def test_a_line_of_a_job_the_platform_runs_again_says_so() -> None:
    one = watch()
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(10))
    lines(one)
    one.observe(view(JobState.PENDING, start_time=at(0), update_time=at(50)), at(60))
    assert "its own retry" in lines(one)[0]


def test_a_heartbeat_an_hour_with_the_state_and_the_next_deadline() -> None:
    one = watch(run_timeout=2 * 86400)
    one.observe(view(JobState.RUNNING, start_time=at(0)), at(10))
    lines(one)
    heard = []
    for minute in range(1, 24 * 60):
        one.step(at(60 * minute))
        heard += lines(one)
    assert len(heard) == 23
    assert heard[2].startswith("42: still RUNNING for 3 h (")
    assert "fails at 2026-02-02 12:00 UTC (run_timeout)" in heard[2]


def test_a_heartbeat_without_any_reading_is_a_warning() -> None:
    one = watch()
    one.step(at(3600))
    (line,) = one.take_lines()
    assert line.level == logging.WARNING
    assert "could not be read for 1 h" in line.text


def test_an_unknown_state_is_named_by_its_number() -> None:
    one = watch()
    one.observe(view(99), at(10))
    assert lines(one)[0].startswith("42: 99")
