"""What a worker does with its job when it is told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider.agent_platform.operators.killing import WorkerKill, WorkerStopped
from airflow_provider.agent_platform.operators.lifecycle import Lifecycle
from airflow_provider.agent_platform.operators.steps import WaitForJob, WaitUntil
from tests.operators.setting import Setting
from tests.operators.test_lifecycle import NO_CAPACITY, first_job


class Alarm(BaseException):
    """What Airflow raises in the main thread, wherever it is, when ``execution_timeout`` ends."""


def out_of_time(lifecycle: Lifecycle) -> list[str]:
    worker = WorkerKill(
        lifecycle=lifecycle,
        task=lifecycle.task,
        task_state=says("running"),
        log=logging.getLogger("tests.kill"),
    )
    return worker.out_of_time()


def gone() -> str | None:
    return None


def no_answer() -> str | None:
    threading.Event().wait(30)
    return None


def broken() -> str | None:
    raise RuntimeError("the supervisor does not answer")


def says(state: str) -> Callable[[], str | None]:
    return lambda: state


def kill(setting: Setting, state: Callable[[], str | None], *, name: str | None = None) -> WorkerKill:
    lifecycle = setting.lifecycle()
    lifecycle.job_name = name
    worker = WorkerKill(
        lifecycle=lifecycle, task=setting.task(), task_state=state, log=logging.getLogger("tests.kill")
    )
    worker.on_kill()
    return worker


def running(setting: Setting) -> str:
    step = setting.start()
    assert isinstance(step, WaitForJob)
    setting.platform.run(step.record.name)
    return step.record.name


@pytest.mark.parametrize("state", ["failed", "success", "restarting", "skipped"])
def test_a_users_action_cancels_the_job(state: str) -> None:
    setting = Setting(retries=3)
    name = running(setting)
    kill(setting, says(state), name=name)
    assert setting.platform.cancels == [name]


def test_a_deleted_run_cancels_the_job() -> None:
    setting = Setting(retries=3)
    name = running(setting)
    kill(setting, gone, name=name)
    assert setting.platform.cancels == [name]


@pytest.mark.parametrize("state", [says("running"), broken], ids=["running", "no answer"])
def test_an_evicted_worker_leaves_the_job_to_the_next_try(state: Callable[[], str | None]) -> None:
    setting = Setting(retries=1)
    name = running(setting)
    worker = kill(setting, state, name=name)
    assert setting.platform.cancels == []
    with pytest.raises(WorkerStopped, match="next try adopts"):
        worker.check()


@pytest.mark.parametrize("state", [says("running"), broken], ids=["running", "no answer"])
def test_an_evicted_worker_without_another_try_cancels_the_job(state: Callable[[], str | None]) -> None:
    setting = Setting(retries=0, try_number=1)
    name = running(setting)
    setting.try_number = 2
    kill(setting, state, name=name)
    assert setting.platform.cancels == [name]


def test_a_kill_is_obeyed_once() -> None:
    setting = Setting()
    name = running(setting)
    worker = kill(setting, says("failed"), name=name)
    worker.on_kill()
    assert setting.platform.cancels == [name]


def test_a_job_that_is_being_cancelled_is_not_cancelled_again() -> None:
    setting = Setting()
    name = running(setting)
    setting.platform.cancel(name)
    kill(setting, says("failed"), name=name)
    assert setting.platform.cancels == [name]


def test_a_kill_while_a_create_is_in_flight_finds_the_job_by_its_label() -> None:
    setting = Setting()
    name = running(setting)
    lifecycle = setting.lifecycle()
    lifecycle.creating = True
    WorkerKill(
        lifecycle=lifecycle,
        task=setting.task(),
        task_state=says("failed"),
        log=logging.getLogger("tests.kill"),
    ).on_kill()
    assert setting.platform.cancels == [name]


def test_a_create_that_answers_after_the_kill_is_cancelled() -> None:
    setting = Setting()
    worker = kill(setting, says("failed"))
    assert setting.platform.cancels == []
    name = running(setting)
    worker.after_create(name)
    assert setting.platform.cancels == [name]


def test_airflows_execution_timeout_cancels_the_job_whatever_tries_are_left() -> None:
    setting = Setting(retries=5)
    name = running(setting)
    lifecycle = setting.lifecycle()
    lifecycle.job_name = name
    out_of_time(lifecycle)
    assert setting.platform.cancels == [name]


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_an_alarm_after_a_create_ends_the_job_though_the_list_lags(hidden: int) -> None:
    setting = Setting(retries=5)
    name = running(setting)
    lifecycle = setting.lifecycle()
    lifecycle.job_name = name
    setting.platform.hidden_from_list = hidden
    assert out_of_time(lifecycle) == [name]
    assert setting.platform.cancels == [name]


@pytest.mark.parametrize("hidden", [0, 1, 3])
def test_an_alarm_in_the_middle_of_a_create_looks_for_its_job(hidden: int) -> None:
    setting = Setting(retries=5)
    lifecycle = setting.lifecycle()
    setting.platform.after_create = [Alarm()]  # type: ignore[list-item]
    with pytest.raises(Alarm):
        lifecycle.start()
    setting.platform.hidden_from_list = hidden
    assert out_of_time(lifecycle) == setting.platform.creates
    assert setting.platform.cancels == setting.platform.creates


def test_an_alarm_in_the_middle_of_a_requeues_create_ends_the_new_job_not_the_old_one() -> None:
    setting = Setting(retries=5)
    first = first_job(setting)
    setting.platform.end(first, "FAILED", NO_CAPACITY, 8)
    step = setting.resume(first)
    assert isinstance(step, WaitUntil)
    setting.platform.time.moment = step.moment
    lifecycle = setting.lifecycle()
    setting.platform.after_create = [Alarm()]  # type: ignore[list-item]
    with pytest.raises(Alarm):
        lifecycle.waited(step.carried)
    assert out_of_time(lifecycle) == setting.platform.creates[1:]


def test_a_stopped_worker_is_no_failed_call() -> None:
    kinds: tuple[Any, ...] = WorkerStopped.__mro__
    assert Exception not in kinds
