"""What the plugin reads and writes in Airflow's database. Only the api-server may: tasks and triggers have no access.

In: anything with ``dag_id``, ``run_id``, ``task_id`` and ``map_index``. Out: plain values. Airflow's models are imported inside: they are there in the api-server,
and every other component loads the plugin too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

EVENT: Final = "cancel training job"
"""Name of our entries in Airflow's audit log."""


def rendered_fields(task: Any, session: Session) -> Mapping[str, Any] | None:
    """Return the template fields of a task as its last try rendered them; None when it had no try."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from sqlalchemy import select

    found: Mapping[str, Any] | None = session.scalar(
        select(Rendered.rendered_fields).where(
            Rendered.dag_id == task.dag_id,
            Rendered.run_id == task.run_id,
            Rendered.task_id == task.task_id,
            Rendered.map_index == task.map_index,
        )
    )
    return found


def task_state(task: Any) -> tuple[bool, str | None]:
    """Return whether a task instance exists, and its state."""
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


def leave_trace(task: Any, text: str) -> None:
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
