"""Somebody changes ``retries`` in the DAG while a job runs: the job stays its own try's, and no clear's job is mistaken."""

from __future__ import annotations

import pytest

from airflow_provider.agent_platform.exceptions import UserCodeError
from airflow_provider.agent_platform.operators.steps import Done, WaitForJob
from tests.operators.setting import Setting
from tests.operators.test_lifecycle import EXIT_1, first_job


def changed(setting: Setting, retries: int) -> Setting:
    """The DAG is parsed with another number; what Airflow has stored for the task stays."""
    stored = setting.task().max_tries
    setting.retries, setting.max_tries = retries, stored
    return setting


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_the_running_job_of_a_clear_is_adopted(retries: int) -> None:
    setting = Setting(retries=1)
    setting.platform.end(first_job(setting), "SUCCEEDED")
    name = first_job(setting.clear())
    setting.platform.run(name)
    step = changed(setting, retries).start()
    assert isinstance(step, WaitForJob)
    assert (step.record.name, step.stale) == (name, False)
    assert setting.platform.cancels == []


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_the_failure_of_a_clears_job_is_not_the_success_before_the_clear(retries: int) -> None:
    setting = Setting(retries=1)
    setting.platform.end(first_job(setting), "SUCCEEDED")
    name = first_job(setting.clear())
    setting.platform.end(name, "FAILED", EXIT_1, 3)
    with pytest.raises(UserCodeError):
        changed(setting, retries).resume(name)


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_a_success_is_not_trained_again(retries: int) -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.end(name, "SUCCEEDED")
    assert isinstance(changed(setting, retries).resume(name), Done)
    assert setting.platform.creates == [name]


@pytest.mark.parametrize("retries", [1, 2, 5])
def test_the_next_try_adopts_too(retries: int) -> None:
    setting = Setting(retries=3)
    name = first_job(setting)
    setting.platform.run(name)
    step = changed(setting.next_try(), retries).start()
    assert isinstance(step, WaitForJob)
    assert step.record.name == name
    assert setting.platform.creates == [name]


def test_a_clear_after_the_change_trains_anew_and_its_job_has_an_epoch_of_its_own() -> None:
    setting = Setting(retries=1)
    setting.platform.end(first_job(setting), "SUCCEEDED")
    setting.platform.end(first_job(setting.clear()), "SUCCEEDED")
    setting.retries = 4
    setting.platform.end(first_job(setting.clear()), "SUCCEEDED")
    epochs = [job.labels["airflow-epoch"] for job in setting.platform.jobs.values()]
    assert len(set(epochs)) == 3
