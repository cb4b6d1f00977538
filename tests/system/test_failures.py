"""Failures on a real Airflow: the state of the task, its tries, and the jobs and runs that were made.

The scenarios run in waves, on PostgreSQL; what is asserted was read after the end of each wave.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.laptop import PROJECT, REGION, Laptop
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.postgres

FALLBACK = "europe-west4"
UNKNOWN_TEXT = "The orchestrator lost its patience with replica set 7."
QUOTA = (
    "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_cpus"
)
WAVE = 4
"""Scenarios at one time: a scheduler that is too busy loses races with its own executor."""

SCENARIOS = (
    "exit_1",
    "abort_retries_3",
    "abort_retries_5",
    "internal_error",
    "unknown_text",
    "stockout",
    "quota_refused",
    "cancelled_outside",
    "rule_requeues",
    "plain_mode",
    "queue_timeout",
    "run_timeout",
)


@dataclass
class Ended:
    """What was there after the end."""

    task: dict[str, Any]
    jobs: list[dict[str, Any]] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    log: str = ""

    @property
    def failed_by_airflow(self) -> bool:
        """Airflow ended the try itself, with no resumed worker at all (its "state mismatch", apache/airflow#71580).

        An error of ours, raised or decided, leaves one of these lines: such a scenario is not run again.
        """
        ours = ("Decision:", "Task failed with exception")
        return self.task["state"] == "failed" and not any(line in self.log for line in ours)

    @property
    def states(self) -> list[str]:
        return [job["state"].removeprefix("JOB_STATE_") for job in self.jobs]


@pytest.fixture(scope="module")
def ended(request: pytest.FixtureRequest, postgres_laptop: Laptop) -> dict[str, Ended]:
    laptop = postgres_laptop
    emulator = laptop.services.api
    emulator.reset()
    _arm(emulator)
    found = {}
    for start in range(0, len(SCENARIOS), WAVE):
        wave = SCENARIOS[start : start + WAVE]
        found.update(_run(laptop, wave))
        for name in wave:
            if found[name].failed_by_airflow:
                _arm(emulator)
                found.update(_run(laptop, (name,)))
    return found


def _run(laptop: Laptop, names: tuple[str, ...]) -> dict[str, Ended]:
    airflow, emulator = laptop.airflow.api, laptop.services.api
    runs = {}
    for name in names:
        laptop.airflow.wait_for_dag(f"failure_{name}")
        runs[name] = airflow.trigger(f"failure_{name}")
    if "cancelled_outside" in names:
        _cancel_from_outside(laptop)
    found = {}
    for name, run_id in runs.items():
        dag_id = f"failure_{name}"
        airflow.wait_for_run(dag_id, run_id, seconds=300, watch=laptop.check)
        task = airflow.task_instance(dag_id, run_id, "train")
        jobs = [
            job
            for region in (REGION, FALLBACK)
            for job in emulator.jobs(PROJECT, region)
            if job["displayName"] == f"{dag_id}.train"
        ]
        jobs.sort(key=lambda job: str(job["createTime"]))
        # Those of this run of the DAG: a scenario may have run before.
        jobs = [job for job in jobs if job["labels"]["airflow-ti"] == jobs[-1]["labels"]["airflow-ti"]]
        found[name] = Ended(
            task=task,
            jobs=jobs,
            runs=[_runs(emulator.events(job["name"])) for job in jobs],
            log="\n".join(
                airflow.log(dag_id, run_id, "train", number) for number in range(1, task["try_number"] + 1)
            ),
        )
    return found


def _arm(emulator: Any) -> None:
    emulator.add_fault("internal_error", match={"display_name": "failure_internal_error.train"}, times=3)
    emulator.add_fault(
        "job_error", match={"display_name": "failure_unknown_text.train"}, message=UNKNOWN_TEXT, times=None
    )
    emulator.add_fault(
        "stockout", match={"display_name": "failure_stockout.train", "region": REGION}, times=4
    )
    emulator.add_fault("stockout", match={"display_name": "failure_queue_timeout.train"}, times=1000)
    emulator.add_fault(
        "rpc_error",
        match={"display_name": "failure_quota_refused.train"},
        method="CreateCustomJob",
        code="RESOURCE_EXHAUSTED",
        message=QUOTA,
        times=1,
    )


def _cancel_from_outside(laptop: Laptop) -> None:
    emulator = laptop.services.api

    def running() -> str | None:
        for job in emulator.jobs(PROJECT, REGION, 'display_name="failure_cancelled_outside.train"'):
            if job["state"] == "JOB_STATE_RUNNING":
                return str(job["name"])
        return None

    name = wait_until(running, "the job to cancel", seconds=120, watch=laptop.check)
    emulator._call("POST", f"/v1/{name}:cancel", json={})


def _runs(events: list[dict[str, Any]]) -> int:
    return max((event.get("run") or 0 for event in events), default=0)


def test_an_exit_1_fails_at_once_with_one_run(ended: dict[str, Ended]) -> None:
    found = ended["exit_1"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert found.states == ["FAILED"], found.log
    assert found.runs == [1], found.log
    assert "workerpool0-0" in found.log
    assert "console.cloud.google.com" in found.log


def test_a_crash_that_the_platform_ran_four_times_is_not_run_a_fifth_time(ended: dict[str, Ended]) -> None:
    found = ended["abort_retries_3"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert found.runs == [4], found.log
    assert "already ran" in found.log


def test_a_crash_with_budget_left_gets_a_second_job_without_the_platforms_retries(
    ended: dict[str, Ended],
) -> None:
    found = ended["abort_retries_5"]
    assert found.task["state"] == "failed", found.log
    assert found.task["try_number"] >= 2, found.log
    switched_off = [job["jobSpec"].get("scheduling", {}).get("disableRetries", False) for job in found.jobs]
    assert switched_off[:2] == [False, True], found.log
    assert sum(found.runs) <= 6 + 3, found.log


def test_internal_errors_are_counted_once(ended: dict[str, Ended]) -> None:
    found = ended["internal_error"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert found.runs == [3], found.log


def test_a_text_that_nobody_knows_is_retried_while_the_budget_lasts(ended: dict[str, Ended]) -> None:
    found = ended["unknown_text"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 3), found.log
    assert found.states == ["FAILED", "FAILED", "FAILED"], found.log
    assert found.runs == [1, 1, 1], found.log
    assert "kind=UNKNOWN next=RETRY" in found.log
    assert f'evidence="{UNKNOWN_TEXT}"' in found.log
    assert "kind=UNKNOWN next=FAIL" in found.log
    assert "already ran this 3 times" in found.log


def test_a_stockout_moves_to_the_next_region_inside_the_try(ended: dict[str, Ended]) -> None:
    found = ended["stockout"]
    assert (found.task["state"], found.task["try_number"]) == ("success", 1), found.log
    assert found.states == ["FAILED", "SUCCEEDED"], found.log
    assert f"/locations/{FALLBACK}/" in found.jobs[1]["name"], found.log


def test_a_create_refused_for_quota_waits_inside_the_try(ended: dict[str, Ended]) -> None:
    found = ended["quota_refused"]
    assert (found.task["state"], found.task["try_number"]) == ("success", 1), found.log
    assert found.states == ["SUCCEEDED"], found.log
    assert "QUOTA" in found.log


def test_a_cancel_from_outside_fails_without_a_retry(ended: dict[str, Ended]) -> None:
    found = ended["cancelled_outside"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert found.states == ["CANCELLED"], found.log


def test_a_rule_that_always_requeues_ends_at_the_ceiling_of_jobs(ended: dict[str, Ended]) -> None:
    found = ended["rule_requeues"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert len(found.jobs) == 3, found.log


def test_the_plain_mode_takes_the_same_path(ended: dict[str, Ended]) -> None:
    found = ended["plain_mode"]
    assert (found.task["state"], found.task["try_number"]) == ("success", 1), found.log
    assert found.states == ["SUCCEEDED"], found.log


def test_a_queue_timeout_ends_the_wait_and_leaves_no_job(ended: dict[str, Ended]) -> None:
    found = ended["queue_timeout"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert "queue_timeout is 8 s" in found.log
    assert not {"QUEUED", "PENDING", "RUNNING"} & set(found.states), found.log


def test_a_run_timeout_cancels_the_job_and_fails(ended: dict[str, Ended]) -> None:
    found = ended["run_timeout"]
    assert (found.task["state"], found.task["try_number"]) == ("failed", 1), found.log
    assert "RUN_TIMEOUT" in found.log
    assert found.states == ["CANCELLED"], found.log
