"""The clock of queue_timeout, over all jobs and refused submits."""

from __future__ import annotations

import pendulum

from airflow_provider.agent_platform.policy.decide import Budget, Refusals, queue_deadline
from airflow_provider.agent_platform.policy.failures import FailureKind
from airflow_provider.agent_platform.policy.queueing import queue_seconds_left, waited_seconds
from airflow_provider.agent_platform.policy.states import JobState
from tests.policy.builders import T0, a_job, a_job_of, a_ledger, a_live_job

BUDGET = Budget(retries=0, queue_timeout=pendulum.duration(hours=2))
NONE = Refusals()


def test_the_first_job_has_the_whole_time() -> None:
    assert queue_deadline(a_ledger(), BUDGET, T0) == T0.add(hours=2)


def test_without_a_limit_there_is_no_deadline() -> None:
    assert queue_deadline(a_ledger(), Budget(retries=0), T0) is None
    assert queue_seconds_left(a_ledger(), Budget(retries=0), T0) is None


def test_what_earlier_jobs_waited_is_gone() -> None:
    now = T0.add(hours=3)

    assert queue_seconds_left(a_ledger(a_job(0), a_job(1)), BUDGET, now) == 7200 - 1200
    assert queue_deadline(a_ledger(a_job(0), a_job(1)), BUDGET, now) == now.add(seconds=6000)


def test_the_deadline_of_a_waiting_job_does_not_move() -> None:
    ledger = a_ledger(a_job(0), a_live_job(1, state=JobState.QUEUED, start_time=None))
    deadlines = {queue_deadline(ledger, BUDGET, T0.add(hours=1, minutes=minute)) for minute in (0, 7, 50)}

    assert deadlines == {T0.add(hours=1, minutes=110)}


def test_an_overdrawn_clock_is_negative_and_in_the_past() -> None:
    ledger = a_ledger(a_job_of(FailureKind.STOCKOUT))

    assert queue_seconds_left(ledger, BUDGET, T0.add(hours=3)) == -3600
    assert queue_deadline(ledger, BUDGET, T0.add(hours=3)) == T0.add(hours=2)


def test_refused_submits_wait_since_the_first_of_them() -> None:
    refusals = Refusals(count=3, since=T0)
    now = T0.add(minutes=20)

    assert waited_seconds(a_ledger(), refusals, now) == 1200
    assert queue_seconds_left(a_ledger(), BUDGET, now, refusals=refusals) == 6000
    assert queue_deadline(a_ledger(), BUDGET, now, refusals=refusals) == T0.add(hours=2)
    assert waited_seconds(a_ledger(), Refusals(count=1, since=now.add(seconds=9)), now) == 0
    assert waited_seconds(a_ledger(), NONE, now) == 0


def test_refusals_after_a_job_that_ran_are_added_to_its_queue() -> None:
    refusals = Refusals(count=1, since=T0.add(minutes=30))

    assert waited_seconds(a_ledger(a_job(0)), refusals, T0.add(minutes=40)) == 600 + 600


def test_refusals_after_a_job_that_never_started_are_not_counted_twice() -> None:
    ledger = a_ledger(a_job_of(FailureKind.STOCKOUT))
    refusals = Refusals(count=1, since=T0.add(minutes=40))

    assert waited_seconds(ledger, refusals, T0.add(hours=1)) == 3600


def test_refusals_after_a_job_whose_end_is_not_known_are_counted() -> None:
    ledger = a_ledger(a_job_of(FailureKind.STOCKOUT, end_time=None))

    assert waited_seconds(ledger, Refusals(count=1, since=T0), T0.add(hours=1)) == 3600
