"""What is asked of Airflow: real messages of its Task SDK, and the answers it gives."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time import comms, task_runner
from airflow.utils.state import TaskInstanceState

from airflow_provider.agent_platform.triggers import supervisor
from airflow_provider.agent_platform.triggers.supervisor import NoSupervisorError, TaskState
from tests.triggers.fake_airflow import TaskInstance


class Channel:
    """Stands for the channel of a triggerer."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[Any] = []

    async def asend(self, message: Any) -> Any:
        self.sent.append(message)
        return self.answers.pop(0) if self.answers else None


def use(monkeypatch: Any, channel: Any) -> Any:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", channel, raising=False)
    return channel


@pytest.mark.parametrize(
    ("map_index", "states", "expected"),
    [
        (-1, {"run": {"train": "deferred"}}, TaskState(exists=True, state="deferred")),
        (-1, {"run": {"train": TaskInstanceState.FAILED}}, TaskState(exists=True, state="failed")),
        (-1, {"run": {"train": None}}, TaskState(exists=True, state=None)),
        (3, {"run": {"train_3": "success"}}, TaskState(exists=True, state="success")),
        # A task that is called like a mapped one is not it.
        (3, {"run": {"train": "success"}}, TaskState(exists=False)),
        (-1, {"run": {}}, TaskState(exists=False)),
        (-1, {}, TaskState(exists=False)),
    ],
)
async def test_the_state_of_the_own_task_instance_is_found(
    monkeypatch: Any, map_index: int, states: Any, expected: TaskState
) -> None:
    channel = use(monkeypatch, Channel(SimpleNamespace(task_states=states)))
    assert await supervisor.task_state(TaskInstance(map_index=map_index)) == expected
    (message,) = channel.sent
    assert isinstance(message, comms.GetTaskStates)
    assert (message.dag_id, message.task_ids, message.run_ids) == ("dag", ["train"], ["run"])
    assert message.map_index == (map_index if map_index >= 0 else None)


async def test_xcoms_are_those_of_the_own_task_instance(monkeypatch: Any) -> None:
    channel = use(monkeypatch, Channel(SimpleNamespace(value={"try": 1}), None))
    ti = TaskInstance(map_index=2)
    assert await supervisor.get_xcom(ti, "owner") == {"try": 1}
    await supervisor.set_xcom(ti, "live", {"state": "x"})
    for message in channel.sent:
        assert (message.dag_id, message.run_id, message.task_id, message.map_index) == (
            "dag",
            "run",
            "train",
            2,
        )
    assert isinstance(channel.sent[1], comms.SetXCom)
    assert (channel.sent[1].key, channel.sent[1].value) == ("live", {"state": "x"})


@pytest.mark.parametrize("channel", [None, SimpleNamespace(send=print)])
async def test_a_process_without_an_asynchronous_channel_is_told_apart(
    monkeypatch: Any, channel: Any
) -> None:
    use(monkeypatch, channel)
    with pytest.raises(NoSupervisorError):
        await supervisor.task_state(TaskInstance())


async def test_a_supervisor_that_never_answers_is_not_waited_for_for_ever(monkeypatch: Any) -> None:
    class Silent:
        async def asend(self, message: Any) -> Any:
            await asyncio.sleep(3600)

    use(monkeypatch, Silent())
    monkeypatch.setattr(supervisor, "ANSWER_SECONDS", 0.01)
    with pytest.raises(asyncio.TimeoutError):
        await supervisor.get_xcom(TaskInstance(), "owner")


def test_the_messages_are_among_those_a_triggerer_understands() -> None:
    module = pytest.importorskip("airflow.jobs.triggerer_job_runner")
    understood = str(module.ToTriggerSupervisor)
    for name in ("GetTaskStates", "GetXCom", "SetXCom"):
        assert name in understood
    # Asking for the task state store hangs a trigger: nobody must begin to.
    assert "GetTaskStateStore" not in understood
