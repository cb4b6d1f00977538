"""Notice in the api-server that a user has ended a training task: mark failed or success, of a task or its run.

In: the calls that Airflow makes to a listener. Out: the task, handed to the sweep (:mod:`.orphans`). A deferred task's job
is cancelled by its trigger; but Airflow drops a trigger that has not started yet without ever running it, and nobody is
there for a task that waits for its next try. A listener must be quick and must not raise: it runs inside the request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow.listeners import hookimpl

from airflow_provider.agent_platform.operators.arguments import TEMPLATE_FIELDS
from airflow_provider.agent_platform.plugins import database
from airflow_provider.agent_platform.plugins.orphans import EndedTask, Sweep

log = logging.getLogger(__name__)

sweep = Sweep()


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    """A user marked the task as success."""
    note(task_instance)


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """A user marked the task, or its run, as failed."""
    note(task_instance)


@hookimpl
def on_task_instance_skipped(previous_state: Any, task_instance: Any) -> None:
    """A user marked the task as skipped."""
    note(task_instance)


def note(task_instance: Any) -> None:
    """Hand the task to the sweep if it is one of ours.

    :param task_instance: Airflow's database object, still in its session.
    """
    from sqlalchemy.orm import object_session

    try:
        session = object_session(task_instance)
        fields = None if session is None else database.rendered_fields(task_instance, session)
        task = training_task(task_instance, fields)
        if task is not None:
            sweep.add(task)
    except Exception:
        log.exception("Whether %s has a training job cannot be told", task_instance)


def training_task(task_instance: Any, fields: Mapping[str, Any] | None) -> EndedTask | None:
    """Return where the jobs of a task are; None for a task that is none of ours.

    :param task_instance: has the ids.
    :param fields: its rendered template fields. They are stored when a try starts, before anything is submitted; a task
        without them has no job. All common ones of our operators together are found in no other operator.
    """
    if fields is None or not set(TEMPLATE_FIELDS) <= fields.keys():
        return None
    chain = fields["impersonation_chain"]
    return EndedTask(
        dag_id=task_instance.dag_id,
        run_id=task_instance.run_id,
        task_id=task_instance.task_id,
        map_index=task_instance.map_index,
        gcp_conn_id=fields["gcp_conn_id"],
        impersonation_chain=tuple(chain) if isinstance(chain, list) else chain,
        project_id=fields["project_id"],
        regions=(fields["region"], *fields["fallback_regions"]),
    )
