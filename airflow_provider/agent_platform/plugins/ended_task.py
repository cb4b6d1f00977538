"""A task instance that a user has ended, and where its jobs may be.

In: the ids, and the note its last try left (``training_job_owner``). Out: something to look after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts
from airflow_provider.agent_platform.triggers.ownership import Owner


@dataclass(frozen=True, kw_only=True)
class EndedTask:
    """Which task instance, and where to look.

    :param dag_id: with ``run_id``, ``task_id`` and ``map_index``: which one.
    :param where: its jobs may be.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    where: Whereabouts

    @classmethod
    def of(cls, dag_id: str, run_id: str, task_id: str, map_index: int, note: Any) -> EndedTask | None:
        """Return the task of a note; None where the note does not say where its jobs are.

        :param note: value of the XCom ``training_job_owner``.
        """
        owner = Owner.parse(note)
        if owner is None or owner.where is None:
            return None
        return cls(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index, where=owner.where)

    def __str__(self) -> str:
        mapped = f" [{self.map_index}]" if self.map_index >= 0 else ""
        return f"task {self.task_id}{mapped} of DAG {self.dag_id}, run {self.run_id}"
