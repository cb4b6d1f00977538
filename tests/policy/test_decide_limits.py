"""What forbids a new job, whatever the kind asks for: the budget, max_jobs, queue_timeout, Airflow's own tries."""

from __future__ import annotations

from typing import Any

import pendulum
import pytest

from airflow_provider.agent_platform.policy.decide import Action, Budget, Refusals, platform_retries
from airflow_provider.agent_platform.policy.failures import FailureKind, FailureRule
from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP
from tests.policy.builders import QUOTA, T0, a_job_of, a_ledger, a_refusal, decided

K = FailureKind


# --- the budget ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "retries", "action"),
    [
        (K.CRASH, 3, Action.FAIL),
        (K.CRASH, 4, Action.RETRY),
        (K.INTERNAL, 1, Action.FAIL),
        (K.INTERNAL, 2, Action.FAIL),
        (K.INTERNAL, 3, Action.RETRY),
        (K.PREEMPTED, 0, Action.FAIL),
        (K.PREEMPTED, 1, Action.RETRY),
        (K.UNKNOWN, 0, Action.FAIL),
        (K.UNKNOWN, 1, Action.RETRY),
        (K.LOST, 0, Action.FAIL),
        (K.STOCKOUT, 0, Action.REQUEUE),
        (K.QUOTA, 0, Action.REQUEUE),
    ],
)
def test_a_job_pays_for_all_the_runs_the_platform_made(
    kind: FailureKind, retries: int, action: Action
) -> None:
    assert decided(a_job_of(kind), retries=retries).action is action


def test_a_crash_with_three_retries_has_already_run_four_times() -> None:
    decision = decided(a_job_of(K.CRASH), retries=3)

    assert decision.action is Action.FAIL
    assert decision.kind is K.CRASH
    assert decision.reason == "the platform already ran this 4 times, and retries=3 buys 4 runs"
    assert (decision.runs_happened, decision.runs_charged, decision.budget_left) == (4, 4, 0)


def test_one_run_without_retries_is_one_time() -> None:
    assert decided(a_job_of(K.UNKNOWN)).reason == (
        "the platform already ran this 1 time, and retries=0 buys 1 run"
    )


@pytest.mark.parametrize("kind", [K.PREEMPTED, K.INTERNAL])
def test_progress_is_free_without_any_retries(kind: FailureKind) -> None:
    jobs = [a_job_of(kind, index, resume_step=index) for index in range(20)]
    decision = decided(*jobs, newest=20)

    assert decision.action is Action.REQUEUE
    assert decision.budget_left == 1


@pytest.mark.parametrize("kind", [K.PREEMPTED, K.INTERNAL, K.CRASH, K.UNKNOWN])
def test_unknown_progress_holds_a_place_of_the_budget(kind: FailureKind) -> None:
    one = decided(a_job_of(kind), retries=1, newest=UNKNOWN_STEP)
    none = decided(a_job_of(kind), retries=0, newest=UNKNOWN_STEP)

    assert one.action is Action.RETRY
    assert none.action is Action.FAIL
    assert none.reason == (
        "the platform already ran this 1 time (1 of them with unknown progress), and retries=0 buys 1 run"
    )


def test_a_spent_budget_forbids_a_requeue_too() -> None:
    jobs = [a_job_of(K.CRASH, 0), a_job_of(K.STOCKOUT, 1)]

    assert decided(*jobs, retries=3).action is Action.FAIL
    assert decided(*jobs, retries=4).action is Action.REQUEUE


def test_five_preemptions_with_progress_cost_nothing_and_the_user_error_fails_at_once() -> None:
    preempted = [a_job_of(K.PREEMPTED, index, resume_step=index) for index in range(5)]
    error = a_job_of(K.USER_CODE, 5, resume_step=5)
    decision = decided(*preempted, error, retries=3, newest=5)

    assert decision.action is Action.FAIL
    assert decision.runs_charged == 1
    assert decision.runs_happened == 36


# --- max_jobs --------------------------------------------------------------------------------------------------


def test_the_ceiling_of_jobs_holds_over_everything() -> None:
    jobs = [a_job_of(K.STOCKOUT, index) for index in range(3)]

    reached = decided(*jobs, budget=Budget(retries=9, max_jobs=3))
    below = decided(*jobs, budget=Budget(retries=9, max_jobs=4))

    assert below.action is Action.REQUEUE
    assert reached.action is Action.FAIL
    assert reached.kind is K.STOCKOUT
    assert reached.reason == (
        "3 jobs submitted for this task since it was last cleared, and max_jobs=3 allows no more"
    )


def test_refused_submits_count_too() -> None:
    def after(count: int) -> Action:
        refusals = Refusals(count=count, since=T0)
        return decided(
            a_job_of(K.STOCKOUT), outcome=a_refusal(QUOTA, 8), budget=budget, refusals=refusals
        ).action

    budget = Budget(retries=0, max_jobs=5)
    assert [after(count) for count in (1, 3, 4, 5)] == [
        Action.REQUEUE,
        Action.REQUEUE,
        Action.FAIL,
        Action.FAIL,
    ]


@pytest.mark.parametrize("action", ["retry", "requeue"])
def test_no_rule_goes_over_the_ceiling(action: Any) -> None:
    rules = [FailureRule(kinds=["USER_CODE"], action=action)]

    assert (
        decided(a_job_of(K.USER_CODE), rules=rules, budget=Budget(retries=9, max_jobs=1)).action
        is Action.FAIL
    )


def test_fifty_jobs_by_default() -> None:
    assert Budget(retries=0).max_jobs == 50
    assert Budget(retries=0).queue_timeout is None


# --- queue_timeout ---------------------------------------------------------------------------------------------

TWO_HOURS = Budget(retries=9, queue_timeout=pendulum.duration(hours=2))


@pytest.mark.parametrize("kind", [K.STOCKOUT, K.QUOTA])
def test_a_wait_for_capacity_ends_with_queue_timeout(kind: FailureKind) -> None:
    jobs = [a_job_of(kind, 0), a_job_of(kind, 1)]

    within = decided(*jobs, budget=TWO_HOURS, now=T0.add(hours=2).subtract(microseconds=500_000))
    over = decided(*jobs, budget=TWO_HOURS, now=T0.add(minutes=120))

    assert within.action is Action.REQUEUE
    assert over.action is Action.FAIL
    assert over.kind is K.QUEUE_TIMEOUT


def test_the_reason_says_how_long_it_waited_and_why() -> None:
    decision = decided(a_job_of(K.STOCKOUT), budget=TWO_HOURS, now=T0.add(hours=2, minutes=5))

    assert decision.reason == "there was no capacity: waited 2 h 5 min to start, and queue_timeout is 2 h"


@pytest.mark.parametrize(("kind", "named"), [(K.CRASH, K.CRASH), (K.CANCELLED, K.QUEUE_TIMEOUT)])
def test_no_job_is_submitted_that_would_have_no_time_to_start(kind: FailureKind, named: FailureKind) -> None:
    job = a_job_of(kind, start_time=T0.add(hours=3), end_time=T0.add(hours=4))
    decision = decided(job, budget=TWO_HOURS, now=T0.add(hours=4), own_try=False)

    assert decision.action is Action.FAIL
    assert decision.kind is named


def test_the_delay_leaves_the_next_job_time_to_start() -> None:
    now = T0.add(minutes=119, seconds=50)
    delays = [
        decided(a_job_of(K.STOCKOUT), budget=TWO_HOURS, now=now, seed=str(seed)).delay for seed in range(40)
    ]

    assert max(delay for delay in delays if delay is not None) == pendulum.duration(seconds=5)


def test_the_delay_after_a_refused_submit_leaves_time_too() -> None:
    refusals = Refusals(count=9, since=T0)
    now = T0.add(minutes=119, seconds=50)
    delays = [
        decided(
            outcome=a_refusal(QUOTA, 8), budget=TWO_HOURS, refusals=refusals, now=now, seed=str(seed)
        ).delay
        for seed in range(10)
    ]

    assert max(delay for delay in delays if delay is not None) == pendulum.duration(seconds=5)


def test_a_rules_delay_leaves_time_to_start_too() -> None:
    rules = [FailureRule(kinds=["STOCKOUT"], action="requeue", delay=3600)]
    decision = decided(a_job_of(K.STOCKOUT), budget=TWO_HOURS, now=T0.add(hours=1), rules=rules)

    assert decision.delay == pendulum.duration(minutes=30)


def test_the_delay_of_a_kind_that_does_not_wait_is_its_own() -> None:
    rules = [FailureRule(kinds=["CRASH"], delay=3600 * 5)]

    assert decided(a_job_of(K.CRASH), budget=TWO_HOURS, rules=rules).delay == pendulum.duration(hours=5)


def test_refused_submits_wait_too() -> None:
    refusals = Refusals(count=2, since=T0)

    def at(minutes: int) -> FailureKind | None:
        now = T0.add(minutes=minutes)
        return decided(outcome=a_refusal(QUOTA, 8), budget=TWO_HOURS, refusals=refusals, now=now).kind

    assert at(119) is K.QUOTA
    assert at(120) is K.QUEUE_TIMEOUT


# --- Airflow's own tries ---------------------------------------------------------------------------------------


def test_a_retry_without_a_try_left_is_a_fail_that_says_so() -> None:
    decision = decided(a_job_of(K.UNKNOWN), retries=5, tries_left=0)

    assert decision.action is Action.FAIL
    assert decision.reason == (
        "the platform's text says nothing that we know, and Airflow has no try left for it "
        "(the budget still has 5 runs); raise retries"
    )
    assert decided(a_job_of(K.UNKNOWN), retries=5, tries_left=-1).action is Action.FAIL
    assert decided(a_job_of(K.UNKNOWN), retries=5, tries_left=1).action is Action.RETRY


def test_a_requeue_needs_no_try() -> None:
    assert decided(a_job_of(K.STOCKOUT), tries_left=0).action is Action.REQUEUE


def test_the_try_that_follows_is_itself_the_retry() -> None:
    assert decided(a_job_of(K.UNKNOWN), retries=5, tries_left=0, own_try=False).action is Action.RETRY


# --- the budget itself -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"retries": -1}, "retries is -1; give 0 or more"),
        ({"retries": 0, "max_jobs": 0}, "max_jobs is 0; give 1 or more: the first job counts too"),
        ({"retries": 0, "queue_timeout": pendulum.duration()},
         "queue_timeout is 0.0 s; give more than 0, or None for no limit"),
        ({"retries": 0, "queue_timeout": pendulum.duration(seconds=-1)},
         "queue_timeout is -1.0 s; give more than 0, or None for no limit"),
    ],
)  # fmt: skip
def test_a_budget_that_cannot_be_meant_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        Budget(**fields)

    assert str(error.value) == message


def test_retries_buy_one_run_more() -> None:
    assert [Budget(retries=retries).runs for retries in (0, 1, 5)] == [1, 2, 6]
    assert Budget(retries=0, max_jobs=1).max_jobs == 1
    assert Budget(retries=0, queue_timeout=pendulum.duration(seconds=0.5)).queue_timeout is not None


# --- disable_retries -------------------------------------------------------------------------------------------


def test_the_first_job_leaves_the_platforms_retries_on() -> None:
    assert platform_retries(a_ledger(), Budget(retries=0)) is True


@pytest.mark.parametrize(("retries", "on"), [(5, False), (6, False), (7, True), (8, True)])
def test_a_later_job_has_them_while_the_budget_could_pay(retries: int, on: bool) -> None:
    assert platform_retries(a_ledger(a_job_of(K.CRASH)), Budget(retries=retries)) is on


def test_a_later_job_after_a_free_one_is_a_later_job_too() -> None:
    assert platform_retries(a_ledger(a_job_of(K.STOCKOUT)), Budget(retries=0)) is False
    assert platform_retries(a_ledger(a_job_of(K.STOCKOUT)), Budget(retries=3)) is True


def test_unknown_progress_is_taken_at_its_worst_here() -> None:
    ledger = a_ledger(a_job_of(K.CRASH), newest=UNKNOWN_STEP)

    assert platform_retries(ledger, Budget(retries=6)) is False
    assert platform_retries(ledger, Budget(retries=7)) is True


@pytest.mark.parametrize("override", [True, False])
def test_the_users_word_goes_before_ours(override: bool) -> None:
    assert platform_retries(a_ledger(), Budget(retries=0), override) is override
    assert platform_retries(a_ledger(a_job_of(K.CRASH)), Budget(retries=9), override) is override
    assert platform_retries(a_ledger(a_job_of(K.CRASH)), Budget(retries=0), override) is override
