"""The facts of one try of one task instance, taken out of Airflow's context once.

In: the context of a running task. Out: plain values the lifecycle works with. No call to Airflow happens here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider.agent_platform.jobs.identity import TaskIdentity, epoch_of


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """Who is running, in which try and epoch, since when.

    :param identity: the task instance, over all its tries.
    :param epoch: the tries between two user clears. ``ti.max_tries - task.retries`` is the number of a new one; jobs
        that are there may say another (``policy.epochs``).
    :param try_number: this try, from 1.
    :param max_tries: the last automatic retry Airflow allows: a try after this one is possible while
        ``try_number <= max_tries``.
    :param retries: ``retries`` of the task.
    :param started_at: first start of this try; Airflow keeps it over all deferrals of the try.
    :param execution_deadline: ``execution_timeout`` as a time; None when the task has none.
    """

    identity: TaskIdentity
    epoch: int
    try_number: int
    max_tries: int
    retries: int
    started_at: pendulum.DateTime
    execution_deadline: pendulum.DateTime | None = None

    @classmethod
    def of(cls, context: Mapping[str, Any], *, deployment: str = "") -> TaskFacts:
        """Read the facts.

        :param context: the context Airflow gives to ``execute``.
        :param deployment: name of this Airflow deployment (``[agent_platform] deployment``).
        """
        ti = context["ti"]
        task = context.get("task") or ti.task
        retries = int(task.retries or 0)
        map_index = getattr(ti, "map_index", -1)
        started = getattr(ti, "start_date", None)
        started_at = pendulum.instance(started) if started is not None else pendulum.now("UTC")
        timeout = task.execution_timeout
        return cls(
            identity=TaskIdentity(
                dag_id=ti.dag_id,
                run_id=ti.run_id,
                task_id=ti.task_id,
                map_index=-1 if map_index is None else map_index,
                deployment=deployment,
            ),
            epoch=epoch_of(ti.max_tries, retries),
            try_number=ti.try_number,
            max_tries=ti.max_tries,
            retries=retries,
            started_at=started_at,
            execution_deadline=None if timeout is None else started_at + timeout,
        )

    @property
    def another_try_comes(self) -> bool:
        """Whether Airflow would start a next try if this one failed now."""
        return self.try_number <= self.max_tries
