"""Whose job it is when a trigger was cancelled: a table, and the value it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts
from airflow_provider.agent_platform.triggers.ownership import (
    OWNER_XCOM_KEY,
    Owner,
    Verdict,
    owner_value,
    verdict,
)
from airflow_provider.agent_platform.triggers.supervisor import TaskState, states_key

JOB, OTHER = "projects/1/locations/r/customJobs/1", "projects/1/locations/r/customJobs/2"
OURS = Owner(try_number=2, job_name=JOB)
NEWER = Owner(try_number=3, job_name=JOB)
NEWER_OTHER = Owner(try_number=3, job_name=OTHER)

TABLE = [
    # exists, state, owner, first answer, last answer
    (False, None, None, Verdict.CANCEL, Verdict.CANCEL),
    (True, "failed", OURS, Verdict.CANCEL, Verdict.CANCEL),
    (True, "success", OURS, Verdict.CANCEL, Verdict.CANCEL),
    (True, "skipped", OURS, Verdict.CANCEL, Verdict.CANCEL),
    (True, "removed", OURS, Verdict.CANCEL, Verdict.CANCEL),
    # moved to another triggerer
    (True, "deferred", OURS, Verdict.KEEP, Verdict.KEEP),
    # Airflow failed the try (a state mismatch, a lost heartbeat): the next one adopts
    (True, "up_for_retry", OURS, Verdict.KEEP, Verdict.KEEP),
    (True, "restarting", OURS, Verdict.KEEP, Verdict.KEEP),
    # cleared: the new try does it, but not if it does not come
    (True, None, OURS, Verdict.ASK_AGAIN, Verdict.CANCEL),
    (True, "scheduled", OURS, Verdict.ASK_AGAIN, Verdict.CANCEL),
    (True, "queued", OURS, Verdict.ASK_AGAIN, Verdict.CANCEL),
    # resumed, or a new try before it cleared the XComs
    (True, "running", OURS, Verdict.ASK_AGAIN, Verdict.KEEP),
    # the new try is at work
    (True, "running", None, Verdict.ASK_AGAIN, Verdict.KEEP),
    (True, "deferred", None, Verdict.ASK_AGAIN, Verdict.KEEP),
    (True, "deferred", NEWER, Verdict.ASK_AGAIN, Verdict.KEEP),
    (True, "deferred", NEWER_OTHER, Verdict.ASK_AGAIN, Verdict.CANCEL),
    (True, "running", NEWER_OTHER, Verdict.ASK_AGAIN, Verdict.CANCEL),
    # of a later Airflow
    (True, "paused_somehow", OURS, Verdict.ASK_AGAIN, Verdict.KEEP),
]


@pytest.mark.parametrize(("exists", "state", "owner", "first", "last"), TABLE)
def test_the_verdict(
    exists: bool, state: str | None, owner: Owner | None, first: Verdict, last: Verdict
) -> None:
    task = TaskState(exists=exists, state=state)
    for expected, is_last in ((first, False), (last, True)):
        answer, why = verdict(task, owner, try_number=2, job_name=JOB, last=is_last)
        assert answer is expected
        assert why


def test_the_last_answer_is_never_to_ask_again() -> None:
    for state in (None, "running", "deferred", "queued", "what"):
        for owner in (None, OURS, NEWER, NEWER_OTHER):
            answer, _ = verdict(
                TaskState(exists=True, state=state), owner, try_number=2, job_name=JOB, last=True
            )
            assert answer is not Verdict.ASK_AGAIN


def test_every_state_of_airflow_is_in_the_table() -> None:
    from airflow.utils.state import TaskInstanceState

    from airflow_provider.agent_platform.triggers.ownership import STATES

    assert {state.value for state in TaskInstanceState} - set(STATES) == set()


@pytest.mark.parametrize("value", [owner_value(try_number=2, job_name=JOB), f'{{"try": 2, "job": "{JOB}"}}'])
def test_the_owner_is_read_as_it_was_written(value: Any) -> None:
    assert Owner.parse(value) == OURS


@pytest.mark.parametrize("value", [None, "", "text", 3, [], {}, {"try": "2", "job": JOB}, {"try": 2}])
def test_anything_else_is_no_owner(value: Any) -> None:
    assert Owner.parse(value) is None


def test_names_that_tasks_in_flight_rest_on_are_what_they_were() -> None:
    assert OWNER_XCOM_KEY == "training_job_owner"
    assert owner_value(try_number=1, job_name=JOB) == {"try": 1, "job": JOB}


def test_the_key_of_a_mapped_task_is_the_one_of_airflows_execution_api() -> None:
    import airflow

    path = Path(airflow.__path__[0]) / "api_fastapi" / "execution_api" / "routes" / "task_instances.py"
    source = path.read_text()
    # Read from Airflow, so that a change there is noticed here.
    assert 'f"{task.task_id}_{task.map_index}"' in source
    assert "{task.task_id: task.state}" in source
    assert (states_key("train", -1), states_key("train", 0)) == ("train", "train_0")


def test_a_newer_try_that_has_no_job_yet_adopts_the_old_ones() -> None:
    newest = Owner(try_number=3, job_name="")
    answer, _ = verdict(
        TaskState(exists=True, state="running"), newest, try_number=2, job_name=JOB, last=True
    )
    assert answer is Verdict.KEEP


def test_the_note_says_where_the_jobs_are_too() -> None:
    where = Whereabouts(
        key="k", job_type="custom_job", project_id="p", regions=("us-central1",), gcp_conn_id="gpus"
    )
    note = owner_value(try_number=2, job_name=JOB, where=where)
    assert Owner.parse(json.loads(json.dumps(note))) == Owner(try_number=2, job_name=JOB, where=where)
    assert Owner.parse({**note, "where": "of another version"}) == OURS
