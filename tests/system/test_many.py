"""Hundreds of mapped trainings on a real Airflow: whatever is killed there is one job for each, and waiting costs little.

Nothing is trained (the emulator's ``simulated`` runner): what is looked at is Airflow's processes and the calls they
make. ``SYSTEM_TASKS`` in the environment makes both tests smaller or larger.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.triggers.call_budget import CALLS_PER_MINUTE
from tests.harness.laptop import PROJECT, REGION, Laptop
from tests.harness.postgres import PostgresServer
from tests.harness.waiting import wait_until
from tests.harness.worker_killer import WorkerKiller

pytestmark = pytest.mark.postgres

DAG = "many"
SPEED = 60
POLL_SECONDS = 2
"""As in the DAG."""
PAGE = 100
SEED = 20261130


def tasks(default: int) -> int:
    """How many a test has."""
    return int(os.environ.get("SYSTEM_TASKS", default))


class Many:
    """One run at a time of a DAG with many mapped trainings."""

    def __init__(self, laptop: Laptop) -> None:
        self.laptop = laptop
        self.airflow = laptop.airflow.api
        self.emulator = laptop.services.api
        self.run_id = ""
        self.count = 0

    def start(self, count: int, *, seconds: float, step: float = 0.0) -> None:
        """Trigger a run; its first task, which lists the trainings, is waited for."""
        conf = {"count": count, "seconds": seconds * SPEED, "step": step * SPEED}
        self.run_id, self.count = self.airflow.trigger(DAG, conf), count
        self.wait(lambda: self.in_state("success") == 1, "the trainings to be listed", seconds=120)

    def wait(self, look: Callable[[], object], what: str, *, seconds: float, every: float = 1.0) -> None:
        wait_until(look, what, seconds=seconds, every=every, watch=self.laptop.check)

    def in_state(self, state: str) -> int:
        return self.airflow.count_task_instances(DAG, self.run_id, state)

    def end(self, *, seconds: float) -> list[dict[str, Any]]:
        """Wait for the end of the run; the task instances of the trainings."""
        run = self.airflow.wait_for_run(DAG, self.run_id, seconds=seconds, every=1.0, watch=self.laptop.check)
        found = self.airflow.task_instances(DAG, self.run_id)
        trainings = [task for task in found if task["task_id"] == "train"]
        assert Counter(task["state"] for task in trainings) == {"success": self.count}, self.failures(
            trainings
        )
        assert run["state"] == "success"
        return trainings

    def failures(self, trainings: list[dict[str, Any]]) -> str:
        """The last log of some that failed."""
        failed = [task for task in trainings if task["state"] != "success"]
        return "\n\n".join(
            f"{task['map_index']} is {task['state']} after {task['try_number']} tries:\n"
            + self.airflow.log(DAG, self.run_id, "train", task["try_number"], task["map_index"])
            for task in failed[:3]
        )

    def calls(self, *methods: str) -> int:
        counted = self.emulator.calls()
        return sum(counted.get(method, 0) for method in methods)

    def assert_one_job_each(self) -> None:
        """As many jobs as tasks; all succeeded, and none was there that had to be cancelled."""
        jobs = self.emulator.jobs(PROJECT, REGION)
        assert Counter(job["state"] for job in jobs) == {"JOB_STATE_SUCCEEDED": self.count}
        assert len({job["labels"]["airflow-ti"] for job in jobs}) == self.count
        assert self.calls("CreateCustomJob") == self.count
        assert self.calls("CancelCustomJob") == 0

    def trigger_logs(self, map_index: int, try_number: int) -> list[Path]:
        """The files with what the trigger of a try has logged; none when that try never waited."""
        folder = self.laptop.airflow.home / "logs" / f"dag_id={DAG}" / f"run_id={self.run_id}"
        return list(
            (folder / "task_id=train" / f"map_index={map_index}").glob(f"attempt={try_number}.log.trigger.*")
        )


@pytest.fixture(scope="module")
def laptop(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """A set-up of its own: with sixteen workers, and with trainings that cost nothing."""
    root = tmp_path_factory.mktemp("laptop many")
    dags = root / "dags"
    dags.mkdir()
    (dags / "training_many.py").symlink_to(Path(__file__).parent / "dags" / "training_many.py")
    with Laptop(
        root,
        dags_folder=dags,
        database_url=postgres_server.create_database("many"),
        speed=SPEED,
        runner="simulated",
        airflow_env={"AIRFLOW__CORE__PARALLELISM": "16"},
    ) as running:
        running.airflow.wait_for_dag(DAG)
        yield running


@pytest.fixture
def many(laptop: Laptop) -> Many:
    laptop.services.api.reset()
    return Many(laptop)


def test_workers_killed_at_random_leave_one_job_for_each_task(many: Many) -> None:
    count = tasks(200)
    many.start(count, seconds=10)
    scheduler = many.laptop.airflow.component("scheduler")
    with WorkerKiller(scheduler, seed=SEED, pause=(0.5, 2.5)) as killer:
        trainings = many.end(seconds=600)
    many.assert_one_job_each()
    # Else nothing was tested: kills must have cost tries, before the wait and after it.
    lost = [(task["map_index"], number) for task in trainings for number in range(1, task["try_number"])]
    after_the_wait = [one for one in lost if many.trigger_logs(*one)]
    print(f"{len(killer.killed)} kills cost {len(lost)} tries, {len(after_the_wait)} of them after the wait")
    assert len(lost) >= count // 20
    assert after_the_wait
    assert len(lost) > len(after_the_wait)


OUTAGE_BEGINS, OUTAGE_ENDS = "No task fails because of that", "works again after"
NO_MACHINES = {REGION: {"custom_model_training_cpus": 0}}


class TriggererLog:
    """What the triggerer says from now on."""

    def __init__(self, many: Many) -> None:
        self._path = many.laptop.airflow.component("triggerer").log
        self._from = self._path.stat().st_size

    def count(self, text: str) -> int:
        return self._path.read_bytes()[self._from :].decode(errors="replace").count(text)


def fail_five_percent(many: Many) -> None:
    for method in ("ListCustomJobs", "GetCustomJob"):
        many.emulator.add_fault("rpc_error", method=method, every=20, times=None)


def assert_a_poll_costs_pages_and_nothing_else(many: Many) -> None:
    lists, gets, since = many.calls("ListCustomJobs"), many.calls("GetCustomJob"), time.monotonic()
    pages = math.ceil(many.count / PAGE)
    many.wait(lambda: many.calls("ListCustomJobs") >= lists + 6 * pages, "six polls", seconds=90)
    # An interval is shortened by up to a tenth; one call of twenty is made again.
    polls = (time.monotonic() - since) / (0.9 * POLL_SECONDS) + 1
    assert many.calls("ListCustomJobs") - lists <= 1.1 * polls * pages + 1
    assert many.calls("GetCustomJob") == gets


def let_a_poll_hang_and_more_fail(many: Many, log: TriggererLog) -> None:
    many.emulator.add_fault("rpc_hang", method="ListCustomJobs")
    many.wait(lambda: many.emulator.faults()[-1]["fired"] == 1, "a poll to hang", seconds=30)
    many.emulator.add_fault("rpc_error", method="ListCustomJobs", times=None)
    # The first poll asks three times, those of an outage once.
    many.wait(lambda: many.emulator.faults()[-1]["fired"] >= 5, "polls to fail", seconds=120)
    many.emulator.remove_faults()
    fail_five_percent(many)
    many.wait(lambda: log.count(OUTAGE_ENDS), "polls to work again", seconds=60)


def test_waiting_tasks_cost_few_calls_and_no_try_though_polls_fail_and_hang(many: Many) -> None:
    count = tasks(300)
    log = TriggererLog(many)
    fail_five_percent(many)
    # No job begins before all tasks wait.
    many.emulator.set_quotas(NO_MACHINES)
    began = time.monotonic()
    many.start(count, seconds=5, step=0.1)
    many.wait(lambda: many.in_state("deferred") == count, f"{count} deferred tasks", seconds=600)

    assert_a_poll_costs_pages_and_nothing_else(many)
    let_a_poll_hang_and_more_fail(many, log)
    waiting = [task for task in many.airflow.task_instances(DAG, many.run_id) if task["task_id"] == "train"]
    assert Counter(task["state"] for task in waiting) == {"deferred": count}
    assert len({task["triggerer_job"]["id"] for task in waiting}) == 1

    many.emulator.set_quotas({})
    trainings = many.end(seconds=600)
    minutes = (time.monotonic() - began) / 60
    many.emulator.remove_faults()
    assert Counter(task["try_number"] for task in trainings) == {1: count}
    # A start reads three times (the ledger, again after the create, the job), a resume twice, a poll the ended job
    # once; every twentieth call is made again. The polls of lists have a budget of their own.
    assert many.calls("GetCustomJob") <= 1.1 * 3 * count
    assert many.calls("ListCustomJobs") <= 1.1 * 3 * count + CALLS_PER_MINUTE * (minutes + 1)
    many.assert_one_job_each()
    assert (log.count(OUTAGE_BEGINS), log.count(OUTAGE_ENDS)) == (1, 1)
    for task in trainings:
        (file,) = many.trigger_logs(task["map_index"], 1)
        # Three of Airflow's own, and a line for each of the four states at most.
        assert 2 <= len(file.read_text().splitlines()) <= 7, file.read_text()
