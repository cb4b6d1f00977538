"""What a trigger may ask Airflow, answered from a dictionary: states of task instances and XComs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from airflow_provider.agent_platform.triggers import supervisor
from airflow_provider.agent_platform.triggers.ownership import OWNER_XCOM_KEY, owner_value

GONE = object()


@dataclass
class TaskInstance:
    """As the triggerer gives one to a trigger."""

    dag_id: str = "dag"
    run_id: str = "run"
    task_id: str = "train"
    map_index: int = -1
    try_number: int = 1
    id: str = "0"
    context_carrier: None = None


class FakeAirflow:
    """Answers for one task instance.

    :param state: of the task instance; ``GONE`` when it was deleted. A list answers one after the other.
    """

    def __init__(self, monkeypatch: Any, state: Any = "deferred", ti: TaskInstance | None = None) -> None:
        self.ti = ti or TaskInstance()
        self.state = state
        self.xcoms: dict[str, Any] = {}
        self.written: list[Any] = []
        self.asked = 0
        self.error: Exception | None = None
        monkeypatch.setattr(supervisor, "_ask", self._ask)

    def owned_by(self, try_number: int, job_name: str) -> None:
        self.xcoms[OWNER_XCOM_KEY] = owner_value(try_number=try_number, job_name=job_name)

    async def _ask(self, message: Any) -> Any:
        await asyncio.sleep(0.05)
        if self.error is not None:
            raise self.error
        name = type(message).__name__
        assert (message.dag_id, getattr(message, "run_id", self.ti.run_id)) == (self.ti.dag_id, "run")
        if name == "GetTaskStates":
            self.asked += 1
            return SimpleNamespace(task_states=self._states())
        assert message.map_index == self.ti.map_index
        if name == "GetXCom":
            return SimpleNamespace(value=self.xcoms.get(message.key))
        assert name == "SetXCom"
        self.xcoms[message.key] = message.value
        self.written.append(message.value)
        return None

    def _states(self) -> dict[str, dict[str, Any]]:
        state = self.state
        if isinstance(state, list):
            state = state.pop(0) if len(state) > 1 else state[0]
        if state is GONE:
            return {}
        key = self.ti.task_id if self.ti.map_index < 0 else f"{self.ti.task_id}_{self.ti.map_index}"
        return {self.ti.run_id: {key: state}}
