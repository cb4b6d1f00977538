"""The plain mode: the same events, clocks and tolerance, with a clock and a sleep that are given to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pendulum
import pytest
from google.cloud.aiplatform_v1.types import CustomJob

from airflow_provider.agent_platform.policy.states import ENDS, JobState
from airflow_provider.agent_platform.triggers.clocks import Clocks
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from airflow_provider.agent_platform.triggers.view import JobView
from airflow_provider.agent_platform.triggers.waiting import wait_for_job
from tests.triggers.fake_service import api_error, job_name
from tests.triggers.virtual_time import START


class Hook:
    """A hook and the time it lives in: states are set for seconds from the start on."""

    def __init__(self, *plan: tuple[float, int], error: tuple[int, str] | None = (3, "exited")) -> None:
        self.passed = 0.0
        self.plan = list(plan)
        self.error = error
        self.error_after = 0.0
        self.gets = 0
        self.cancels = 0
        self.cancelled_at: float | None = None
        self.cancel_ends = True
        self.failing: Callable[[float, str], Exception | None] = lambda passed, method: None

    def now(self) -> pendulum.DateTime:
        return START.add(seconds=self.passed)

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.passed += max(seconds, 0.001)
        assert self.passed < 10 * 86400, "it waits for ever"

    def get(self, name: str, *, timeout: float) -> Any:
        self.gets += 1
        assert timeout <= 60
        self._fail("get")
        state = self._state()
        raw = CustomJob.pb()()
        raw.name, raw.state = name, state
        raw.create_time.FromDatetime(START)
        started = [at for at, planned in self.plan if planned == JobState.RUNNING and at <= self.passed]
        if started:
            raw.start_time.FromDatetime(START.add(seconds=started[0]))
        if state in ENDS:
            ended = self.cancelled_at if self.cancelled_at is not None else self.plan[-1][0]
            raw.end_time.FromDatetime(START.add(seconds=ended))
            if state != JobState.SUCCEEDED and self.error and self.passed >= ended + self.error_after:
                raw.error.code, raw.error.message = self.error
        return raw

    def cancel(self, name: str, *, timeout: float) -> bool:
        self._fail("cancel")
        self.cancels += 1
        self.cancelled_at = self.passed
        return True

    def _state(self) -> int:
        if self.cancelled_at is not None:
            return JobState.CANCELLED if self.cancel_ends else JobState.CANCELLING
        return max(at_state for at_state in self.plan if at_state[0] <= self.passed)[1]

    def _fail(self, method: str) -> None:
        error = self.failing(self.passed, method)
        if error is not None:
            raise error


def wait(hook: Any, clocks: Clocks | None = None, **values: Any) -> TrainingJobEvent:
    return wait_for_job(
        hook, job_name(1), clocks=clocks or Clocks(), now=hook.now, sleep=hook.sleep, **values
    )


@pytest.mark.parametrize("end", sorted(ENDS))
def test_every_end_is_the_event_the_trigger_would_send(end: JobState) -> None:
    hook = Hook((0, JobState.PENDING), (200, JobState.RUNNING), (5000, end))
    event = wait(hook)
    assert (event.type, event.job_name, event.state) == ("ended", job_name(1), end)
    assert event.error_code == (None if end == JobState.SUCCEEDED else 3)
    assert hook.passed <= 5031


@pytest.mark.parametrize("state", [0, 8, 10, 99])
def test_a_state_that_is_no_end_is_waited_through(state: int) -> None:
    assert wait(Hook((0, state), (1000, JobState.SUCCEEDED))).state == JobState.SUCCEEDED


def test_a_job_that_has_ended_already_is_answered_at_once() -> None:
    hook = Hook((0, JobState.SUCCEEDED))
    wait(hook)
    assert hook.passed == 0


def test_polls_are_as_far_apart_as_was_asked() -> None:
    hook = Hook((0, JobState.RUNNING), (3600, JobState.SUCCEEDED))
    wait(hook, poll_interval=60)
    assert 60 <= hook.gets <= 70


def test_a_late_error_is_waited_for() -> None:
    hook = Hook((0, JobState.RUNNING), (1000, JobState.FAILED), error=(8, "Replicas low on memory"))
    hook.error_after = 75
    event = wait(hook)
    assert event.error_code == 8
    assert hook.passed <= 1000 + 75 + 31


def test_an_error_that_never_comes_is_given_up_on_after_two_minutes() -> None:
    hook = Hook((0, JobState.RUNNING), (1000, JobState.FAILED), error=None)
    event = wait(hook)
    assert (event.state, event.error_code) == (JobState.FAILED, None)
    assert 1119 <= hook.passed <= 1160


@pytest.mark.parametrize(
    ("clocks", "state", "kind"),
    [
        (Clocks(queue_deadline=START.add(seconds=600)), JobState.QUEUED, "queue_timeout"),
        (Clocks(run_timeout=600), JobState.RUNNING, "run_timeout"),
        (Clocks(execution_deadline=START.add(seconds=600)), JobState.RUNNING, "execution_timeout"),
    ],
)
def test_a_clock_that_ends_cancels_once_and_waits_for_the_end(
    clocks: Clocks, state: JobState, kind: str
) -> None:
    hook = Hook((0, state), error=(1, ""))
    event = wait(hook, clocks)
    assert (event.type, event.state, hook.cancels) == (kind, JobState.CANCELLED, 1)
    assert 600 <= hook.passed <= 640


def test_a_job_that_starts_in_the_last_second_is_not_cancelled() -> None:
    hook = Hook((0, JobState.PENDING), (599.9, JobState.RUNNING), (900, JobState.SUCCEEDED))
    assert wait(hook, Clocks(queue_deadline=START.add(seconds=600))).type == "ended"
    assert hook.cancels == 0


def test_a_job_that_does_not_end_after_its_cancel_is_reported() -> None:
    hook = Hook((0, JobState.RUNNING))
    hook.cancel_ends = False
    event = wait(hook, Clocks(run_timeout=100), cancel_bound=60)
    assert (event.type, event.state, hook.cancels) == ("run_timeout", JobState.CANCELLING, 1)
    assert event.message is not None
    assert "did not end" in event.message


@pytest.mark.parametrize(
    "name", ["ServiceUnavailable", "InternalServerError", "TooManyRequests", "RefreshError"]
)
def test_an_outage_of_half_an_hour_fails_nothing_and_makes_two_lines(name: str, caplog: Any) -> None:
    hook = Hook((0, JobState.RUNNING), (4000, JobState.SUCCEEDED))
    hook.failing = lambda passed, method: api_error(name, "no") if 1000 < passed < 2800 else None
    with caplog.at_level(logging.INFO):
        event = wait(hook, log=logging.getLogger("plain-test"))
    assert event.state == JobState.SUCCEEDED
    warnings = [r for r in caplog.records if r.name == "plain-test" and r.levelno >= logging.WARNING]
    assert len(warnings) == 2


def test_a_deadline_in_an_outage_ends_the_wait_within_the_bound() -> None:
    hook = Hook((0, JobState.RUNNING))
    hook.failing = lambda passed, method: api_error("ServiceUnavailable", "no") if passed > 500 else None
    event = wait(hook, Clocks(execution_deadline=START.add(seconds=600)), cancel_bound=120)
    assert event.type == "execution_timeout"
    assert event.message is not None
    assert "could not be cancelled" in event.message
    assert hook.passed <= 760


def test_a_refusal_ends_the_wait_after_a_bounded_time() -> None:
    hook = Hook((0, JobState.RUNNING))
    hook.failing = lambda passed, method: api_error("Forbidden", "denied") if passed > 100 else None
    event = wait(hook)
    assert (event.type, event.error_code) == ("refused", 7)
    assert hook.passed <= 600


def test_a_job_that_is_gone_is_lost_and_one_that_one_answer_missed_is_not() -> None:
    hook = Hook((0, JobState.RUNNING))
    hook.failing = lambda passed, method: api_error("NotFound", "gone") if passed > 100 else None
    assert wait(hook).type == "lost"

    hook = Hook((0, JobState.RUNNING), (200, JobState.SUCCEEDED))
    misses = [True]
    hook.failing = lambda passed, method: api_error("NotFound", "no") if misses and misses.pop() else None
    assert wait(hook).state == JobState.SUCCEEDED


def test_a_failed_cancel_is_repeated_until_it_was_taken() -> None:
    hook = Hook((0, JobState.RUNNING), error=(1, ""))
    left = [1, 2]
    hook.failing = lambda passed, method: (
        api_error("ServiceUnavailable", "no") if method == "cancel" and left and left.pop() else None
    )
    assert wait(hook, Clocks(run_timeout=100)).type == "run_timeout"
    assert hook.cancels == 1


def test_each_new_state_is_handed_on_and_logged_once(caplog: Any) -> None:
    seen: list[JobView] = []
    hook = Hook((0, JobState.QUEUED), (300, JobState.PENDING), (500, JobState.RUNNING), (9000, 4))
    with caplog.at_level(logging.INFO):
        wait(hook, on_change=seen.append, log=logging.getLogger("plain-test"))
    assert [view.state for view in seen] == [1, 2, 3, 4]
    lines = [r.getMessage() for r in caplog.records if r.name == "plain-test"]
    assert len(lines) == 4 + 2  # and two hourly lines


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_process_is_not_held_up(error: type[BaseException]) -> None:
    hook = Hook((0, JobState.RUNNING))

    def sleep(seconds: float) -> None:
        raise error

    with pytest.raises(error):
        wait_for_job(hook, job_name(1), clocks=Clocks(), now=hook.now, sleep=sleep)  # type: ignore[arg-type]
    assert hook.cancels == 0
