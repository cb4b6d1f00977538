"""What follows from each kind, and what the reason says."""

from __future__ import annotations

import copy
import datetime
import pickle

import pendulum
import pytest

from airflow_provider.agent_platform.policy.actions import ACTIONS
from airflow_provider.agent_platform.policy.decide import Action, Budget, Progress, Refusals, decide
from airflow_provider.agent_platform.policy.delays import full_jitter
from airflow_provider.agent_platform.policy.failures import FailureKind, FailureRule
from airflow_provider.agent_platform.policy.placement import Placement
from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP, Step
from tests.policy.builders import (
    QUOTA,
    STOCKOUT,
    T0,
    a_job,
    a_job_of,
    a_ledger,
    a_refusal,
    a_success,
    an_outcome,
    decided,
    exited,
)

K = FailureKind
SUCCEED, REQUEUE, RETRY, FAIL = Action.SUCCEED, Action.REQUEUE, Action.RETRY, Action.FAIL

BY_DEFAULT = [
    (K.USER_CODE, FAIL, FAIL, FAIL),
    (K.CRASH, RETRY, RETRY, RETRY),
    (K.CANNOT_START, FAIL, FAIL, FAIL),
    (K.OUT_OF_MEMORY, FAIL, FAIL, FAIL),
    (K.OUT_OF_DISK, FAIL, FAIL, FAIL),
    (K.STOCKOUT, REQUEUE, REQUEUE, REQUEUE),
    (K.PREEMPTED, RETRY, REQUEUE, RETRY),
    (K.QUOTA, REQUEUE, REQUEUE, REQUEUE),
    (K.INTERNAL, RETRY, REQUEUE, RETRY),
    (K.INVALID_REQUEST, FAIL, FAIL, FAIL),
    (K.PERMISSION_DENIED, FAIL, FAIL, FAIL),
    (K.CANCELLED, FAIL, FAIL, FAIL),
    (K.RUN_TIMEOUT, FAIL, FAIL, FAIL),
    (K.QUEUE_TIMEOUT, FAIL, FAIL, FAIL),
    (K.LOST, RETRY, RETRY, RETRY),
    (K.UNKNOWN, RETRY, RETRY, RETRY),
]
STEPS: list[Step] = [5, 6, UNKNOWN_STEP]


@pytest.mark.parametrize(("kind", "not_advanced", "advanced", "unknown"), BY_DEFAULT)
def test_each_kind_has_its_default(
    kind: FailureKind, not_advanced: Action, advanced: Action, unknown: Action
) -> None:
    decisions = [decided(a_job_of(kind, resume_step=5), retries=9, newest=newest) for newest in STEPS]

    assert [decision.action for decision in decisions] == [not_advanced, advanced, unknown]
    assert {decision.kind for decision in decisions} == {kind}
    assert {decision.rule for decision in decisions} == {None}


def test_every_kind_has_a_default() -> None:
    assert set(ACTIONS) == set(FailureKind)
    assert {kind for kind, _, _, _ in BY_DEFAULT} == set(FailureKind)


def test_a_success_succeeds_whatever_came_before() -> None:
    decision = decided(a_job_of(K.CRASH, 0), a_success(1), retries=0)

    assert decision.action is SUCCEED
    assert decision.kind is None
    assert decision.reason == "the job succeeded"
    assert not decision.submits
    assert (decision.delay, decision.at, decision.placement, decision.rule) == (None, None, None, None)


FAILS = [
    (K.USER_CODE, "the training code would fail again"),
    (K.CANNOT_START, "the container cannot be started as it is"),
    (K.OUT_OF_MEMORY, "it needs a machine with more memory, and machine_types has no larger one left"),
    (K.OUT_OF_DISK, "it needs a machine with more disk, and machine_types has no larger one left"),
    (K.INVALID_REQUEST, "the platform would refuse the request again"),
    (K.PERMISSION_DENIED, "the permission is missing"),
    (K.CANCELLED, "somebody cancelled the job"),
    (K.RUN_TIMEOUT, "the job ran for as long as it may"),
    (K.QUEUE_TIMEOUT, "the job did not start in time"),
]


@pytest.mark.parametrize(("kind", "reason"), FAILS)
def test_a_fail_says_why_and_submits_nothing(kind: FailureKind, reason: str) -> None:
    decision = decided(a_job_of(kind), retries=9)

    assert decision.reason == reason
    assert not decision.submits
    assert (decision.delay, decision.at, decision.placement) == (None, None, None)


SUBMITS = [
    (K.CRASH, 5, "a crash may be a matter of luck: an Airflow retry in "),
    (K.STOCKOUT, 5, "there was no capacity: submitting again inside this try in "),
    (K.PREEMPTED, 5, "the Spot machines were taken away: an Airflow retry in "),
    (K.PREEMPTED, 6, "the Spot machines were taken away, but it got further than where it started: "
                     "submitting again inside this try in "),
    (K.QUOTA, 5, "the quota is used up: submitting again inside this try in "),
    (K.INTERNAL, 5, "the platform had an internal error: an Airflow retry in "),
    (K.INTERNAL, 6, "the platform had an internal error, but it got further than where it started: "
                    "submitting again inside this try in "),
    (K.LOST, 5, "the job is gone from the platform: an Airflow retry in "),
    (K.UNKNOWN, 5, "the platform's text says nothing that we know: an Airflow retry in "),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "newest", "reason"), SUBMITS)
def test_a_new_job_has_a_reason_a_time_and_a_place(kind: FailureKind, newest: int, reason: str) -> None:
    decision = decided(a_job_of(kind, resume_step=5), retries=9, newest=newest)

    assert decision.reason.startswith(reason)
    assert decision.submits
    assert decision.delay is not None
    assert decision.at == T0.add(hours=1) + decision.delay
    assert decision.placement == Placement(region="us-central1")


@pytest.mark.parametrize(
    ("newest", "retries", "action"), [(5, 1, RETRY), (5, 0, FAIL), (6, 0, REQUEUE), (UNKNOWN_STEP, 1, RETRY)]
)
def test_a_standard_job_that_ran_before_it_lost_its_machines_is_not_requeued_for_free(
    newest: Step, retries: int, action: Action
) -> None:
    job = a_job_of(K.STOCKOUT, start_time=T0.add(minutes=10), resume_step=5)

    assert decided(job, retries=retries, newest=newest).action is action


def test_the_reason_says_that_it_had_started() -> None:
    job = a_job_of(K.STOCKOUT, start_time=T0.add(minutes=10))

    assert decided(job, retries=1).reason.startswith(
        "there was no capacity for a job that had started: an Airflow retry in "
    )


def test_the_numbers_of_the_ledger_are_in_the_decision() -> None:
    decision = decided(a_job_of(K.CRASH, 0), a_job_of(K.INTERNAL, 1, disable_retries=True), retries=9)

    assert (decision.runs_happened, decision.runs_charged, decision.budget_left) == (5, 5, 5)


def test_held_runs_are_not_left() -> None:
    decision = decided(a_job_of(K.CRASH), retries=9, newest=UNKNOWN_STEP)

    assert (decision.runs_charged, decision.budget_left) == (0, 9)


def test_what_is_left_is_never_negative() -> None:
    assert decided(a_job_of(K.CRASH), retries=0).budget_left == 0


# --- places ----------------------------------------------------------------------------------------------------


def test_a_stockout_tries_the_next_region_at_once() -> None:
    decision = decided(a_job_of(K.STOCKOUT), regions=["us-central1", "us-west1"])

    assert decision.action is REQUEUE
    assert decision.placement == Placement(region="us-west1")
    assert decision.delay == pendulum.duration()
    assert decision.at == T0.add(hours=1)
    assert decision.reason == "there was no capacity: submitting again inside this try at once, in us-west1"


def test_after_a_round_of_regions_it_backs_off() -> None:
    jobs = [a_job_of(K.STOCKOUT, 0), a_job_of(K.STOCKOUT, 1, region="us-west1")]
    decision = decided(*jobs, regions=["us-central1", "us-west1"])

    assert decision.placement == Placement(region="us-central1")
    assert decision.delay is not None
    assert 0 < decision.delay.total_seconds() <= 60


def test_a_second_round_tries_the_other_region_at_once_again() -> None:
    regions = ["us-central1", "us-west1"]
    jobs = [a_job_of(K.STOCKOUT, index, region=regions[index % 2]) for index in range(3)]

    assert decided(*jobs, regions=regions).delay == pendulum.duration()


def test_out_of_memory_climbs_without_a_cost() -> None:
    decision = decided(a_job_of(K.OUT_OF_MEMORY, machine_type="m4"), machine_types=["m8", "m16"])

    assert decision.action is REQUEUE
    assert decision.placement == Placement(region="us-central1", machine_type="m8")
    assert (decision.runs_charged, decision.budget_left) == (0, 1)
    assert decision.reason.startswith(
        "it needs a machine with more memory: submitting again inside this try in "
    )
    assert decision.reason.endswith(", on m8")


def test_out_of_memory_on_the_largest_machine_fails() -> None:
    jobs = [a_job_of(K.OUT_OF_MEMORY, 0, machine_type="m4"), a_job_of(K.OUT_OF_MEMORY, 1, machine_type="m8")]

    assert decided(*jobs, machine_types=["m8"]).action is FAIL


def test_a_change_of_region_and_machine_is_said() -> None:
    refused = a_refusal(STOCKOUT, 8, region="us-central1")
    decision = decided(
        a_job_of(K.OUT_OF_MEMORY),
        outcome=refused,
        regions=["us-central1", "us-west1"],
        machine_types=["m8"],
        refusals=Refusals(count=1, since=T0),
    )

    assert decision.placement == Placement(region="us-west1", machine_type="m8")
    assert decision.reason.endswith(", in us-west1, on m8")


def test_a_rung_that_is_no_longer_on_the_ladder_is_left_without_a_word() -> None:
    decision = decided(a_job_of(K.INTERNAL, machine_type="m8"), retries=9, machine_types=["m16"])

    assert decision.placement == Placement(region="us-central1")
    assert not decision.reason.endswith("spec")


def test_without_options_there_is_no_placement() -> None:
    ledger = a_ledger(a_job_of(K.STOCKOUT))
    assert ledger.last is not None
    assert ledger.last.outcome is not None
    decision = decide(
        ledger, ledger.last.outcome, Progress.NOT_ADVANCED, (), Budget(retries=0), T0.add(hours=1)
    )

    assert decision.action is REQUEUE
    assert decision.placement is None
    assert decision.delay is not None
    assert decision.delay.total_seconds() > 0
    memory = an_outcome("Replicas low on memory: workerpool0.")
    assert decide(ledger, memory, Progress.NOT_ADVANCED, (), Budget(retries=0), T0).action is FAIL


def test_without_options_the_reason_names_no_place() -> None:
    rules = [FailureRule(kinds=["USER_CODE"], action="requeue", delay=0)]
    ledger = a_ledger(a_job(), rules=rules)
    last = ledger.last
    assert last is not None
    assert last.outcome is not None

    decision = decide(ledger, last.outcome, Progress.NOT_ADVANCED, rules, Budget(retries=0), T0)
    assert decision.reason == "failure_rules[0] says requeue: submitting again inside this try at once"


# --- delays ----------------------------------------------------------------------------------------------------


def longest(*jobs: object, **more: object) -> float:
    drawn = [decided(*jobs, retries=40, seed=str(seed), **more).delay for seed in range(120)]  # type: ignore[arg-type]
    return max(delay.total_seconds() for delay in drawn if delay is not None)


@pytest.mark.parametrize(
    ("kind", "limits"),
    [(K.STOCKOUT, [60, 120, 240, 480, 900]), (K.QUOTA, [30, 60, 120, 240, 480, 600]), (K.CRASH, [30, 60]),
     (K.PREEMPTED, [10, 20, 40, 80, 160, 300]), (K.INTERNAL, [30, 60]), (K.LOST, [10, 20]), (K.UNKNOWN, [60, 120])],
)  # fmt: skip
def test_the_limit_of_the_delay_doubles_with_each_end_alike(kind: FailureKind, limits: list[float]) -> None:
    for number, limit in enumerate(limits, start=1):
        jobs = [a_job_of(kind, index) for index in range(number)]

        assert limit * 0.9 < longest(*jobs) <= limit


def test_another_kind_in_between_starts_the_delay_anew() -> None:
    jobs = [a_job_of(K.UNKNOWN, 0), a_job_of(K.UNKNOWN, 1), a_job_of(K.LOST, 2), a_job_of(K.UNKNOWN, 3)]

    assert longest(*jobs) <= 60


def test_a_job_that_got_further_starts_the_delay_anew() -> None:
    jobs = [a_job_of(K.PREEMPTED, index, resume_step=10 * index) for index in range(5)]

    assert longest(*jobs, newest=50) <= 10


def test_a_duplicate_in_between_does_not() -> None:
    twin = a_job_of(K.CANCELLED, 1, create_time=T0.add(seconds=30))
    jobs = [a_job_of(K.UNKNOWN, 0), twin, a_job_of(K.UNKNOWN, 2)]

    assert 108 < longest(*jobs) <= 120


def test_refused_submits_are_counted_in_the_back_off() -> None:
    def at_most(count: int) -> float:
        return longest(outcome=a_refusal(QUOTA, 8), refusals=Refusals(count=count, since=T0), now=T0)

    assert 27 < at_most(1) <= 30
    assert 108 < at_most(3) <= 120


def test_the_same_question_gets_the_same_answer_and_tasks_differ() -> None:
    job = a_job_of(K.UNKNOWN)

    assert decided(job, retries=3, seed="a") == decided(job, retries=3, seed="a")
    assert decided(job, retries=3, seed="a").delay != decided(job, retries=3, seed="b").delay
    other = a_job_of(K.UNKNOWN, name="other")
    assert decided(job, retries=3, seed="a").delay != decided(other, retries=3, seed="a").delay


def test_the_delay_is_drawn_from_the_task_its_last_job_and_their_number() -> None:
    regions = ["us-central1", "us-west1"]
    jobs = [a_job_of(K.STOCKOUT, index, region=regions[index % 2]) for index in range(4)]
    name = jobs[-1].name

    assert decided(*jobs, regions=regions, seed="key").delay == full_jitter(
        ACTIONS[K.STOCKOUT].backoff, attempt=2, seed=f"key|{name}|4|0"
    )


def test_each_refusal_draws_anew() -> None:
    drawn = {
        decided(outcome=a_refusal("?", 14), retries=3, refusals=Refusals(count=count, since=T0), now=T0).delay
        for count in (1, 2, 3)
    }

    assert len(drawn) == 3


def test_a_retry_waits_the_tasks_own_delay_where_the_user_set_one() -> None:
    own = pendulum.duration(seconds=7)

    assert decided(a_job_of(K.CRASH), retries=9, retry_delay=own).delay == own
    assert decided(a_job_of(K.STOCKOUT), retries=9, retry_delay=own).delay != own


# --- rules -----------------------------------------------------------------------------------------------------


def test_a_rule_goes_before_the_table() -> None:
    rules = [
        FailureRule(exit_codes=[76], action="fail"),
        FailureRule(exit_codes=[75], action="requeue", delay=datetime.timedelta(minutes=5)),
    ]
    decision = decided(a_job(error_message=exited(75)), rules=rules)

    assert decision.action is REQUEUE
    assert decision.kind is K.USER_CODE
    assert decision.rule == 1
    assert decision.delay == pendulum.duration(minutes=5)
    assert decision.reason == "failure_rules[1] says requeue: submitting again inside this try in 5 min"
    assert decision.runs_charged == 0


def test_a_rule_can_fail_what_would_be_tried_again() -> None:
    decision = decided(a_job_of(K.STOCKOUT), rules=[FailureRule(kinds=["STOCKOUT"], action="fail")])

    assert decision.action is FAIL
    assert decision.reason == "failure_rules[0] says fail"
    assert decision.rule == 0


def test_a_rule_can_retry_a_user_error_while_the_budget_lasts() -> None:
    rules = [FailureRule(kinds=["USER_CODE"], action="retry", delay=3)]

    first = decided(a_job(0), retries=1, rules=rules)
    second = decided(a_job(0), a_job(1), retries=1, rules=rules)

    assert (first.action, first.delay) == (RETRY, pendulum.duration(seconds=3))
    assert second.action is FAIL
    assert second.reason == "the platform already ran this 2 times, and retries=1 buys 2 runs"


def test_a_rules_delay_goes_before_the_tasks_own() -> None:
    rules = [FailureRule(kinds=["CRASH"], delay=3)]
    own = pendulum.duration(seconds=7)

    assert decided(a_job_of(K.CRASH), retries=9, rules=rules, retry_delay=own).delay == pendulum.duration(
        seconds=3
    )


def test_a_rule_without_a_delay_waits_by_the_kind() -> None:
    rules = [FailureRule(kinds=["USER_CODE"], action="requeue")]
    delay = decided(a_job(), rules=rules).delay

    assert delay is not None
    assert 0 < delay.total_seconds() <= 30


def test_a_rule_can_go_on_after_a_run_timeout() -> None:
    rules = [FailureRule(kinds=["RUN_TIMEOUT"], action="requeue")]

    assert decided(a_job_of(K.RUN_TIMEOUT), rules=rules).action is REQUEUE


@pytest.mark.parametrize("types", [[], ["m4"]])
def test_a_rule_can_try_the_same_machine_again(types: list[str]) -> None:
    rules = [FailureRule(kinds=["OUT_OF_MEMORY"], action="retry")]
    decision = decided(
        a_job_of(K.OUT_OF_MEMORY, machine_type="m4"), retries=1, rules=rules, machine_types=types
    )

    assert decision.action is RETRY
    assert decision.placement == Placement(region="us-central1", machine_type=types[0] if types else None)


def test_a_rule_for_a_kind_with_a_ladder_still_climbs() -> None:
    rules = [FailureRule(kinds=["OUT_OF_MEMORY"], action="retry")]
    decision = decided(
        a_job_of(K.OUT_OF_MEMORY, machine_type="m4"), retries=1, rules=rules, machine_types=["m8"]
    )

    assert decision.placement == Placement(region="us-central1", machine_type="m8")


# --- cancels ---------------------------------------------------------------------------------------------------


def test_a_cancel_of_an_earlier_try_does_not_fail_a_new_one() -> None:
    decision = decided(a_job_of(K.CANCELLED), own_try=False)

    assert decision.action is REQUEUE
    assert decision.kind is K.CANCELLED
    assert decision.delay == pendulum.duration()
    assert decision.budget_left == 1
    assert decision.reason == (
        "the job of an earlier try was cancelled: submitting again inside this try at once"
    )


def test_our_own_cancel_does_not_fail_the_task() -> None:
    assert decided(a_job_of(K.CANCELLED, cancelled_by_us=True)).action is REQUEUE


@pytest.mark.parametrize("kind", [K.USER_CODE, K.RUN_TIMEOUT, K.INVALID_REQUEST])
def test_other_ends_of_an_earlier_try_are_judged_alike(kind: FailureKind) -> None:
    assert decided(a_job_of(kind), own_try=False).action is FAIL


# --- as data ---------------------------------------------------------------------------------------------------


def test_a_decision_can_be_pickled_and_copied() -> None:
    decision = decided(a_job_of(K.STOCKOUT), regions=["us-central1", "us-west1"])

    assert pickle.loads(pickle.dumps(decision)) == decision
    assert copy.deepcopy(decision) == decision
