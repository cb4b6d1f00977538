"""Which jobs are of the tries since the last clear, whatever somebody did to ``retries`` in the DAG meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.agent_platform.policy.epochs import current_epoch
from airflow_provider.agent_platform.policy.job import JobRecord


def job(epoch: int, max_tries: int | None) -> JobRecord:
    name = f"projects/1/locations/us-central1/customJobs/{epoch}"
    return JobRecord(name=name, region="us-central1", state=3, epoch=epoch, max_tries=max_tries)


@pytest.mark.parametrize("first_guess", [0, 1, 2, 7])
def test_a_try_is_of_the_epoch_of_the_jobs_with_its_max_tries(first_guess: int) -> None:
    jobs = [job(0, 1), job(1, 2)]
    assert current_epoch(jobs, max_tries=2, first_guess=first_guess) == 1


def test_without_any_job_the_guess_is_right() -> None:
    assert current_epoch([], max_tries=3, first_guess=0) == 0


def test_a_clear_begins_a_new_epoch_also_when_its_number_is_taken() -> None:
    jobs = [job(0, 1), job(4, 5)]
    assert current_epoch(jobs, max_tries=6, first_guess=5) == 5
    assert current_epoch(jobs, max_tries=6, first_guess=4) == 5
    assert current_epoch(jobs, max_tries=6, first_guess=0) == 5


def test_a_job_without_the_label_belongs_to_the_epoch_it_names() -> None:
    assert current_epoch([job(2, None)], max_tries=3, first_guess=2) == 2
    assert current_epoch([job(2, None)], max_tries=3, first_guess=0) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=12))
def test_whatever_is_changed_between_tries_an_epoch_ends_with_a_clear_and_only_then(
    steps: list[tuple[bool, int]],
) -> None:
    """Airflow's own arithmetic: each step is a next try, by a retry or a clear, with ``retries`` as the DAG has it then."""
    jobs: list[JobRecord] = []
    max_tries, retries, clears = 1, 1, 0
    expected: dict[int, int] = {}
    for number, (cleared, new_retries) in enumerate(steps, start=1):
        if cleared and number > 1:
            after = (number - 1) + new_retries
            if after in {record.max_tries for record in jobs}:
                return  # retries was lowered by just the tries that were spent: see docs/one-job.md
            max_tries, clears = after, clears + 1
        retries = new_retries
        epoch = current_epoch(jobs, max_tries=max_tries, first_guess=max(0, max_tries - retries))
        assert expected.setdefault(clears, epoch) == epoch
        jobs.append(job(epoch, max_tries))
    assert len(set(expected.values())) == len(expected)
