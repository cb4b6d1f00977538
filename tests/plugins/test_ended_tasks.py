"""The listener knows our tasks by their rendered fields, in Airflow's own database, and never harms a request."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator
from airflow_provider.agent_platform.plugins import ended_tasks
from airflow_provider.agent_platform.plugins.ended_tasks import training_task

IDS = SimpleNamespace(dag_id="dag", run_id="run", task_id="train", map_index=3)


def fields(**arguments: Any) -> dict[str, Any]:
    """The rendered fields of an operator in the form in which Airflow stores them."""
    operator = ContainerTrainingOperator(
        task_id="train", image="python:3", machine_type="n1-standard-4", **arguments
    )
    stored: dict[str, Any] = json.loads(
        json.dumps({name: getattr(operator, name) for name in operator.template_fields})
    )
    return stored


def test_a_task_of_ours_says_where_its_jobs_are() -> None:
    task = training_task(
        IDS,
        fields(
            project_id="p",
            region="us-central1",
            fallback_regions=["europe-west4"],
            gcp_conn_id="gpus",
            impersonation_chain=["a@x", "b@x"],
        ),
    )
    assert task is not None
    assert (task.dag_id, task.run_id, task.task_id, task.map_index) == ("dag", "run", "train", 3)
    assert (task.project_id, task.regions) == ("p", ("us-central1", "europe-west4"))
    assert (task.gcp_conn_id, task.impersonation_chain) == ("gpus", ("a@x", "b@x"))


def test_what_the_connection_says_stays_open() -> None:
    task = training_task(IDS, fields())
    assert task is not None
    assert (task.project_id, task.regions, task.impersonation_chain) == (None, (None,), None)


@pytest.mark.parametrize(
    "stored", [None, {}, {"bash_command": "true"}, {"project_id": "p", "region": "r", "gcp_conn_id": "c"}]
)
def test_other_peoples_tasks_are_none_of_ours(stored: dict[str, Any] | None) -> None:
    assert training_task(IDS, stored) is None


def test_an_object_without_a_session_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    ended_tasks.note(SimpleNamespace(dag_id="a task of a worker"))
    assert "cannot be told" in caplog.text


_IN_AIRFLOWS_DATABASE = """
import datetime, json, sys, types, uuid
from airflow.models import DagRun, Log
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import insert, select
from airflow_provider.agent_platform.plugins import database, ended_tasks

added = []
ended_tasks.sweep.add = added.append
ids = dict(dag_id="dag", run_id="run", task_id="train", map_index=-1)
now = datetime.datetime.now(datetime.timezone.utc)
with create_session(scoped=False) as session:
    session.execute(insert(DagRun).values(dag_id="dag", run_id="run", run_type="manual", run_after=now, clear_number=0))
    session.execute(insert(TaskInstance).values(**ids, id=uuid.uuid4(), state="failed", try_number=1, max_tries=0,
        pool="default_pool", pool_slots=1, queue="q", priority_weight=1, executor_config={}))
    session.execute(insert(RenderedTaskInstanceFields).values(**ids, rendered_fields=json.loads(sys.argv[1])))
with create_session(scoped=False) as session:
    ti = session.scalars(select(TaskInstance)).one()
    ended_tasks.on_task_instance_failed(previous_state=None, task_instance=ti, error="marked")
    assert database.task_state(ti) == (True, "failed"), database.task_state(ti)
(task,) = added
assert database.task_state(types.SimpleNamespace(**{**ids, "run_id": "gone"})) == (False, None)
database.leave_trace(task, "cancelled it")
with create_session(scoped=False) as session:
    entry = session.scalars(select(Log)).one()
    print(json.dumps([task.gcp_conn_id, task.regions, entry.event, entry.dag_id, entry.task_id, entry.run_id, entry.extra]))
"""


def test_the_database_of_airflow_is_read_and_written(airflow_database: Path) -> None:
    stored = json.dumps(fields(gcp_conn_id="gpus", region="us-central1"))
    done = subprocess.run(
        [sys.executable, "-c", _IN_AIRFLOWS_DATABASE, stored],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        *("gpus", ["us-central1"], "cancel training job", "dag", "train", "run", "cancelled it")
    ]
