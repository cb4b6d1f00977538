"""What a failure that stays costs: numbers for the page, played by the policy itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider.agent_platform.policy.failures import FailureKind, classify
from airflow_provider.agent_platform.policy.forecast import SAMPLES, Forecast, ours, plain, record_of
from airflow_provider.agent_platform.policy.kinds import FailurePhase
from tests.policy.builders import a_refusal

K = FailureKind
BY_KIND = {sample.kind: sample for sample in SAMPLES}


def test_there_is_one_sample_of_each_kind_in_their_order() -> None:
    assert [sample.kind for sample in SAMPLES] == list(FailureKind)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_sample_is_classified_as_its_kind(kind: FailureKind) -> None:
    sample = BY_KIND[kind]
    if sample.phase is FailurePhase.SUBMIT:
        outcome = a_refusal(sample.message, sample.code)
    else:
        outcome = classify(record_of(sample, 0).evidence())

    assert outcome.kind is kind


@pytest.mark.parametrize(
    ("kind", "retries", "theirs", "mine"),
    [
        (K.USER_CODE, 3, Forecast(jobs=4, runs=4, tries=4), Forecast(jobs=1, runs=1, tries=1)),
        (K.CRASH, 3, Forecast(jobs=4, runs=16, tries=4), Forecast(jobs=1, runs=4, tries=1)),
        (K.CRASH, 5, Forecast(jobs=6, runs=24, tries=6), Forecast(jobs=2, runs=8, tries=2)),
        (K.INTERNAL, 0, Forecast(jobs=1, runs=3, tries=1), Forecast(jobs=1, runs=3, tries=1)),
        (K.INTERNAL, 1, Forecast(jobs=2, runs=6, tries=2), Forecast(jobs=1, runs=3, tries=1)),
        (K.INTERNAL, 5, Forecast(jobs=6, runs=18, tries=6), Forecast(jobs=4, runs=6, tries=4)),
        (K.UNKNOWN, 5, Forecast(jobs=6, runs=6, tries=6), Forecast(jobs=6, runs=6, tries=6)),
        (K.PREEMPTED, 1, Forecast(jobs=2, runs=14, tries=2), Forecast(jobs=2, runs=14, tries=2)),
        (K.STOCKOUT, 2, Forecast(jobs=3, runs=12, tries=3), Forecast(jobs=12, runs=48, tries=1, waits=True)),
        (K.QUOTA, 0, Forecast(jobs=1, runs=0, tries=1), Forecast(jobs=10, runs=0, tries=1, waits=True)),
        (K.PERMISSION_DENIED, 5, Forecast(jobs=6, runs=0, tries=6), Forecast(jobs=1, runs=0, tries=1)),
        (K.CANCELLED, 2, Forecast(jobs=3, runs=3, tries=3), Forecast(jobs=1, runs=1, tries=1)),
    ],
)
def test_runs_are_never_multiplied(kind: FailureKind, retries: int, theirs: Forecast, mine: Forecast) -> None:
    assert plain(BY_KIND[kind], retries) == theirs
    assert ours(BY_KIND[kind], retries) == mine


def test_a_submit_that_is_refused_for_ever_ends_as_well() -> None:
    quota = replace(BY_KIND[K.QUOTA], phase=FailurePhase.SUBMIT)

    assert ours(quota, 0) == Forecast(jobs=10, runs=0, tries=1, waits=True)


@pytest.mark.parametrize("kind", [K.CRASH, K.INTERNAL, K.UNKNOWN, K.LOST])
def test_a_later_job_is_only_submitted_while_a_run_is_left(kind: FailureKind) -> None:
    for retries in range(12):
        mine = ours(BY_KIND[kind], retries)

        assert mine.tries == mine.jobs <= retries + 1
        # Over the budget at most by the platform's own three of the last job, which cannot be stopped.
        assert mine.runs <= retries + 1 + 3
