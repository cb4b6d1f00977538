"""No work is thrown away: Spot jobs on a real Airflow that are preempted again and again.

"Preempted five times" means five jobs, each ended by the platform with a preemption: the machine goes and the service
finds no other. (A machine that the service replaces inside one job is no end of a job.) Every number is asserted from
what the workers wrote to their logs and, independently, from the ledger in the task's result. All scenarios run at
once, on PostgreSQL; what is asserted was read after the last of them had ended.
"""

from __future__ import annotations

import contextlib
import re
import signal
from dataclasses import dataclass
from typing import Any

import httpx
import psutil
import pytest

from airflow_provider.agent_platform.triggers.checkpoint import moment_of
from tests.harness.airflow_api import FINISHED
from tests.harness.laptop import BUCKET, PROJECT, REGION, Laptop
from tests.harness.machine_loss import saved_steps, take_machine_away

pytestmark = pytest.mark.postgres

SCENARIOS = ("preempted", "never_saved", "got_stuck", "cut_off")

STEPS = 60
SAVE_EVERY = 10
GONE_AT = (15, 25, 35, 45, 55)
"""Where the machines of the jobs go in tests/system/dags/training_checkpoints.py: half way between two checkpoints."""

_TRAINED = re.compile(r"trained step (\d+)")
_STARTED = re.compile(r"started at step (\d+)")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What was there after the end.

    :param lines: what the workers of each job wrote, first job first.
    :param names: of all objects below the base directory, without it.
    """

    task: dict[str, Any]
    result: dict[str, Any] | None
    jobs: list[dict[str, Any]]
    lines: list[list[str]]
    log: str
    names: list[str]
    asset_events: list[dict[str, Any]]

    @property
    def states(self) -> list[str]:
        return [job["state"].removeprefix("JOB_STATE_") for job in self.jobs]

    @property
    def trained(self) -> list[list[int]]:
        """The steps that each job trained, in their order."""
        return [_numbers(_TRAINED, lines) for lines in self.lines]

    @property
    def started_at(self) -> list[list[int]]:
        """The steps that each job's processes started at: one, when the service restarted none."""
        return [_numbers(_STARTED, lines) for lines in self.lines]


def _numbers(pattern: re.Pattern[str], lines: list[str]) -> list[int]:
    return [int(found.group(1)) for line in lines if (found := pattern.search(line))]


class Thief:
    """Takes the machine of each job whose training says that it waits for that."""

    def __init__(self, laptop: Laptop) -> None:
        self.laptop = laptop
        self.taken: set[str] = set()

    def look(self) -> None:
        """Look once; raises when a process of the set-up has died."""
        self.laptop.check()
        emulator = self.laptop.services.api
        for job in emulator.jobs(PROJECT, REGION, 'state="JOB_STATE_RUNNING"'):
            if job["name"] in self.taken or not job["displayName"].startswith("checkpoints_"):
                continue
            if any(
                "waits for its machine to go" in line for line in emulator.log_lines(PROJECT, job["name"])
            ):
                take_machine_away(emulator, job)
                self.taken.add(job["name"])


class Watched:
    """A run of ``train_and_evaluate`` whose training stands still at its first checkpoint until it was evaluated.

    As a training of days does, beside an evaluation of minutes. It is held from outside: the example is as it is.

    :param run_id: of the run.
    """

    dag_id = "train_and_evaluate"

    def __init__(self, laptop: Laptop, run_id: str) -> None:
        self.laptop = laptop
        self.run_id = run_id
        self.evaluated: dict[str, Any] | None = None
        """The task that evaluated the checkpoint, when it had ended."""
        self.job_then: dict[str, Any] | None = None
        """The training job, read after that."""
        self._held: list[psutil.Process] = []

    def look(self) -> None:
        """Look once: hold the training, or let it go on."""
        if not self._held:
            self._hold()
        elif self.evaluated is None:
            task = self.laptop.airflow.api.task_instance(self.dag_id, self.run_id, "evaluate_early")
            if task["state"] in FINISHED:
                self.evaluated = task
                (self.job_then,) = self.jobs()
                self.let_go()

    def let_go(self) -> None:
        """Let the training go on."""
        for process in self._held:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def jobs(self) -> list[dict[str, Any]]:
        """The training jobs of the DAG."""
        return self.laptop.services.api.jobs(PROJECT, REGION, f'display_name="{self.dag_id}.train"')

    def _hold(self) -> None:
        emulator = self.laptop.services
        for job in self.jobs():
            if saved_steps(emulator.api.log_lines(PROJECT, job["name"])):
                for process in psutil.Process(emulator.emulator.pid).children(recursive=True):
                    if any("train-digits/evaluated" in argument for argument in process.cmdline()):
                        process.send_signal(signal.SIGSTOP)
                        self._held.append(process)


@dataclass(frozen=True, kw_only=True)
class Story:
    """All that happened.

    :param ended: by scenario.
    :param watched: the example with an evaluation beside the training.
    :param results: what its tasks returned.
    """

    ended: dict[str, Ended]
    watched: Watched
    state: str
    results: dict[str, Any]


@pytest.fixture(scope="module")
def story(postgres_laptop: Laptop) -> Story:
    laptop = postgres_laptop
    airflow = laptop.airflow.api
    laptop.services.api.reset()
    laptop.airflow.wait_for_dag(Watched.dag_id)
    watched = Watched(laptop, airflow.trigger(Watched.dag_id, {"steps": 3000}))
    runs = {}
    for name in SCENARIOS:
        laptop.airflow.wait_for_dag(f"checkpoints_{name}")
        runs[name] = airflow.trigger(f"checkpoints_{name}")
    thief = Thief(laptop)

    def look() -> None:
        thief.look()
        watched.look()

    try:
        for name, run_id in runs.items():
            airflow.wait_for_run(f"checkpoints_{name}", run_id, seconds=600, watch=look)
        run = airflow.wait_for_run(Watched.dag_id, watched.run_id, seconds=300, watch=look)
    finally:
        watched.let_go()
    return Story(
        ended={name: _read(laptop, name, run_id) for name, run_id in runs.items()},
        watched=watched,
        state=run["state"],
        results={
            task: airflow.xcom(Watched.dag_id, watched.run_id, task)
            for task in ("train", "reached", "evaluate_early", "evaluate")
        },
    )


@pytest.fixture
def ended(story: Story) -> dict[str, Ended]:
    return story.ended


def _read(laptop: Laptop, name: str, run_id: str) -> Ended:
    dag_id = f"checkpoints_{name}"
    airflow, emulator = laptop.airflow.api, laptop.services.api
    jobs = emulator.jobs(PROJECT, REGION, f'display_name="{dag_id}.train"')
    events = airflow.call("GET", "/assets/events", params={"source_dag_id": dag_id, "source_run_id": run_id})
    return Ended(
        task=airflow.task_instance(dag_id, run_id, "train"),
        result=airflow.xcom(dag_id, run_id, "train"),
        jobs=jobs,
        lines=[emulator.log_lines(PROJECT, job["name"]) for job in jobs],
        log=airflow.log(dag_id, run_id, "train"),
        names=_objects(laptop, f"checkpoints/{name}/"),
        asset_events=events["asset_events"],
    )


def _objects(laptop: Laptop, prefix: str) -> list[str]:
    url = f"{laptop.services.storage_url}/storage/v1/b/{BUCKET}/o"
    answer = httpx.get(url, params={"prefix": prefix}, timeout=30, trust_env=False)
    answer.raise_for_status()
    return sorted(item["name"].removeprefix(prefix) for item in answer.json().get("items", []))


# -- preempted five times


def test_a_job_preempted_five_times_reaches_the_end_without_a_retry(ended: dict[str, Ended]) -> None:
    found = ended["preempted"]
    assert (found.task["state"], found.task["try_number"], found.task["max_tries"]) == ("success", 1, 0), (
        found.log
    )
    assert found.states == ["FAILED"] * 5 + ["SUCCEEDED"], found.log
    assert found.result is not None
    assert [job["kind"] for job in found.result["jobs"]] == ["PREEMPTED"] * 5 + [None]
    assert [job["charged"] for job in found.result["jobs"][:5]] == [0] * 5
    assert found.result["step"] == STEPS


def test_what_was_trained_is_what_was_needed_and_what_was_lost_since_the_checkpoints(
    ended: dict[str, Ended],
) -> None:
    found = ended["preempted"]
    assert found.result is not None
    ledger = found.result["jobs"]
    # By the workers' own lines: every line is one step that somebody paid for.
    trained = sum(len(steps) for steps in found.trained)
    # By the ledger, which knows no lines, and by where the machines went.
    lost = [gone - job["reached_step"] for gone, job in zip(GONE_AT, ledger, strict=False)]
    assert lost == [5, 5, 5, 5, 5], found.log
    assert trained == STEPS + sum(lost) == 85, found.log
    # And each step of the training was made.
    assert sorted({step for steps in found.trained for step in steps}) == list(range(1, STEPS + 1))


def test_each_job_starts_where_the_ledger_says_the_one_before_came_to(ended: dict[str, Ended]) -> None:
    found = ended["preempted"]
    assert found.result is not None
    ledger = found.result["jobs"]
    reached = [job["reached_step"] for job in ledger]
    assert reached == [10, 20, 30, 40, 50, STEPS]
    assert [job["resumed_from_step"] for job in ledger] == [None, *reached[:-1]]
    assert found.started_at == [[0], [10], [20], [30], [40], [50]], found.lines
    labels = [job["labels"].get("airflow-resume-step") for job in found.jobs]
    assert labels == [None, "10", "20", "30", "40", "50"]


def test_a_success_after_a_deferral_is_an_asset_event_with_checkpoint_step_and_partition(
    ended: dict[str, Ended],
) -> None:
    found = ended["preempted"]
    assert found.result is not None
    (event,) = found.asset_events
    assert (
        event["extra"]["checkpoint"] == f"gs://{BUCKET}/checkpoints/preempted/checkpoints/checkpoint-{STEPS}"
    )
    assert event["extra"]["step"] == STEPS
    assert event["extra"]["name"] == found.jobs[-1]["name"]
    assert event["partition_key"] == "2026-11-30"


# -- without progress


def test_the_same_without_a_checkpoint_fails_as_preempted_after_one_job(ended: dict[str, Ended]) -> None:
    found = ended["never_saved"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert found.states == ["FAILED"], found.log
    assert "PREEMPTED" in found.log
    assert found.result is None
    assert found.asset_events == []


def test_progress_that_stops_is_charged_and_fails_too(ended: dict[str, Ended]) -> None:
    found = ended["got_stuck"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert found.states == ["FAILED", "FAILED"], found.log
    assert found.started_at == [[0], [10]], found.lines
    assert "PREEMPTED" in found.log


# -- a checkpoint that was cut off


def test_a_checkpoint_cut_off_in_the_middle_is_not_resumed_from(ended: dict[str, Ended]) -> None:
    found = ended["cut_off"]
    assert found.task["state"] == "success", found.log
    assert found.states == ["FAILED", "SUCCEEDED"], found.log
    assert "cut off in the upload of step 20" in found.lines[0]
    assert found.started_at == [[0], [10]], found.lines
    assert found.result is not None
    assert found.result["jobs"][0]["reached_step"] == 10
    assert found.result["step"] == 30
    assert (
        "Incomplete, not used: gs://demo-training/checkpoints/cut_off/checkpoints/checkpoint-20" in found.log
    )


def test_discard_incomplete_moved_it_aside_and_lost_nothing(ended: dict[str, Ended]) -> None:
    found = ended["cut_off"]
    job = found.jobs[0]["name"].rpartition("/")[2]
    assert [name for name in found.names if name.startswith("discarded/")] == [
        f"discarded/{job}/checkpoint-20/count.txt"
    ], found.log
    # The second job's own checkpoint of that step is whole.
    assert "checkpoints/checkpoint-20/_SUCCESS" in found.names


# -- an evaluation beside the training


def test_a_checkpoint_is_evaluated_while_the_training_is_still_running(story: Story) -> None:
    evaluated, job = story.watched.evaluated, story.watched.job_then
    assert evaluated is not None
    assert job is not None
    assert evaluated["state"] == "success"
    assert job["state"] == "JOB_STATE_RUNNING"
    reached = story.results["reached"]
    assert 500 <= reached["step"] < 3000
    assert reached["uri"].endswith(f"/checkpoints/checkpoint-{reached['step']}")
    assert story.results["evaluate_early"] > 0.5


def test_the_training_beside_it_ends_well_and_later(story: Story) -> None:
    assert story.state == "success"
    evaluated = story.watched.evaluated
    assert evaluated is not None
    assert moment_of(story.results["train"]["end_time"]) > moment_of(evaluated["end_date"])
    assert story.results["train"]["step"] == 3000
    assert story.results["evaluate"] >= 0.9
