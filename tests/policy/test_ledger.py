"""What the jobs of an epoch add up to: happened, charged, held."""

from __future__ import annotations

import json

import pytest

from airflow_provider.agent_platform.policy.charging import Cost, charge
from airflow_provider.agent_platform.policy.failures import EndedBy, FailureKind, FailureRule
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP, Progress, Step
from airflow_provider.agent_platform.policy.states import JobState
from tests.policy.builders import (
    STOCKOUT,
    T0,
    a_job,
    a_job_of,
    a_ledger,
    a_live_job,
    a_success,
    an_outcome,
    exited,
)

K = FailureKind


def sums(ledger: Ledger) -> tuple[int, int, int]:
    return ledger.runs_happened, ledger.runs_charged, ledger.runs_held


def test_an_empty_ledger_adds_up_to_nothing() -> None:
    ledger = a_ledger()

    assert sums(ledger) == (0, 0, 0)
    assert ledger.jobs == 0
    assert ledger.last is None
    assert ledger.live == ()
    assert ledger.runs_at_worst == 0
    assert ledger.queued_seconds == 0
    assert ledger.run_seconds == 0
    assert ledger.waited_seconds(T0) == 0


@pytest.mark.parametrize(
    ("kind", "happened", "charged"),
    [(K.USER_CODE, 1, 1), (K.CRASH, 4, 4), (K.CANNOT_START, 1, 1), (K.OUT_OF_MEMORY, 1, 0), (K.OUT_OF_DISK, 1, 0),
     (K.STOCKOUT, 4, 0), (K.PREEMPTED, 7, 1), (K.QUOTA, 0, 0), (K.INTERNAL, 3, 3), (K.CANCELLED, 1, 0),
     (K.RUN_TIMEOUT, 1, 1), (K.QUEUE_TIMEOUT, 0, 0), (K.LOST, 1, 1), (K.UNKNOWN, 1, 1)],
)  # fmt: skip
def test_a_job_happened_and_charges_by_its_kind(kind: FailureKind, happened: int, charged: int) -> None:
    ledger = a_ledger(a_job_of(kind))

    assert ledger.entries[0].outcome is not None
    assert ledger.entries[0].outcome.kind is kind
    assert sums(ledger) == (happened, charged, 0)


def test_the_platforms_own_retries_are_counted_once_over_all_jobs() -> None:
    ledger = a_ledger(
        a_job_of(K.CRASH, 0), a_job_of(K.INTERNAL, 1, disable_retries=True), a_job_of(K.STOCKOUT, 2)
    )

    assert sums(ledger) == (9, 5, 0)
    assert ledger.jobs == 3


def test_jobs_are_ordered_oldest_first_whatever_the_order_they_come_in() -> None:
    jobs = [a_job(index) for index in range(4)]

    assert [entry.record for entry in a_ledger(jobs[2], jobs[0], jobs[3], jobs[1]).entries] == jobs


def test_what_a_job_reached_is_what_the_next_one_started_from() -> None:
    ledger = a_ledger(
        a_job(0, resume_step=None), a_job(1, resume_step=100), a_job(2, resume_step=100), newest=150
    )

    assert [entry.reached_step for entry in ledger.entries] == [100, 100, 150]
    assert [entry.progress for entry in ledger.entries] == [
        Progress.ADVANCED,
        Progress.NOT_ADVANCED,
        Progress.ADVANCED,
    ]
    assert [entry.runs_charged for entry in ledger.entries] == [0, 1, 0]


@pytest.mark.parametrize("kind", [K.CRASH, K.INTERNAL, K.PREEMPTED, K.LOST, K.UNKNOWN, K.USER_CODE])
def test_a_run_that_advanced_the_checkpoint_charges_nothing(kind: FailureKind) -> None:
    ledger = a_ledger(a_job_of(kind, resume_step=5), newest=6)

    assert (ledger.runs_charged, ledger.runs_held) == (0, 0)
    assert ledger.runs_happened > 0


def test_a_checkpoint_that_was_deleted_and_written_again_is_no_progress() -> None:
    ledger = a_ledger(
        a_job(0, resume_step=500), a_job(1, resume_step=500), a_job(2, resume_step=None), newest=400
    )

    assert [entry.progress for entry in ledger.entries] == [Progress.NOT_ADVANCED] * 3


def test_a_step_reached_by_an_earlier_job_is_no_progress_of_a_later_one() -> None:
    ledger = a_ledger(a_job(0), a_job(1, resume_step=300), a_job(2, resume_step=None), newest=300)

    assert [entry.runs_charged for entry in ledger.entries] == [0, 1, 1]


@pytest.mark.parametrize(
    ("kind", "held"),
    [(K.CRASH, 1), (K.INTERNAL, 1), (K.PREEMPTED, 1), (K.UNKNOWN, 1), (K.STOCKOUT, 0), (K.QUOTA, 0),
     (K.OUT_OF_MEMORY, 0), (K.CANCELLED, 0)],
)  # fmt: skip
def test_unknown_progress_neither_charges_nor_frees(kind: FailureKind, held: int) -> None:
    ledger = a_ledger(a_job_of(kind, resume_step=5), newest=UNKNOWN_STEP)

    assert ledger.runs_charged == 0
    assert ledger.runs_held == held


@pytest.mark.parametrize(("later", "charged"), [(5, 4), (6, 0)])
def test_unknown_progress_is_settled_when_the_checkpoints_can_be_read_again(
    later: Step, charged: int
) -> None:
    ledger = a_ledger(a_job_of(K.CRASH, 0, resume_step=5), a_live_job(1, resume_step=later), newest=later)

    assert (ledger.runs_charged, ledger.runs_held) == (charged, 0)


def test_a_held_run_counts_at_its_full_number_at_worst() -> None:
    ledger = a_ledger(
        a_job_of(K.INTERNAL, 0, resume_step=1),
        a_job_of(K.CRASH, 1, resume_step=1),
        a_job_of(K.STOCKOUT, 2, resume_step=UNKNOWN_STEP),
        newest=UNKNOWN_STEP,
    )

    assert sums(ledger) == (11, 3, 1)
    assert ledger.runs_at_worst == 7


def test_a_live_job_charges_nothing_and_is_the_last() -> None:
    live = a_live_job(1)
    ledger = a_ledger(a_job(0), live)

    assert [entry.record for entry in ledger.live] == [live]
    assert ledger.last is not None
    assert ledger.last.record is live
    assert ledger.last.outcome is None
    assert sums(ledger) == (2, 1, 0)


def test_a_job_that_has_not_started_has_not_run() -> None:
    assert sums(a_ledger(a_live_job(state=JobState.QUEUED, start_time=None))) == (0, 0, 0)


@pytest.mark.parametrize("state", [0, 1, 2, 3, 6, 8, 10, 42])
def test_unknown_and_paused_states_are_live(state: int) -> None:
    assert len(a_ledger(a_live_job(state=state)).live) == 1


def test_a_job_that_is_gone_has_an_end_whatever_its_state_was() -> None:
    ledger = a_ledger(a_live_job(ended_by=EndedBy.LOST))

    assert ledger.live == ()
    assert sums(ledger) == (1, 1, 0)


# --- duplicates ------------------------------------------------------------------------------------------------


def test_two_live_jobs_are_both_live_oldest_first() -> None:
    old, new = a_live_job(0), a_live_job(1)

    assert [entry.record for entry in a_ledger(new, old).live] == [old, new]


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.CANCELLING])
def test_a_job_cancelled_beside_an_older_one_is_a_duplicate_and_never_decided_on(state: JobState) -> None:
    first = a_job(0)
    twin = a_job(1, create_time=T0.add(seconds=30), state=state, error_message=None)
    ledger = a_ledger(first, twin)

    assert [entry.duplicate for entry in ledger.entries] == [False, True]
    assert ledger.last is not None
    assert ledger.last.record is first


def test_a_job_cancelled_after_the_older_one_had_ended_is_no_duplicate() -> None:
    ledger = a_ledger(a_job(0), a_job_of(K.CANCELLED, 1))

    assert [entry.duplicate for entry in ledger.entries] == [False, False]
    assert ledger.last is ledger.entries[1]


def test_an_older_job_that_was_cancelled_is_no_duplicate_of_a_newer_one() -> None:
    ledger = a_ledger(a_job_of(K.CANCELLED, 0), a_live_job(1, create_time=T0.add(minutes=5)))

    assert [entry.duplicate for entry in ledger.entries] == [False, False]


def test_a_third_job_beside_two_is_a_duplicate_of_the_first() -> None:
    twins = [
        a_job_of(K.CANCELLED, index, create_time=T0.add(seconds=index), end_time=T0.add(seconds=5))
        for index in (1, 2)
    ]

    assert [entry.duplicate for entry in a_ledger(a_job(0), *twins).entries] == [False, True, True]


def test_a_duplicate_changes_nothing_about_the_progress_of_the_others() -> None:
    first = a_job_of(K.CRASH, 0, resume_step=100)
    twin = a_job_of(K.CANCELLED, 1, create_time=T0.add(seconds=30), resume_step=100)
    ledger = a_ledger(first, twin, a_live_job(2, resume_step=500), newest=900)

    assert [entry.reached_step for entry in ledger.entries] == [500, 100, 900]
    assert [entry.progress for entry in ledger.entries] == [
        Progress.ADVANCED,
        Progress.NOT_ADVANCED,
        Progress.ADVANCED,
    ]
    assert ledger.runs_charged == 0


def test_a_failed_twin_is_charged_as_it_ran() -> None:
    ledger = a_ledger(a_job(0), a_job(1, create_time=T0.add(seconds=30)))

    assert [entry.duplicate for entry in ledger.entries] == [False, False]
    assert ledger.runs_charged == 2


def test_a_success_is_the_last_word_of_an_epoch() -> None:
    done = a_success(0)

    for ledger in (a_ledger(done, a_job(1)), a_ledger(a_job(0), a_success(1)), a_ledger(done, a_live_job(1))):
        assert ledger.last is not None
        assert ledger.last.outcome is not None
        assert ledger.last.outcome.succeeded


def test_the_newest_of_two_successes_is_the_last() -> None:
    two = [a_success(0), a_success(1)]
    last = a_ledger(*two).last

    assert last is not None
    assert last.record is two[1]


# --- rules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "message", "progress", "expected"),
    [
        ("requeue", exited(75), Progress.NOT_ADVANCED, Cost()),
        ("requeue", exited(75), Progress.UNKNOWN, Cost()),
        ("retry", exited(75), Progress.NOT_ADVANCED, Cost(charged=1)),
        ("retry", exited(139), Progress.NOT_ADVANCED, Cost(charged=4)),
        ("retry", STOCKOUT, Progress.NOT_ADVANCED, Cost(charged=1)),
        ("retry", STOCKOUT, Progress.ADVANCED, Cost()),
        ("retry", STOCKOUT, Progress.UNKNOWN, Cost(held=1, at_stake=1)),
        ("retry", exited(139), Progress.UNKNOWN, Cost(held=1, at_stake=4)),
        ("fail", exited(139), Progress.NOT_ADVANCED, Cost(charged=4)),
        ("fail", STOCKOUT, Progress.NOT_ADVANCED, Cost()),
    ],
)
def test_a_rule_says_what_an_end_charges(
    action: str, message: str, progress: Progress, expected: Cost
) -> None:
    rule = FailureRule(message=".", action=action)  # type: ignore[arg-type]

    assert charge(an_outcome(message), progress, [rule]) == expected


def test_the_rules_reach_every_entry_of_the_ledger() -> None:
    rules = [FailureRule(exit_codes=[75], action="requeue")]
    jobs = [a_job(0, error_message=exited(75)), a_job(1, error_message=exited(1))]

    assert [entry.runs_charged for entry in a_ledger(*jobs, rules=rules).entries] == [0, 1]


# --- time ------------------------------------------------------------------------------------------------------


def test_queue_and_run_seconds_are_summed() -> None:
    ledger = a_ledger(a_job(0), a_job_of(K.STOCKOUT, 1))

    assert ledger.queued_seconds == 600 + 1800
    assert ledger.run_seconds == 1200


def test_a_live_job_counts_until_now() -> None:
    ledger = Ledger.of([a_live_job()], newest_step=None, now=T0.add(minutes=40))

    assert (ledger.queued_seconds, ledger.run_seconds) == (600, 1800)


def test_a_job_that_waits_counts_its_queue_until_now() -> None:
    waiting = a_live_job(state=JobState.PENDING, start_time=None)

    assert Ledger.of([waiting], newest_step=None, now=T0.add(minutes=5)).queued_seconds == 300


def test_the_pause_after_a_job_that_never_started_is_waiting_too() -> None:
    never = a_ledger(a_job_of(K.STOCKOUT, 0), a_job_of(K.STOCKOUT, 1))
    started = a_ledger(a_job(0), a_job(1))

    assert never.waited_seconds(T0.add(hours=2)) == 7200
    assert started.waited_seconds(T0.add(hours=2)) == 1200


def test_a_job_that_waits_now_counts_until_now() -> None:
    ledger = a_ledger(a_job(0), a_live_job(1, state=JobState.PENDING, start_time=None))

    assert ledger.waited_seconds(T0.add(hours=1, minutes=5)) == 600 + 300


def test_a_duplicate_does_not_wait_twice() -> None:
    twin = a_job_of(K.CANCELLED, 1, create_time=T0.add(seconds=30), start_time=None)

    assert a_ledger(a_job(0), twin).waited_seconds(T0.add(hours=5)) == 600


def test_a_pause_of_unknown_length_is_none() -> None:
    never = a_job_of(K.STOCKOUT, 0)

    assert a_ledger(never, a_job(1, create_time=None)).waited_seconds(T0.add(hours=9)) == 1800
    assert a_ledger(a_job_of(K.STOCKOUT, 0, end_time=None)).waited_seconds(T0.add(hours=9)) == 0
    assert a_ledger(never).waited_seconds(T0) == 1800


# --- as data ---------------------------------------------------------------------------------------------------


def test_an_entry_is_plain_data_for_the_result() -> None:
    ledger = a_ledger(a_job_of(K.CRASH, resume_step=5), newest=UNKNOWN_STEP)

    assert ledger.entries[0].as_dict() == {
        "name": "projects/1/locations/us-central1/customJobs/0",
        "region": "us-central1",
        "state": "JOB_STATE_FAILED",
        "kind": "CRASH",
        "runs": 4,
        "charged": 0,
        "resumed_from_step": 5,
        "reached_step": "unknown",
        "queued_seconds": 600.0,
        "run_seconds": 1200.0,
    }
    assert a_ledger(a_live_job()).entries[0].as_dict()["kind"] is None
    assert a_ledger(a_success()).entries[0].as_dict()["kind"] is None


def test_seconds_are_rounded_to_milliseconds() -> None:
    start = T0.add(seconds=1, microseconds=123456)
    entry = a_ledger(a_job(start_time=start, end_time=start.add(seconds=2, microseconds=654321))).entries[0]

    assert entry.as_dict()["queued_seconds"] == 1.123
    assert entry.as_dict()["run_seconds"] == 2.654


def test_the_ledger_is_one_compact_line_with_its_version() -> None:
    twin = a_job_of(K.CANCELLED, 1, create_time=T0.add(seconds=30), try_number=2)
    text = a_ledger(a_job_of(K.INTERNAL, try_number=2), twin, newest=UNKNOWN_STEP).to_json()

    assert "\n" not in text
    assert ": " not in text
    assert ", " not in text
    data = json.loads(text)
    assert {key: value for key, value in data.items() if key != "jobs"} == {
        "version": 1,
        "happened": 4,
        "charged": 0,
        "held": 1,
    }
    extra = [
        {key: job[key] for key in ("try", "held", "row", "progress", "duplicate")} for job in data["jobs"]
    ]
    assert extra == [
        {"try": 2, "held": 1, "row": "internal", "progress": "UNKNOWN", "duplicate": False},
        {"try": 2, "held": 0, "row": "cancelled", "progress": "NOT_ADVANCED", "duplicate": True},
    ]
    assert data["jobs"][0]["name"].endswith("/0")


def test_a_live_job_has_no_row_in_the_json() -> None:
    assert json.loads(a_ledger(a_live_job()).to_json())["jobs"][0]["row"] is None


def test_fifty_jobs_stay_within_a_stores_limit() -> None:
    assert len(a_ledger(*(a_job_of(K.STOCKOUT, index) for index in range(50))).to_json()) < 32_000
