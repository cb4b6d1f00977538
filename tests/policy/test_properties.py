"""What holds for every ledger and every end, whatever the platform says: played by hypothesis.

The epochs are played as the lifecycle plays them: read the ledger, decide, submit; the platform's part is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pendulum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.agent_platform.policy.decide import (
    Action,
    Budget,
    Decision,
    Progress,
    Refusals,
    decide,
    platform_retries,
    queue_deadline,
)
from airflow_provider.agent_platform.policy.failures import (
    EndedBy,
    FailureEvidence,
    FailureKind,
    FailurePhase,
    FailureRule,
    Outcome,
    classify,
)
from airflow_provider.agent_platform.policy.job import JobRecord
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.placement import PlacementOptions
from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP, Step
from airflow_provider.agent_platform.policy.report import decision_line, failure_message
from airflow_provider.agent_platform.policy.states import JobState, is_live
from tests.policy.builders import (
    INTERNAL,
    LOW_ON_DISK,
    LOW_ON_MEMORY,
    QUOTA,
    STOCKOUT,
    T0,
    a_job_of,
    a_refusal,
    exited,
)

K = FailureKind
FAIL_KINDS = [
    K.USER_CODE, K.CANNOT_START, K.INVALID_REQUEST, K.PERMISSION_DENIED, K.CANCELLED, K.RUN_TIMEOUT, K.QUEUE_TIMEOUT
]  # fmt: skip
REGIONS = ("us-central1", "us-west1", "europe-west4")
LADDER = ("m8", "m16")

texts = st.one_of(
    st.sampled_from([INTERNAL, STOCKOUT, QUOTA, LOW_ON_MEMORY, LOW_ON_DISK, "", "Something new."]),
    st.builds(exited, st.integers(-10, 260), st.sampled_from(["workerpool0-0", "master 0", "ps 12"])),
    st.text(max_size=80),
)
steps: st.SearchStrategy[Step] = st.one_of(st.none(), st.just(UNKNOWN_STEP), st.integers(0, 50))
codes = st.one_of(st.none(), st.integers(0, 17))
rules = st.lists(
    st.builds(
        FailureRule,
        kinds=st.lists(st.sampled_from(list(FailureKind)), min_size=1, max_size=3),
        action=st.sampled_from(["retry", "requeue"]),
        delay=st.one_of(st.none(), st.integers(0, 10_000)),
    ),
    max_size=3,
).map(tuple)
budgets = st.builds(
    Budget,
    retries=st.integers(0, 8),
    max_jobs=st.integers(1, 15),
    queue_timeout=st.one_of(st.none(), st.integers(1, 20_000).map(lambda s: pendulum.duration(seconds=s))),
)
options = st.builds(
    PlacementOptions,
    regions=st.sampled_from([REGIONS[:1], REGIONS[:2], REGIONS]),
    machine_types=st.sampled_from([(), LADDER[:1], LADDER]),
)
times = st.one_of(st.none(), st.integers(0, 500_000).map(lambda seconds: T0.add(seconds=seconds)))


@st.composite
def any_records(draw: st.DrawFn) -> list[JobRecord]:
    """Jobs in any state, with times that need not make sense."""
    return [
        JobRecord(
            name=f"job-{index}",
            region=draw(st.sampled_from([*REGIONS, "mars"])),
            state=draw(st.integers(0, 14)),
            error_code=draw(codes),
            error_message=draw(st.one_of(st.none(), texts)),
            create_time=draw(times),
            start_time=draw(times),
            end_time=draw(times),
            update_time=draw(times),
            resume_step=draw(steps),
            strategy=draw(st.sampled_from([None, "SPOT", "STANDARD"])),
            machine_type=draw(st.sampled_from([None, "m4", *LADDER])),
            disable_retries=draw(st.booleans()),
            cancelled_by_us=draw(st.booleans()),
            timeout_seconds=draw(st.one_of(st.none(), st.floats(0, 1000))),
            ended_by=draw(st.one_of(st.none(), st.sampled_from(EndedBy))),
        )
        for index in range(draw(st.integers(0, 6)))
    ]


evidences = st.builds(
    FailureEvidence,
    state=st.sampled_from([state for state in range(15) if not is_live(state)]),
    code=codes,
    message=texts,
    phase=st.sampled_from(FailurePhase),
    strategy=st.sampled_from([None, "SPOT", "STANDARD"]),
    ever_started=st.booleans(),
    disable_retries=st.booleans(),
    ended_by=st.one_of(st.none(), st.sampled_from(EndedBy)),
    run_seconds=st.one_of(st.none(), st.floats(0, 1e6)),
    timeout_seconds=st.one_of(st.none(), st.floats(0, 1e6)),
)


@given(
    records=any_records(),
    evidence=evidences,
    newest=steps,
    progress=st.sampled_from(Progress),
    rules=rules,
    budget=budgets,
    options=options,
    own_try=st.booleans(),
    tries_left=st.one_of(st.none(), st.integers(-1, 3)),
    refused=st.integers(0, 4),
    now=st.integers(0, 600_000),
)
def test_decide_is_total_and_pure(
    records: list[JobRecord], evidence: FailureEvidence, newest: Step, now: int, refused: int, **more: Any
) -> None:
    clock = T0.add(seconds=now)
    rules, budget = more.pop("rules"), more.pop("budget")
    progress = more.pop("progress")
    refusals = Refusals(count=refused, since=T0 if refused else None)
    outcome = classify(evidence, rules)

    def once(jobs: list[JobRecord]) -> tuple[Ledger, Decision]:
        ledger = Ledger.of(jobs, newest_step=newest, rules=rules, now=clock)
        return ledger, decide(
            ledger, outcome, progress, rules, budget, clock, refusals=refusals, seed="key", **more
        )

    ledger, decision = once(records)

    # The order in which the platform lists jobs is nobody's promise.
    assert once(list(reversed(records))) == (ledger, decision)
    assert decision.submits is (decision.at is not None)
    assert decision.submits is (decision.placement is not None)
    assert decision.delay is None or decision.delay.total_seconds() >= 0
    assert decision.reason
    assert "\n" not in decision_line(outcome, decision, job_name="j")
    assert failure_message(outcome, decision)
    assert ledger.to_json()
    assert (
        queue_deadline(ledger, budget, clock, refusals=refusals) is None or budget.queue_timeout is not None
    )
    if outcome.kind is None:
        assert decision.action is Action.SUCCEED
    else:
        assert decision.action is not Action.SUCCEED
    if decision.submits:
        assert ledger.jobs + refusals.count < budget.max_jobs
        assert ledger.runs_charged + ledger.runs_held < budget.runs


@given(records=any_records(), newest=steps, rules=rules)
def test_the_three_columns_of_any_ledger_are_in_order(
    records: list[JobRecord], newest: Step, rules: tuple[FailureRule, ...]
) -> None:
    ledger = Ledger.of(records, newest_step=newest, rules=rules)

    assert ledger.runs_charged + ledger.runs_held <= ledger.runs_at_worst
    for entry in ledger.entries:
        assert entry.runs_held in (0, 1)
        assert not (entry.runs_held and entry.runs_charged)
        if entry.progress is not Progress.NOT_ADVANCED:
            assert entry.runs_charged == 0
        if entry.progress is not Progress.UNKNOWN:
            assert entry.runs_held == 0
        if not rules:
            assert entry.runs_charged <= entry.runs_happened


@given(message=texts, code=codes, state=st.sampled_from([5, 9, 11]))
def test_no_text_and_no_code_make_a_failure_a_success(message: str, code: int | None, state: int) -> None:
    assert classify(FailureEvidence(state=state, code=code, message=message)).kind is not None


@given(quoted=texts, code=codes, strategy=st.sampled_from([None, "SPOT"]))
def test_whatever_a_traceback_quotes_it_stays_the_users(
    quoted: str, code: int | None, strategy: str | None
) -> None:
    text = exited(1) + "Traceback (most recent call last):\n" + quoted

    outcome = classify(
        FailureEvidence(state=JobState.FAILED, code=code, message=text, strategy=strategy, ever_started=True)
    )
    assert outcome.kind is K.USER_CODE
    assert outcome.replica == "workerpool0-0"


@dataclass
class Epoch:
    """One epoch, played: the platform's part is drawn, ours is decided."""

    draw: st.DrawFn | Any
    budget: Budget
    rules: tuple[FailureRule, ...]
    kinds: list[FailureKind]
    options: PlacementOptions
    with_tries: bool
    records: list[JobRecord] = field(default_factory=list)
    decisions: list[tuple[Outcome, Decision, Ledger]] = field(default_factory=list)
    refused: Refusals = field(default_factory=Refusals)
    submits: int = 0
    tries: int = 1
    step: Step = None
    now: pendulum.DateTime = T0

    def play(self) -> None:
        placement = None
        while True:
            self.submits += 1
            outcome = self._refusal() if self.draw(st.integers(0, 5)) == 0 else None
            if outcome is None:
                self._job(placement)
            # Refused submits count since the last job: none of them made one.
            assert len(self.records) + self.refused.count <= self.budget.max_jobs
            ledger = Ledger.of(self.records, newest_step=self.step, rules=self.rules, now=self.now)
            last = ledger.last
            progress = Progress.NOT_ADVANCED
            if outcome is None:
                assert last is not None
                assert last.outcome is not None
                outcome, progress = last.outcome, last.progress
            decision = decide(
                ledger,
                outcome,
                progress,
                self.rules,
                self.budget,
                self.now,
                options=self.options,
                tries_left=self.budget.retries + 1 - self.tries if self.with_tries else None,
                refusals=self.refused,
                seed="ti",
            )
            self.decisions.append((outcome, decision, ledger))
            if not decision.submits:
                return
            assert decision.delay is not None
            self.tries += decision.action is Action.RETRY
            placement = decision.placement
            self.now = self.now + decision.delay

    def _refusal(self) -> Outcome:
        since = self.refused.since or self.now
        self.refused = Refusals(count=self.refused.count + 1, since=since)
        code, text = self.draw(st.sampled_from([(8, QUOTA), (8, STOCKOUT), (14, "?"), (3, "Bad.")]))
        return a_refusal(text, code)

    def _job(self, placement: Any) -> None:
        self.refused = Refusals()
        kind = self.draw(st.sampled_from(self.kinds))
        before = self.step
        self.step = self.draw(st.sampled_from([before, UNKNOWN_STEP, 10 * self.submits]))
        queued, ran = self.draw(st.integers(0, 2000)), self.draw(st.integers(0, 5000))
        ledger = Ledger.of(self.records, newest_step=before, rules=self.rules)
        sample = a_job_of(kind)
        self.records.append(
            a_job_of(
                kind,
                name=f"job-{self.submits}",
                region=placement.region if placement else self.options.regions[0],
                machine_type=(placement.machine_type if placement else None) or "m4",
                create_time=self.now,
                start_time=self.now.add(seconds=queued) if sample.start_time else None,
                end_time=self.now.add(seconds=queued + ran),
                resume_step=before,
                disable_retries=not platform_retries(ledger, self.budget),
            )
        )
        self.now = self.now.add(seconds=queued + ran)


def played(
    data: st.DataObject, kinds: list[FailureKind], *, with_rules: bool, with_tries: bool = True
) -> Epoch:
    epoch = Epoch(
        draw=data.draw,
        budget=data.draw(budgets),
        rules=data.draw(rules) if with_rules else (),
        kinds=kinds,
        options=data.draw(options),
        with_tries=with_tries,
    )
    epoch.play()
    return epoch


@given(data=st.data(), with_rules=st.booleans(), with_tries=st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_sequence_of_ends_goes_past_max_jobs_or_over_the_budget(
    data: st.DataObject, with_rules: bool, with_tries: bool
) -> None:
    epoch = played(data, list(FailureKind), with_rules=with_rules, with_tries=with_tries)

    assert len(epoch.records) <= epoch.budget.max_jobs
    for _, decision, ledger in epoch.decisions:
        if decision.submits:
            assert ledger.runs_charged + ledger.runs_held < epoch.budget.runs


@given(data=st.data(), with_rules=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_requeue_never_costs_a_try_and_a_retry_always_has_one(
    data: st.DataObject, with_rules: bool
) -> None:
    epoch = played(data, list(FailureKind), with_rules=with_rules)

    assert epoch.tries <= epoch.budget.retries + 1
    for outcome, decision, ledger in epoch.decisions:
        if decision.action is Action.REQUEUE and outcome.phase is FailurePhase.JOB:
            assert ledger.last is not None
            assert (ledger.last.runs_charged, ledger.last.runs_held) == (0, 0)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_kinds_that_fail_never_submit(data: st.DataObject) -> None:
    epoch = played(data, list(FailureKind), with_rules=False)

    for outcome, decision, _ in epoch.decisions:
        if outcome.kind in FAIL_KINDS:
            assert decision.action is Action.FAIL


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_without_progress_the_runs_that_count_are_bounded_by_the_budget(data: st.DataObject) -> None:
    """At most the last job goes over, by the retries that the platform makes by itself once it has started."""
    epoch = played(data, [K.CRASH, K.INTERNAL, K.UNKNOWN, K.LOST], with_rules=False, with_tries=False)
    charged = [ledger.runs_charged for _, _, ledger in epoch.decisions]

    assert max(charged) <= epoch.budget.runs + 3


@given(data=st.data(), with_rules=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_process_that_is_killed_and_asks_again_gets_the_same_answer(
    data: st.DataObject, with_rules: bool
) -> None:
    epoch = played(data, list(FailureKind), with_rules=with_rules)
    outcome, decision, _ = epoch.decisions[-1]

    records = data.draw(st.permutations(epoch.records))
    ledger = Ledger.of(records, newest_step=epoch.step, rules=epoch.rules, now=epoch.now)
    last = ledger.last
    again = decide(
        ledger,
        outcome,
        last.progress if last and outcome.phase is FailurePhase.JOB else Progress.NOT_ADVANCED,
        epoch.rules,
        epoch.budget,
        epoch.now,
        options=epoch.options,
        tries_left=epoch.budget.retries + 1 - epoch.tries,
        refusals=epoch.refused,
        seed="ti",
    )
    assert again == decision


@pytest.mark.parametrize("kind", [K.STOCKOUT, K.QUOTA])
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_waits_end_with_queue_timeout_or_max_jobs_and_never_over_them(
    kind: FailureKind, data: st.DataObject
) -> None:
    epoch = played(data, [kind], with_rules=False)
    outcome, decision, ledger = epoch.decisions[-1]

    assert decision.action is Action.FAIL
    if decision.kind is K.QUEUE_TIMEOUT:
        assert epoch.budget.queue_timeout is not None
    elif outcome.kind is kind:
        assert ledger.jobs + epoch.refused.count == epoch.budget.max_jobs
    assert ledger.runs_charged == 0
