"""The tuning operator against the emulator, with real trials: the same lifecycle, and a result with its best trial."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.exceptions import TrainingJobError
from airflow_provider.agent_platform.operators.hyperparameter_tuning_job import (
    HyperparameterTuningJobOperator,
)
from tests.operators.context import context_of

CONNECTION = {"conn_type": "google_cloud_platform", "extra": {"project": "p", "region": "us-central1"}}

# Writes what cloudml-hypertune writes: the metric is the parameter itself, so the best trial is known.
TRIAL = """
import json, os, sys
rate = next(word.partition("=")[2] for word in sys.argv if word.startswith("--rate="))
path = os.environ["CLOUD_ML_HP_METRIC_FILE"]
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "w") as file:
    file.write(json.dumps({"timestamp": 1.0, "trial": os.environ["CLOUD_ML_TRIAL_ID"],
        "accuracy": rate, "global_step": "1", "checkpoint_path": ""}) + "\\n")
"""

STUDY = {
    "algorithm": "GRID_SEARCH",
    "metrics": [{"metric_id": "accuracy", "goal": "MAXIMIZE"}],
    "parameters": [{"parameter_id": "rate", "discrete_value_spec": {"values": [0.25, 0.5, 0.75]}}],
}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(speed=120) as running:
        yield running


@pytest.fixture(autouse=True)
def _pointed_at_it(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", emulator.grpc_target)
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(CONNECTION))
    emulator.control.reset()


def operator(code: str, **more: Any) -> HyperparameterTuningJobOperator:
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "image", "command": ["python3", "-c", code]},
    }
    with DAG("dag", schedule=None):
        return HyperparameterTuningJobOperator(
            task_id="tune",
            study_spec=STUDY,
            max_trial_count=3,
            parallel_trial_count=3,
            worker_pool_specs=[pool],
            poll_interval=1,
            **more,
        )


def test_a_tuning_job_returns_its_best_trial() -> None:
    task = operator(TRIAL, deferrable=False)
    result = task.execute(context_of(task))
    assert json.loads(json.dumps(result)) == result
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    assert result["best_trial"]["parameters"] == {"rate": 0.75}
    assert len(result["trials"]) == 3


def test_a_tuning_job_that_fails_is_no_success() -> None:
    task = operator("raise SystemExit(1)", deferrable=False)
    with pytest.raises(TrainingJobError):
        task.execute(context_of(task))


def test_a_second_start_adopts_the_tuning_job(emulator: Emulator) -> None:
    task = operator("import time; time.sleep(60)")
    names = []
    for number in (1, 2):
        with pytest.raises(TaskDeferred) as caught:
            task.execute(context_of(task, try_number=number))
        names.append(caught.value.trigger.serialize()[1]["job_name"])
    assert len(set(names)) == 1
    assert emulator.control.calls()["CreateHyperparameterTuningJob"] == 1
