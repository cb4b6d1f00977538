"""A process that outlived its try (cut off from Airflow, then back) does nothing to the job of the try that followed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider.agent_platform.operators.lifecycle import SupersededError
from airflow_provider.agent_platform.operators.steps import Step, WaitForJob
from tests.operators.setting import Setting
from tests.operators.test_lifecycle import first_job


def cleared_and_started(setting: Setting) -> str:
    """The user clears the task; its new try starts a job. ``setting`` stays the old try."""
    setting.owner_try = setting.try_number + 1
    return first_job(replace(setting).clear())


WAYS_IN: dict[str, Callable[[Setting, str], Step]] = {
    "start": lambda setting, _: setting.start(),
    "resumed": lambda setting, name: setting.resume(name),
    "waited": lambda setting, _: setting.wait_over(),
}


@pytest.mark.parametrize("way_in", WAYS_IN)
def test_whichever_way_it_comes_back_the_new_job_is_left_alone_and_nothing_is_submitted(way_in: str) -> None:
    old = Setting(retries=1)
    first = first_job(old)
    old.platform.end(first, "CANCELLED")
    successor = cleared_and_started(old)
    with pytest.raises(SupersededError, match="Nothing of that job was touched") as caught:
        WAYS_IN[way_in](old, first)
    assert successor in str(caught.value)
    assert old.platform.cancels == []
    assert old.platform.creates == [first, successor]


def test_a_create_of_the_old_try_that_comes_after_the_new_ones_is_taken_back() -> None:
    old = Setting(retries=1)
    platform = old.platform

    def the_new_try_is_faster(message: object) -> None:
        platform.on_create = lambda _: None
        unseen = platform.jobs.popitem()  # the list does not show it to the new try yet
        cleared_and_started(old)
        platform.jobs.update([unseen])

    platform.on_create = the_new_try_is_faster
    with pytest.raises(SupersededError, match="was cancelled"):
        old.start()
    taken_back, successor = platform.creates
    assert platform.cancels == [taken_back]
    assert platform.jobs[successor].state.name == "JOB_STATE_PENDING"


def test_a_worker_that_cannot_ask_airflow_leaves_the_new_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Setting(retries=1)
    old.platform.end(first_job(old), "CANCELLED")
    cleared_and_started(old)
    lifecycle = old.lifecycle()

    def cut_off() -> int:
        raise ConnectionError("no way to the api-server")

    lifecycle.owner_try = cut_off
    with pytest.raises(SupersededError):
        lifecycle.start()
    assert old.platform.cancels == []


@pytest.mark.parametrize("owner_try", [None, 1])
def test_the_job_of_a_database_that_was_lost_is_ended_and_trained_anew(owner_try: int | None) -> None:
    before = Setting(retries=1, try_number=2)
    name = first_job(before.clear())
    before.platform.run(name)
    after = Setting(retries=1, platform=before.platform, owner_try=owner_try)
    step = after.start()
    assert isinstance(step, WaitForJob)
    assert (step.record.name, step.stale) == (name, True)
    assert after.platform.cancels == [name]


def test_a_new_job_that_is_being_cancelled_does_not_stand_in_the_way_of_a_run_made_again() -> None:
    """The run was deleted, and made again under the same id: its tries begin at 1 again."""
    before = Setting(retries=1, try_number=3, max_tries=4)
    name = first_job(before)
    before.platform.cancel(name)
    again = Setting(retries=1, platform=before.platform)
    step = again.start()
    assert isinstance(step, WaitForJob)
    assert step.stale
    assert step.record.name == name
