"""Run as a program: what Airflow's api-server does when a user marks a task or a run, up to the listener's hand-over.

In: a database in ``AIRFLOW_HOME``. Out: one line of JSON: the tasks handed to the sweep by each mark, and a trace.
"""

from __future__ import annotations

import datetime
import json
import uuid
from typing import Any

import airflow.api_fastapi.main  # noqa: F401 - so that the plugin finds itself in the api-server
from airflow.api_fastapi.core_api.datamodels.dag_run import DagRunMutableStates
from airflow.api_fastapi.core_api.services.public.dag_run import patch_dag_run_state
from airflow.api_fastapi.core_api.services.public.task_instances import _emit_state_listener_hooks
from airflow.models import DagRun, Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.session import create_session
from sqlalchemy import insert, select

from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts
from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator
from airflow_provider.agent_platform.plugins import database, ended_tasks
from airflow_provider.agent_platform.triggers.ownership import OWNER_XCOM_KEY, owner_value

STATES = {"waiting": "deferred", "retrying": "up_for_retry", "trained": "success", "other": "deferred"}

NOW = datetime.datetime.now(datetime.timezone.utc)


def store_run(run_id: str) -> None:
    """A run with one task in each state; ``other`` is of somebody else's operator."""
    with create_session(scoped=False) as session:
        session.execute(
            insert(DagRun).values(
                dag_id="dag", run_id=run_id, run_type="manual", run_after=NOW, clear_number=0, state="running"
            )
        )
        number = session.scalars(select(DagRun.id).where(DagRun.run_id == run_id)).one()
        for task_id, state in STATES.items():
            ids: dict[str, Any] = {"dag_id": "dag", "run_id": run_id, "task_id": task_id, "map_index": -1}
            session.execute(
                insert(TaskInstance).values(
                    **ids,
                    id=uuid.uuid4(),
                    state=state,
                    try_number=1,
                    max_tries=3,
                    pool="default_pool",
                    pool_slots=1,
                    queue="default",
                    priority_weight=1,
                    executor_config={},
                )
            )
            if task_id != "other":
                where = Whereabouts(
                    key=task_id, job_type="custom_job", project_id="p", regions=("r",), gcp_conn_id="gpus"
                )
                note = owner_value(try_number=1, job_name="", where=where)
                session.execute(
                    insert(XComModel).values(
                        **ids, dag_run_id=number, key=OWNER_XCOM_KEY, value=note, timestamp=NOW
                    )
                )


def main() -> None:
    """Mark a task, then a run as failed, then another as success."""
    handed: list[Any] = []
    ended_tasks.sweep.add = handed.append  # type: ignore[method-assign,assignment]
    said: dict[str, Any] = {}

    store_run("one")
    with create_session(scoped=False) as session:
        rows = session.scalars(select(TaskInstance).where(TaskInstance.run_id == "one")).all()
        _emit_state_listener_hooks([row for row in rows if row.task_id in ("waiting", "other")], "failed")
    said["a task"] = [task.task_id for task in handed]

    with DAG("dag", schedule=None) as dag:
        for task_id in STATES:
            ContainerTrainingOperator(
                task_id=task_id, image="python:3", machine_type="n1-standard-4", retries=3
            )
    serialized = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    for run_id, state in (("failed", DagRunMutableStates.FAILED), ("success", DagRunMutableStates.SUCCESS)):
        store_run(run_id)
        handed.clear()
        with create_session(scoped=False) as session:
            run = session.scalars(select(DagRun).where(DagRun.run_id == run_id)).one()
            patch_dag_run_state(dag=serialized, dag_run=run, state=state, session=session)
        said[f"a run as {run_id}"] = sorted(task.task_id for task in handed)

    task = handed[0]
    said["state"] = database.task_state(task)
    with create_session(scoped=False) as session:
        session.delete(session.scalars(select(DagRun).where(DagRun.run_id == "success")).one())
    said["state of a deleted run"] = database.task_state(task)
    database.leave_trace(task, "cancelled it")
    with create_session(scoped=False) as session:
        entry = session.scalars(select(Log).where(Log.event == database.EVENT)).one()
        said["trace"] = [entry.dag_id, entry.run_id, entry.task_id, entry.map_index, entry.extra]
    print(json.dumps(said))


if __name__ == "__main__":
    main()
