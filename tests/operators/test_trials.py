"""Trials of a tuning job in the task's result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.cloud import aiplatform_v1 as v1

from airflow_provider.agent_platform.operators.trials import MAX_TRIALS, best_trial, bounded_trials


def trial(number: int, state: str, value: float | None) -> Any:
    message: Any = v1.Trial(
        {
            "id": str(number),
            "state": state,
            "parameters": [{"parameter_id": "lr", "value": 0.5}, {"parameter_id": "layers", "value": 3}],
        }
    )
    if value is not None:
        message.final_measurement = {"metrics": [{"metric_id": "accuracy", "value": value}]}
    return message


def job(goal: str, *trials: Any, metrics: int = 1) -> Any:
    names = ["accuracy", "loss"][:metrics]
    study = {"metrics": [{"metric_id": name, "goal": goal} for name in names]}
    return v1.HyperparameterTuningJob({"study_spec": study, "trials": list(trials)})


TRIALS = (
    trial(1, "SUCCEEDED", 0.7),
    trial(2, "SUCCEEDED", 0.9),
    trial(3, "INFEASIBLE", 0.99),
    trial(4, "SUCCEEDED", None),
)


@pytest.mark.parametrize(("goal", "best"), [("MAXIMIZE", "2"), ("MINIMIZE", "1")])
def test_the_best_trial_follows_the_goal_among_those_that_succeeded(goal: str, best: str) -> None:
    found = best_trial(job(goal, *TRIALS))
    assert found is not None
    assert found["id"] == best
    assert found["parameters"] == {"lr": 0.5, "layers": 3}


def test_with_several_metrics_no_single_trial_is_best() -> None:
    assert best_trial(job("MAXIMIZE", *TRIALS, metrics=2)) is None


def test_without_a_success_there_is_no_best_trial() -> None:
    assert best_trial(job("MAXIMIZE", trial(1, "INFEASIBLE", 0.7))) is None


def test_the_list_of_trials_is_bounded_and_json() -> None:
    message = job("MAXIMIZE", *[trial(number, "SUCCEEDED", 0.5) for number in range(MAX_TRIALS + 5)])
    shown = bounded_trials(message)
    assert len(shown) == MAX_TRIALS
    assert json.loads(json.dumps(shown)) == shown
