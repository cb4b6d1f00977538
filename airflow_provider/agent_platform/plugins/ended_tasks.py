"""Notice in the api-server that a user has ended training tasks: by a mark on a task, or on its whole run.

In: the calls that Airflow makes to a listener. Out: the tasks, handed to the sweep (:mod:`.orphans`). A deferred task's job
is cancelled by its trigger; but Airflow drops a trigger that has not started yet without ever running it, and nobody is
there for a task that waits for its next try. A listener must be quick and must not raise: it runs inside the request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from airflow.listeners import hookimpl
from sqlalchemy.orm import object_session

from airflow_provider.agent_platform.plugins import database
from airflow_provider.agent_platform.plugins.ended_task import EndedTask
from airflow_provider.agent_platform.plugins.orphans import Sweep

log = logging.getLogger(__name__)

sweep = Sweep()


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    """A user marked the task as success."""
    _note(database.owner_of_task, task_instance)


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """A user marked the task, or its run, as failed."""
    _note(database.owner_of_task, task_instance)


@hookimpl
def on_task_instance_skipped(previous_state: Any, task_instance: Any) -> None:
    """A user marked the task as skipped."""
    _note(database.owner_of_task, task_instance)


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """A user marked the run as success."""
    _note(database.owners_of_skipped_tasks, dag_run)


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """A user marked the run as failed.

    Airflow skips the tasks that were not at work then, also one that waits for its next try, and tells of the run only.
    """
    _note(database.owners_of_skipped_tasks, dag_run)


def _note(owners: Any, row: Any) -> None:
    try:
        session = object_session(row)
        found: Iterable[EndedTask] = () if session is None else owners(row, session)
        for task in found:
            sweep.add(task)
    except Exception:
        log.exception("Whether %s has a training job cannot be told", row)
