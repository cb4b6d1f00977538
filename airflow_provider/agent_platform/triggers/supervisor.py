"""What a trigger may ask Airflow: the state of its task instance, and its XComs.

In: the task instance of a trigger. Out: plain values. It goes through the Task SDK's own channel to the
triggerer; where there is none (``dag.test()``) that is an error of its own, and callers go without.
``task_state_store`` is not here: asking for it from a trigger hangs the trigger for ever.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

ANSWER_SECONDS: Final = 60.0
"""The first question in a triggerer builds an API application in process, which takes seconds on a busy
machine."""


class NoSupervisorError(Exception):
    """This process has no channel to Airflow that an event loop can use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskState:
    """What Airflow says of a task instance.

    :param exists: ``False``: its DAG run was deleted.
    :param state: for example "deferred"; ``None`` for one that was cleared and not scheduled yet.
    """

    exists: bool
    state: str | None = None


async def task_state(ti: Any, *, task_id: str | None = None) -> TaskState:
    """Ask for the state of a trigger's task instance, or of another task of its run.

    :param ti: as the triggerer sets it on a trigger.
    :param task_id: another task, not a mapped one.
    :raises NoSupervisorError: there is nobody to ask.
    """
    from airflow.sdk.execution_time.comms import GetTaskStates

    map_index = ti.map_index if task_id is None else -1
    task_id = task_id or ti.task_id
    answer = await _ask(
        GetTaskStates(
            dag_id=ti.dag_id,
            map_index=map_index if map_index >= 0 else None,
            task_ids=[task_id],
            run_ids=[ti.run_id],
        )
    )
    states = answer.task_states.get(ti.run_id) or {}
    key = states_key(task_id, map_index)
    if key not in states:
        return TaskState(exists=False)
    state = states[key]
    return TaskState(exists=True, state=None if state is None else str(getattr(state, "value", state)))


def states_key(task_id: str, map_index: int) -> str:
    """Answer the key of a task instance in Airflow's answer (``get_task_instance_states`` of its execution
    API)."""
    return task_id if map_index < 0 else f"{task_id}_{map_index}"


async def get_xcom(ti: Any, key: str) -> Any:
    """Read an XCom of a trigger's own task instance; ``None`` if there is none."""
    from airflow.sdk.execution_time.comms import GetXCom

    answer = await _ask(
        GetXCom(key=key, dag_id=ti.dag_id, run_id=ti.run_id, task_id=ti.task_id, map_index=ti.map_index)
    )
    return getattr(answer, "value", None)


async def set_xcom(ti: Any, key: str, value: Any) -> None:
    """Write an XCom of a trigger's own task instance."""
    from airflow.sdk.execution_time.comms import SetXCom

    await _ask(
        SetXCom(
            key=key,
            value=value,
            dag_id=ti.dag_id,
            run_id=ti.run_id,
            task_id=ti.task_id,
            map_index=ti.map_index,
        )
    )


async def _ask(message: Any) -> Any:
    from airflow.sdk.execution_time import task_runner

    channel = getattr(task_runner, "SUPERVISOR_COMMS", None)
    asend = getattr(channel, "asend", None)
    if asend is None:
        raise NoSupervisorError("no asynchronous channel to Airflow in this process")
    return await asyncio.wait_for(asend(message), ANSWER_SECONDS)
