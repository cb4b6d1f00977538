"""The example on a real Airflow: it loses its Spot machine in the middle, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.harness.laptop import PROJECT, REGION, Laptop
from tests.harness.watch import DAG_ID, Watch


@pytest.fixture
def story() -> list[str]:
    """What the watch tells, for the report of a failed test."""
    return []


def test_a_training_that_loses_its_machine_resumes_inside_one_airflow_try(
    laptop: Laptop, story: list[str]
) -> None:
    airflow, emulator = laptop.airflow.api, laptop.services.api
    laptop.airflow.wait_for_dag(DAG_ID)
    run_id = airflow.trigger(DAG_ID)
    watch = Watch(laptop, run_id, story.append)
    run = airflow.wait_for_run(DAG_ID, run_id, seconds=300, every=0.25, watch=watch.look)

    log = airflow.log(DAG_ID, run_id, "train")
    assert run["state"] == "success", "\n".join([*story, log])
    assert airflow.task_instance(DAG_ID, run_id, "train")["try_number"] == 1

    jobs = emulator.jobs(PROJECT, REGION)
    assert [job["state"] for job in jobs] == ["JOB_STATE_FAILED", "JOB_STATE_SUCCEEDED"]
    assert emulator.calls()["CreateCustomJob"] == 2

    result: dict[str, Any] = airflow.xcom(DAG_ID, run_id, "train")
    first, second = result["jobs"]
    assert first["kind"] == "PREEMPTED"
    assert first["charged"] == 0
    assert second["resumed_from_step"] == first["reached_step"] > 0
    assert jobs[1]["labels"]["airflow-resume-step"] == str(second["resumed_from_step"])
    assert result["step"] == 400
    assert airflow.xcom(DAG_ID, run_id, "evaluate") >= 0.9

    assert Counter(_starts(emulator.log_lines(PROJECT, jobs[1]["name"]))) == {
        f"resuming from step {second['resumed_from_step']}": 1
    }
    assert laptop.airflow.listening_beyond_loopback() == []
    assert laptop.services.emulator.alive


def _starts(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("resuming from", "starting from"))]
