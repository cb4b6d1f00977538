"""Deferred tasks, written straight into Airflow's database: what a real triggerer reads.

In: the environment of an Airflow, a class path and the kwargs of many triggers. Out: a DAG, a run, and for each
trigger a task instance in the state "deferred", as the execution API would leave them. To defer a thousand tasks
through a scheduler would take half an hour of processor time, and none of it is the triggerer's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.airflow_stack import AirflowStack

ROOT = Path(__file__).resolve().parents[2]
DAG_ID = "waiting"

DAG_FILE = f"""
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG("{DAG_ID}", schedule=None):
    EmptyOperator(task_id="train")
"""


def defer(stack: AirflowStack, run_id: str, classpath: str, kwargs: Sequence[dict[str, Any]]) -> None:
    """Leave one deferred task for each trigger; the n-th has map index n.

    :param stack: whose database; nothing of it need run.
    :param run_id: a new run.
    :param classpath: of the triggers.
    :param kwargs: of each trigger.
    """
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.deferred_tasks"],
        env=stack.env,
        cwd=ROOT,
        check=True,
        input=json.dumps({"run_id": run_id, "classpath": classpath, "kwargs": list(kwargs)}),
        stdout=subprocess.DEVNULL,
        text=True,
        timeout=300,
    )


def main() -> None:
    """Write what stdin asks for."""
    asked = json.loads(sys.stdin.read())
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import Trigger
    from airflow.sdk.timezone import utcnow
    from airflow.utils.session import create_session
    from airflow.utils.state import TaskInstanceState

    with create_session() as session:
        run, task, version = _run(asked["run_id"], session)
        triggers = []
        for kwargs in asked["kwargs"]:
            row = Trigger(classpath=asked["classpath"], kwargs={})
            row.encrypted_kwargs = json.dumps(kwargs)  # in plain text, as the execution API stores them
            triggers.append(row)
        session.add_all(triggers)
        session.flush()
        for number, row in enumerate(triggers):
            instance = TaskInstance(
                task,
                dag_version_id=version,
                run_id=run.run_id,
                state=TaskInstanceState.DEFERRED,
                map_index=number,
            )
            instance.try_number = 1
            instance.start_date = utcnow()
            instance.next_method = "execute_complete"
            instance.next_kwargs = {}
            instance.trigger_id = row.id
            session.add(instance)


def _run(run_id: str, session: Any) -> Any:
    """Return a new run of the DAG without task instances, its task, and the id of the DAG's version."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.dag_version import DagVersion
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk.timezone import utcnow
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import delete

    manager: Any = DagBundlesManager()  # type: ignore[no-untyped-call]
    manager.sync_bundles_to_db(session=session)
    session.commit()
    (bundle,) = manager.get_all_dag_bundles()
    bundle.initialize()
    bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
    sync_bag_to_db(bag, bundle.name, bundle.version)
    dag: Any = SerializedDagModel.get_dag(DAG_ID, session=session)
    run = dag.create_dagrun(
        run_id=run_id,
        run_after=utcnow(),
        run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.TEST,
        state=DagRunState.RUNNING,
        session=session,
    )
    session.execute(delete(TaskInstance).where(TaskInstance.run_id == run_id))
    version: Any = DagVersion.get_latest_version(DAG_ID, session=session)
    return run, dag.get_task("train"), version.id


if __name__ == "__main__":
    main()
