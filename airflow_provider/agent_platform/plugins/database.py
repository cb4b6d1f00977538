"""What the plugin reads and writes in Airflow's database. Only the api-server may: tasks and triggers have no access.

In: Airflow's rows, or a task that was ended. Out: plain values. Airflow's models are imported inside: they are there in
the api-server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider.agent_platform.plugins.ended_task import EndedTask
from airflow_provider.agent_platform.triggers.ownership import OWNER_XCOM_KEY

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

EVENT: Final = "cancel training job"
"""Name of our entries in Airflow's audit log."""


def owner_of_task(task_instance: Any, session: Session) -> list[EndedTask]:
    """Return the task with the note of its last try; nothing for a task that left none: it is none of ours.

    :param task_instance: Airflow's row.
    :param session: its session.
    """
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    ids = (task_instance.dag_id, task_instance.run_id, task_instance.task_id, task_instance.map_index)
    notes = session.scalars(
        select(XComModel.value).where(
            XComModel.dag_id == ids[0],
            XComModel.run_id == ids[1],
            XComModel.task_id == ids[2],
            XComModel.map_index == ids[3],
            XComModel.key == OWNER_XCOM_KEY,
        )
    )
    return [task for task in (EndedTask.of(*ids, note) for note in notes) if task]


def owners_of_skipped_tasks(dag_run: Any, session: Session) -> list[EndedTask]:
    """Return the skipped tasks of a run that left a note: those that waited for their next try.

    :param dag_run: Airflow's row.
    :param session: its session.
    """
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import and_, select

    rows = session.execute(
        select(XComModel.task_id, XComModel.map_index, XComModel.value)
        .join(
            TaskInstance,
            and_(
                TaskInstance.dag_id == XComModel.dag_id,
                TaskInstance.run_id == XComModel.run_id,
                TaskInstance.task_id == XComModel.task_id,
                TaskInstance.map_index == XComModel.map_index,
            ),
        )
        .where(
            XComModel.dag_run_id == dag_run.id,
            XComModel.key == OWNER_XCOM_KEY,
            TaskInstance.state == "skipped",
        )
    )
    found = (EndedTask.of(dag_run.dag_id, dag_run.run_id, *row) for row in rows)
    return [task for task in found if task]


def task_state(task: EndedTask) -> tuple[bool, str | None]:
    """Return whether a task instance exists, and its state now."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session(scoped=False) as session:
        row = session.execute(
            select(TaskInstance.state).where(
                TaskInstance.dag_id == task.dag_id,
                TaskInstance.run_id == task.run_id,
                TaskInstance.task_id == task.task_id,
                TaskInstance.map_index == task.map_index,
            )
        ).one_or_none()
    if row is None:
        return False, None
    return True, None if row[0] is None else str(getattr(row[0], "value", row[0]))


def leave_trace(task: EndedTask, text: str) -> None:
    """Write an entry of the audit log, which the UI shows beside the task: its own log is closed."""
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session(scoped=False) as session:
        session.add(
            Log(
                EVENT,
                owner="agent_platform",
                extra=text,
                dag_id=task.dag_id,
                run_id=task.run_id,
                task_id=task.task_id,
                map_index=task.map_index,
            )
        )
