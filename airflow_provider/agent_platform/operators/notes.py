"""Small notes a task leaves for its trigger, for people and for its own next resume: XComs and the task state store.

In: the task's context. Out: nothing a decision rests on: all of it may be lost. The keys are stored in Airflow's
database; renaming one breaks tasks in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.triggers.live_state import live_value
from airflow_provider.agent_platform.triggers.ownership import (
    LIVE_XCOM_KEY,
    OWNER_XCOM_KEY,
    Owner,
    owner_value,
)
from airflow_provider.agent_platform.triggers.view import JobView

LEDGER_KEY: Final = "training_jobs"
"""Key in the task state store: a copy of the ledger, as compact JSON."""

VANISHED_KEY: Final = "training_job_vanished_triggers"
"""XCom key: how often the trigger of this try vanished."""

Context = Mapping[str, Any]


def own(context: Context, job_name: str, where: Whereabouts) -> None:
    """Say which try owns the job: a kill is only obeyed for the owner.

    Before anything is submitted too, so that the jobs of a task are found by those who end it from outside.

    :param job_name: "" while there is none.
    :param where: where its jobs are.
    """
    ti = context["ti"]
    value = owner_value(try_number=ti.try_number, job_name=job_name, where=where)
    ti.xcom_push(key=OWNER_XCOM_KEY, value=value)


def owner_try(context: Context) -> int | None:
    """Return the try that owns the task's jobs now; None when nobody has said so."""
    ti = context["ti"]
    owner = Owner.parse(ti.xcom_pull(key=OWNER_XCOM_KEY, task_ids=ti.task_id, map_indexes=ti.map_index))
    return owner.try_number if owner else None


def show_live(context: Context, view: JobView) -> None:
    """Show the state of the job while the worker itself waits for it; a deferred task's trigger does the same."""
    context["ti"].xcom_push(key=LIVE_XCOM_KEY, value=live_value(view))


def vanished_again(context: Context) -> int:
    """Count one more vanished trigger of this try and return how many there were."""
    ti = context["ti"]
    value = ti.xcom_pull(key=VANISHED_KEY, task_ids=ti.task_id, map_indexes=ti.map_index)
    count = value["count"] if isinstance(value, Mapping) and value.get("try") == ti.try_number else 0
    ti.xcom_push(key=VANISHED_KEY, value={"try": ti.try_number, "count": count + 1})
    return int(count) + 1


def remember(context: Context, ledger: Ledger, log: TaskLogger) -> None:
    """Put a copy of the ledger where people and the UI find it. Never read back for a decision."""
    store = context.get("task_state_store")
    if store is None or not ledger.entries:
        return
    try:
        store.set(LEDGER_KEY, ledger.to_json())
    except Exception as error:  # a page that is not up to date is no reason to lose a training
        log.debug("The ledger's copy could not be stored: %s", error)


def announce(context: Context, outlets: Any, result: Mapping[str, Any], log: TaskLogger) -> None:
    """Tell the assets of ``outlets`` which checkpoint the training reached.

    :param outlets: the task's outlets; those that are no assets hear nothing.
    :param result: of the task.
    :param log: the task's log.
    """
    events = context.get("outlet_events")
    if events is None:
        return
    for asset in outlets or ():
        try:
            event = events[asset]
        except Exception as error:  # Airflow takes other outlets too, and the training has succeeded
            log.debug("%r is not told of the checkpoint: %s", asset, error)
            continue
        event.extra.update(
            {key: result[key] for key in ("name", "checkpoint", "step", "base_output_directory")}
        )
