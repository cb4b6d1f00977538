"""What a user's marks hand to the sweep, in Airflow's own code and database; and a listener never harms a request."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.agent_platform.plugins import ended_tasks
from airflow_provider.agent_platform.plugins.ended_task import EndedTask


@pytest.fixture(scope="module")
def said(airflow_database: Path) -> dict[str, Any]:
    """What the program ``marks`` saw."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.plugins.marks"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_marked_task_of_ours_is_handed_over_and_another_operators_is_not(said: dict[str, Any]) -> None:
    assert said["a task"] == ["waiting"]


@pytest.mark.parametrize("state", ["failed", "success"])
def test_of_a_marked_run_a_task_between_two_tries_is_handed_over_too(
    said: dict[str, Any], state: str
) -> None:
    assert said[f"a run as {state}"] == ["retrying", "waiting"]


def test_the_state_is_read_again_later_and_a_deleted_task_is_told_apart(said: dict[str, Any]) -> None:
    assert said["state"][0] is True
    assert said["state"][1] in {"success", "skipped"}
    assert said["state of a deleted run"] == [False, None]


def test_the_audit_log_names_the_task(said: dict[str, Any]) -> None:
    dag_id, run_id, task_id, map_index, text = said["trace"]
    assert (dag_id, run_id, map_index, text) == ("dag", "success", -1, "cancelled it")
    assert task_id in {"retrying", "waiting"}


@pytest.mark.parametrize(
    "note", [None, {}, "text", {"try": 1, "job": "j"}, {"try": 1, "job": "j", "where": {}}]
)
def test_a_note_that_does_not_say_where_is_passed_over(note: Any) -> None:
    assert EndedTask.of("dag", "run", "train", -1, note) is None


def test_whatever_is_wrong_the_request_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    row = SimpleNamespace(dag_id="not a row of a database")
    ended_tasks.on_task_instance_failed(previous_state=None, task_instance=row, error="")
    ended_tasks.on_dag_run_failed(dag_run=row, msg="")
    assert caplog.text.count("cannot be told") == 2
