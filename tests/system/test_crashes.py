"""Parts of a real Airflow are stopped, killed and restarted while trainings run: one job, never two, never an orphan.

Asserted on both sides: Airflow's states and tries; creates, cancels and live jobs on the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider.agent_platform.operators import points
from airflow_provider.agent_platform.triggers.ownership import LIVE_XCOM_KEY
from tests.harness.laptop import PROJECT, REGION, Laptop
from tests.harness.waiting import wait_until

LIVE = {"JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING"}
DAG = "crashes"


class Trainings:
    """Runs of one DAG whose trainings end when a file appears."""

    def __init__(self, laptop: Laptop, release: Path, dag_id: str = DAG) -> None:
        self.laptop = laptop
        self.airflow = laptop.airflow.api
        self.emulator = laptop.services.api
        self.release = release
        self.dag_id = dag_id
        laptop.airflow.wait_for_dag(dag_id)

    def start(self, **conf: Any) -> str:
        return self.airflow.trigger(self.dag_id, {"release": str(self.release), **conf})

    def task(self, run_id: str) -> dict[str, Any]:
        return self.airflow.task_instance(self.dag_id, run_id, "train")

    def wait(self, run_id: str, state: str, *, try_number: int | None = None) -> None:
        def there() -> bool:
            task = self.task(run_id)
            return task["state"] == state and try_number in (None, task["try_number"])

        wait_until(there, f"{run_id} to be {state}", seconds=120, every=0.3, watch=self.laptop.airflow.check)

    def owner(self, run_id: str, *, after: int | None = None) -> int:
        """The triggerer that has the task's trigger; waited for until it is another one than before."""

        def found() -> int | None:
            job = self.task(run_id)["triggerer_job"]
            return job["id"] if job and job["id"] != after else None

        return wait_until(found, "a triggerer", seconds=180, every=0.5, watch=self.laptop.airflow.check)

    def jobs(self) -> list[dict[str, Any]]:
        return self.emulator.jobs(PROJECT, REGION)

    def states(self) -> list[str]:
        return [job["state"].removeprefix("JOB_STATE_") for job in self.jobs()]

    def wait_states(self, *states: str) -> None:
        wait_until(
            lambda: self.states() == list(states),
            f"jobs {states}",
            seconds=120,
            every=0.3,
            watch=self.laptop.airflow.check,
        )

    def wait_watched(self, run_id: str) -> None:
        """Wait until a triggerer runs the task's trigger, which shows by the live state it writes.

        A task that is ended in the second before that has nobody yet who would end its job: see docs/one-job.md.
        """
        wait_until(
            lambda: self.airflow.xcom(self.dag_id, run_id, "train", LIVE_XCOM_KEY),
            "the trigger to run",
            seconds=120,
            every=0.3,
            watch=self.laptop.airflow.check,
        )

    def call(self, name: str) -> int:
        return self.emulator.calls().get(name, 0)

    def end(self, run_id: str, state: str = "success") -> dict[str, Any]:
        self.release.touch()
        run = self.airflow.wait_for_run(self.dag_id, run_id, seconds=240, watch=self.laptop.airflow.check)
        task = self.task(run_id)
        assert run["state"] == state, self.log(run_id, task["try_number"])
        return task

    def log(self, run_id: str, tries: int) -> str:
        return "\n".join(
            self.airflow.log(self.dag_id, run_id, "train", number) for number in range(1, tries + 1)
        )


def worker_of(trainings: Trainings, run_id: str) -> psutil.Process:
    """The process that runs the task; Airflow names it after the task instance."""
    title = f"airflow worker -- {trainings.task(run_id)['id']}"
    for process in psutil.process_iter(["cmdline"]):
        if title in " ".join(process.info["cmdline"] or ()):
            return process
    raise AssertionError(f"no process is called {title!r}")


@pytest.fixture
def trainings(laptop: Laptop, tmp_path: Path) -> Trainings:
    laptop.services.api.reset()
    return Trainings(laptop, tmp_path / "release")


@pytest.mark.parametrize(
    "point", [points.CREATE_SENT, points.CREATE_ANSWERED, points.BEFORE_DEFER, points.RESUMED]
)
def test_a_killed_worker_leaves_one_job_that_the_next_try_adopts(
    trainings: Trainings, tmp_path: Path, point: str
) -> None:
    run_id = trainings.start(kill_at=f"{point}@{tmp_path / 'killed'}")
    if point == points.RESUMED:
        trainings.wait(run_id, "deferred")
    else:
        trainings.wait(run_id, "deferred", try_number=2)
    task = trainings.end(run_id)
    assert (tmp_path / "killed").exists()
    assert task["try_number"] == 2
    assert trainings.states() == ["SUCCEEDED"]
    assert trainings.call("CreateCustomJob") == 1
    assert trainings.call("CancelCustomJob") == 0


def test_nothing_that_happens_to_airflows_processes_costs_a_try_or_a_job(trainings: Trainings) -> None:
    laptop = trainings.laptop
    airflow = laptop.airflow
    run_id = trainings.start()
    trainings.wait(run_id, "deferred")
    trainings.wait_states("RUNNING")
    triggerer = airflow.component("triggerer")

    first = trainings.owner(run_id)
    triggerer.stop()
    triggerer.start()
    restarted = trainings.owner(run_id, after=first)

    triggerer.kill()
    triggerer.start()
    replaced = trainings.owner(run_id, after=restarted)

    # A triggerer that is suspended loses its triggers to another one, and finds out when it wakes up.
    triggerer.suspend()
    second = airflow.component("triggerer:2").start()
    trainings.owner(run_id, after=replaced)
    triggerer.resume()

    scheduler = airflow.component("scheduler")
    scheduler.kill()
    scheduler.start()
    airflow.wait_healthy()

    second.stop()
    assert trainings.states() == ["RUNNING"]
    task = trainings.end(run_id)
    assert task["try_number"] == 1
    assert trainings.states() == ["SUCCEEDED"]
    assert trainings.call("CreateCustomJob") == 1
    assert trainings.call("CancelCustomJob") == 0


def test_a_restart_of_the_service_is_an_outage_and_nothing_else(trainings: Trainings) -> None:
    run_id = trainings.start()
    trainings.wait(run_id, "deferred")
    trainings.wait_states("RUNNING")
    emulator = trainings.laptop.services.emulator
    emulator.kill()
    emulator.start()
    trainings.laptop.services.wait_ready()
    task = trainings.end(run_id)
    assert task["try_number"] == 1
    assert trainings.states() == ["SUCCEEDED"]
    assert trainings.call("CreateCustomJob") == 0, "counted since the restart"
    assert trainings.call("CancelCustomJob") == 0


def mark_failed(trainings: Trainings, run_id: str) -> None:
    trainings.airflow.mark_task(trainings.dag_id, run_id, "train", "failed")


def mark_success(trainings: Trainings, run_id: str) -> None:
    trainings.airflow.mark_task(trainings.dag_id, run_id, "train", "success")


def fail_and_delete_the_run(trainings: Trainings, run_id: str) -> None:
    trainings.airflow.mark_run(trainings.dag_id, run_id, "failed")
    trainings.airflow.delete_run(trainings.dag_id, run_id)


@pytest.mark.parametrize("action", [mark_failed, mark_success, fail_and_delete_the_run])
def test_a_user_who_ends_a_deferred_task_ends_its_job_with_one_cancel(
    trainings: Trainings, action: Callable[[Trainings, str], None]
) -> None:
    run_id = trainings.start()
    trainings.wait(run_id, "deferred")
    trainings.wait_states("RUNNING")
    trainings.wait_watched(run_id)
    action(trainings, run_id)
    trainings.wait_states("CANCELLED")
    assert trainings.call("CancelCustomJob") == 1
    assert trainings.call("CreateCustomJob") == 1


@pytest.mark.parametrize("action", [mark_failed, mark_success, fail_and_delete_the_run])
def test_a_user_who_ends_a_task_whose_trigger_never_started_ends_its_job_too(
    trainings: Trainings, action: Callable[[Trainings, str], None]
) -> None:
    """Airflow drops such a trigger unrun; the api-server looks after the job."""
    triggerer = trainings.laptop.airflow.component("triggerer")
    triggerer.stop()
    try:
        run_id = trainings.start()
        trainings.wait(run_id, "deferred")
        trainings.wait_states("RUNNING")
        action(trainings, run_id)
        trainings.wait_states("CANCELLED")
    finally:
        triggerer.start()
        trainings.laptop.airflow.wait_healthy()
    assert trainings.call("CancelCustomJob") == 1
    assert trainings.call("CreateCustomJob") == 1


def test_a_clear_of_a_deferred_task_ends_its_job_and_trains_anew(trainings: Trainings) -> None:
    run_id = trainings.start()
    trainings.wait(run_id, "deferred")
    trainings.wait_states("RUNNING")
    trainings.wait_watched(run_id)
    trainings.airflow.clear(trainings.dag_id, run_id, ["train"])
    trainings.wait_states("CANCELLED", "RUNNING")
    task = trainings.end(run_id)
    assert task["state"] == "success"
    assert trainings.states() == ["CANCELLED", "SUCCEEDED"]
    assert trainings.call("CancelCustomJob") == 1
    assert trainings.call("CreateCustomJob") == 2


def test_a_clear_after_success_trains_afresh(trainings: Trainings) -> None:
    run_id = trainings.start()
    trainings.wait(run_id, "deferred")
    trainings.end(run_id)
    trainings.airflow.clear(trainings.dag_id, run_id, ["train"])
    trainings.wait_states("SUCCEEDED", "SUCCEEDED")
    trainings.end(run_id)
    epochs = [job["labels"]["airflow-epoch"] for job in trainings.jobs()]
    assert len(set(epochs)) == 2


def test_in_plain_mode_a_users_kill_cancels_the_job(laptop: Laptop, tmp_path: Path) -> None:
    laptop.services.api.reset()
    trainings = Trainings(laptop, tmp_path / "release", "crashes_plain")
    run_id = trainings.start()
    trainings.wait(run_id, "running")
    trainings.wait_states("RUNNING")
    mark_failed(trainings, run_id)
    trainings.wait_states("CANCELLED")
    assert trainings.call("CancelCustomJob") == 1


def test_in_plain_mode_an_evicted_worker_leaves_its_job_to_the_next_try(
    laptop: Laptop, tmp_path: Path
) -> None:
    laptop.services.api.reset()
    trainings = Trainings(laptop, tmp_path / "release", "crashes_plain")
    run_id = trainings.start()
    trainings.wait(run_id, "running")
    trainings.wait_states("RUNNING")
    worker_of(trainings, run_id).terminate()
    trainings.wait(run_id, "running", try_number=2)
    task = trainings.end(run_id)
    assert task["try_number"] == 2
    assert trainings.states() == ["SUCCEEDED"]
    assert trainings.call("CreateCustomJob") == 1
    assert trainings.call("CancelCustomJob") == 0
