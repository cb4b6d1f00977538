"""Which states are ends, and what a number we do not know is."""

from __future__ import annotations

import pytest

from airflow_provider.agent_platform.policy import states
from airflow_provider.agent_platform.policy.states import JobState

ENDS = {4, 5, 7, 9, 11}


def test_the_numbers_are_those_of_the_client_library() -> None:
    from google.cloud.aiplatform_v1.types import JobState as Google

    ours = {"JOB_STATE_" + state.name: int(state) for state in JobState}

    assert ours == {state.name: state.value for state in Google}  # type: ignore[attr-defined]  # untyped proto enum


@pytest.mark.parametrize("state", range(12))
def test_every_state_is_live_or_an_end(state: int) -> None:
    assert states.is_end(state) is (state in ENDS)
    assert states.is_live(state) is (state not in ENDS)


@pytest.mark.parametrize("state", [-1, 12, 99])
def test_an_unknown_state_is_live_and_never_a_success(state: int) -> None:
    assert states.is_live(state)
    assert not states.is_end(state)
    assert not states.is_success(state)
    assert not states.has_failed(state)
    assert not states.is_waiting(state)


@pytest.mark.parametrize("state", range(12))
def test_only_succeeded_is_a_success(state: int) -> None:
    assert states.is_success(state) is (state == 4)
    assert states.has_failed(state) is (state in ENDS - {4})


def test_a_job_waits_while_it_is_queued_or_pending() -> None:
    assert [state for state in range(12) if states.is_waiting(state)] == [1, 2]


def test_a_state_has_the_name_of_the_api() -> None:
    assert states.state_name(3) == "JOB_STATE_RUNNING"
    assert states.state_name(42) == "JOB_STATE_42"


@pytest.mark.parametrize("text", ["FAILED", "failed", " JOB_STATE_FAILED ", "job_state_failed", "5"])
def test_a_state_is_read_as_people_write_it(text: str) -> None:
    assert states.state_of(text) == 5


def test_a_number_that_is_not_in_the_table_is_read_as_it_is() -> None:
    assert states.state_of("42") == 42


def test_a_name_that_is_no_state_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(
        ValueError, match=r"^state 'BROKEN' is not a job state; give one of UNSPECIFIED, QUEUED, "
    ):
        states.state_of("BROKEN")
