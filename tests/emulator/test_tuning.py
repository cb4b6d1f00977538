"""Hyperparameter tuning jobs through Google's own client, with real processes as trials."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import (
    FailedPrecondition,
    InvalidArgument,
    MethodNotImplemented,
    NotFound,
    ResourceExhausted,
)
from google.cloud.aiplatform_v1.types import CustomJob, HyperparameterTuningJob, JobState, Trial

PARENT = "projects/test-project/locations/us-central1"
PATIENCE = 60.0

REPORT = """
import json, os, sys, time
def report(step, value, tag="loss"):
    path = os.environ["CLOUD_ML_HP_METRIC_FILE"]
    old = open(path).read() if os.path.exists(path) else ""
    line = json.dumps({"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"], tag: str(value),
                       "global_step": str(step), "checkpoint_path": ""})
    with open(path + ".new", "w") as file:
        file.write(old + line + "\\n")
    os.replace(path + ".new", path)
x = float(next(word for word in sys.argv if word.startswith("--x=")).split("=")[1])
"""

DOUBLE = {"parameter_id": "x", "double_value_spec": {"min_value": 0.0, "max_value": 4.0}}


def whole(low: int, high: int) -> dict[str, Any]:
    return {"parameter_id": "x", "integer_value_spec": {"min_value": low, "max_value": high}}


def tuning(
    code: str, *, trials: int = 3, parallel: int = 1, algorithm: str = "GRID_SEARCH", **changes: Any
) -> dict[str, Any]:
    """A tuning job whose trials run Python code after ``REPORT``."""
    study = {
        "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
        "parameters": [changes.pop("parameter", whole(1, trials))],
        "algorithm": algorithm,
        **changes.pop("study", {}),
    }
    spec = {
        "worker_pool_specs": [
            {
                "machine_spec": {"machine_type": "n1-standard-4"},
                "replica_count": 1,
                "container_spec": {
                    "image_uri": "gcr.io/p/i",
                    "command": [sys.executable, "-c", REPORT + code],
                },
            }
        ],
        **changes.pop("spec", {}),
    }
    return {
        "display_name": "tuning",
        "max_trial_count": trials,
        "parallel_trial_count": parallel,
        "study_spec": study,
        "trial_job_spec": spec,
        **changes,
    }


def submit(cloud: Any, body: dict[str, Any]) -> str:
    made = cloud.client.create_hyperparameter_tuning_job(
        parent=PARENT, hyperparameter_tuning_job=HyperparameterTuningJob(body)
    )
    return str(made.name)


def get(cloud: Any, name: str) -> Any:
    return cloud.client.get_hyperparameter_tuning_job(name=name)


def wait(cloud: Any, name: str, done: Callable[[Any], bool] | None = None) -> Any:
    done = done or (lambda found: found.state in (4, 5, 7) and (found.state == 4 or bool(found.error.code)))
    deadline = time.monotonic() + PATIENCE
    while not done(found := get(cloud, name)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def run(cloud: Any, body: dict[str, Any]) -> Any:
    return wait(cloud, submit(cloud, body))


def losses(job: Any) -> list[float]:
    return [trial.final_measurement.metrics[0].value for trial in job.trials]


def test_a_grid_is_run_as_child_jobs_and_measured(cloud: Any) -> None:
    job = run(cloud, tuning("report(1, 9); report(2, (x - 2) ** 2)", labels={"team": "a"}))
    assert job.state == JobState.JOB_STATE_SUCCEEDED
    assert [trial.id for trial in job.trials] == ["1", "2", "3"]
    assert [trial.state for trial in job.trials] == [Trial.State.SUCCEEDED] * 3
    assert [trial.parameters[0].value for trial in job.trials] == [1.0, 2.0, 3.0]
    assert losses(job) == [1.0, 0.0, 1.0]
    assert [[one.step_count for one in trial.measurements] for trial in job.trials] == [[1, 2]] * 3
    assert job.start_time <= job.trials[0].end_time <= job.end_time
    child = cloud.get(job.trials[1].custom_job)
    assert child.state == JobState.JOB_STATE_SUCCEEDED
    assert child.display_name == "tuning_trial2"
    assert not child.labels  # the children of a labelled job are no jobs of that label
    assert job.trials[0].name == f"{job.name}/trials/1"


@pytest.mark.parametrize("algorithm", ["RANDOM_SEARCH", "ALGORITHM_UNSPECIFIED"])
def test_random_and_default_search_vary_their_parameters(cloud: Any, algorithm: str) -> None:
    job = run(cloud, tuning("report(1, x)", algorithm=algorithm, parameter=DOUBLE, trials=4, parallel=4))
    values = [trial.parameters[0].value for trial in job.trials]
    assert losses(job) == values
    assert len(set(values)) == 4
    assert all(0 <= value <= 4 for value in values)


def test_a_trial_is_given_its_environment_and_its_own_directory(cloud: Any) -> None:
    code = "print(json.dumps({k: os.environ.get(k) for k in KEYS} | {'argv': sys.argv[1:]})); report(1, x)"
    keys = ["CLOUD_ML_TRIAL_ID", "AIP_MODEL_DIR", "AIP_CHECKPOINT_DIR", "CLUSTER_SPEC"]
    body = tuning(
        f"KEYS = {keys}\n{code}",
        trials=2,
        spec={"base_output_directory": {"output_uri_prefix": "gs://bucket/base/"}},
    )
    job = run(cloud, body)
    for trial in job.trials:
        entries = cloud.emulator.server.engine.logs.entries(trial.custom_job.rsplit("/", 1)[1])
        found = next(entry.fields for entry in entries if entry.fields)
        assert found["CLOUD_ML_TRIAL_ID"] == trial.id
        assert found["AIP_MODEL_DIR"] == f"gs://bucket/base/{trial.id}/model/"
        assert found["AIP_CHECKPOINT_DIR"] == f"gs://bucket/base/{trial.id}/checkpoints/"
        assert json.loads(found["CLUSTER_SPEC"])["task"]["trial"] == trial.id
        assert found["argv"] == [f"--x={trial.id}"]


def test_no_more_trials_run_at_once_than_asked(cloud: Any) -> None:
    name = submit(cloud, tuning("time.sleep(0.4); report(1, x)", trials=4, parallel=2))
    most = 0
    while get(cloud, name).state not in (4, 5, 7):
        active = [trial for trial in get(cloud, name).trials if trial.state == Trial.State.ACTIVE]
        most = max(most, len(active))
        time.sleep(0.02)
    assert most == 2
    assert len(get(cloud, name).trials) == 4


def test_the_best_measurement_counts_when_asked(cloud: Any) -> None:
    code = "report(1, 5); report(2, 1); report(3, 3)"
    last = run(cloud, tuning(code, trials=1))
    best = run(cloud, tuning(code, trials=1, study={"measurement_selection_type": "BEST_MEASUREMENT"}))
    assert (losses(last), losses(best)) == ([3.0], [1.0])
    assert best.trials[0].final_measurement.step_count == 2


def test_a_trial_without_a_measurement_is_infeasible_and_the_job_goes_on(cloud: Any) -> None:
    job = run(cloud, tuning("x == 2 or report(1, x)"))
    assert job.state == JobState.JOB_STATE_SUCCEEDED
    assert [trial.state.name for trial in job.trials] == ["SUCCEEDED", "INFEASIBLE", "SUCCEEDED"]
    assert "without a measurement of loss" in job.trials[1].infeasible_reason


def test_the_first_failed_trial_fails_the_job_by_default(cloud: Any) -> None:
    job = run(cloud, tuning("report(1, x); sys.exit(3 if x == 2 else 0)"))
    assert job.state == JobState.JOB_STATE_FAILED
    assert [trial.state.name for trial in job.trials] == ["SUCCEEDED", "INFEASIBLE"]
    assert job.error.code == 3
    assert "The replica workerpool0-0 exited with a non-zero status of 3." in job.error.message
    assert "exited with a non-zero status of 3." in job.trials[1].infeasible_reason


def test_as_many_trials_may_fail_as_allowed(cloud: Any) -> None:
    job = run(cloud, tuning("report(1, x); sys.exit(3 if x == 2 else 0)", max_failed_trial_count=2))
    assert job.state == JobState.JOB_STATE_SUCCEEDED
    assert [trial.state.name for trial in job.trials] == ["SUCCEEDED", "INFEASIBLE", "SUCCEEDED"]


def test_a_failing_job_stops_the_trials_that_still_run(cloud: Any) -> None:
    job = run(cloud, tuning("time.sleep(0.5 if x == 1 else 600); sys.exit(1)", trials=3, parallel=3))
    assert job.state == JobState.JOB_STATE_FAILED
    children = [cloud.get(trial.custom_job) for trial in job.trials]
    assert [child.state.name for child in children] == [
        "JOB_STATE_FAILED",
        "JOB_STATE_CANCELLED",
        "JOB_STATE_CANCELLED",
    ]


def test_a_bad_trial_is_stopped_early_and_keeps_its_measurement(cloud: Any) -> None:
    code = "report(1, x); report(2, x)\nif x == 3: time.sleep(600)"
    job = run(cloud, tuning(code, study={"median_automated_stopping_spec": {}}))
    assert job.state == JobState.JOB_STATE_SUCCEEDED
    assert [trial.state.name for trial in job.trials] == ["SUCCEEDED"] * 3
    assert losses(job) == [1.0, 2.0, 3.0]
    assert cloud.get(job.trials[2].custom_job).state == JobState.JOB_STATE_CANCELLED
    assert [event["trial"] for event in cloud.events(job.name, "trial_stop")] == ["3"]


def test_measurements_of_a_running_trial_are_shown(cloud: Any) -> None:
    name = submit(cloud, tuning("report(1, x); time.sleep(600)", trials=1))
    job = wait(cloud, name, lambda found: bool(found.trials and found.trials[0].measurements))
    assert job.state == JobState.JOB_STATE_RUNNING
    assert job.trials[0].state == Trial.State.ACTIVE
    cloud.client.cancel_hyperparameter_tuning_job(name=name)
    wait(cloud, name)


def test_cancel_ends_the_trials_and_then_the_job(cloud: Any) -> None:
    name = submit(cloud, tuning("time.sleep(600)", trials=4, parallel=2))
    wait(cloud, name, lambda found: found.state == JobState.JOB_STATE_RUNNING)
    cloud.client.cancel_hyperparameter_tuning_job(name=name)
    cloud.client.cancel_hyperparameter_tuning_job(name=name)
    job = wait(cloud, name)
    assert job.state == JobState.JOB_STATE_CANCELLED
    assert job.error.code == 1
    assert len(job.trials) == 2
    assert {trial.state.name for trial in job.trials} == {"INFEASIBLE"}
    assert {cloud.get(trial.custom_job).state.name for trial in job.trials} == {"JOB_STATE_CANCELLED"}
    assert cloud.states(name) == ["QUEUED", "PENDING", "RUNNING", "CANCELLING", "CANCELLED"]


def test_list_filters_and_delete_answers_an_operation(cloud: Any) -> None:
    name = submit(cloud, tuning("time.sleep(600)", trials=1, labels={"a": "b"}))
    listed = list(
        cloud.client.list_hyperparameter_tuning_jobs(request={"parent": PARENT, "filter": 'labels.a="b"'})
    )
    assert [one.name for one in listed] == [name]
    with pytest.raises(FailedPrecondition):
        cloud.client.delete_hyperparameter_tuning_job(name=name)
    cloud.client.cancel_hyperparameter_tuning_job(name=name)
    wait(cloud, name)
    cloud.client.delete_hyperparameter_tuning_job(name=name).result(timeout=10)
    with pytest.raises(NotFound):
        get(cloud, name)


def test_a_tuning_job_waits_for_the_quota_of_its_parallel_trials(
    cloud: Any, make_job: Any, make_pool: Any
) -> None:
    cloud.control.set_quotas({"us-central1": {"custom_model_training_cpus": 8}})
    blocker = cloud.create(make_job(make_pool([sys.executable, "-c", "import time; time.sleep(600)"])))
    name = submit(cloud, tuning("report(1, x)", trials=2, parallel=2))
    time.sleep(0.5)
    assert get(cloud, name).state == JobState.JOB_STATE_QUEUED
    cloud.client.cancel_custom_job(name=blocker)
    assert wait(cloud, name).state == JobState.JOB_STATE_SUCCEEDED


def test_what_trials_write_is_found_under_the_tuning_job_too(cloud: Any) -> None:
    job = run(cloud, tuning("print('trial says', x); report(1, x)", trials=2))
    entries = cloud.emulator.server.engine.logs.entries(job.name.rsplit("/", 1)[1])
    assert [(entry.trial, entry.message) for entry in entries if entry.task_name == "workerpool0-0"] == [
        ("1", "trial says 1.0"),
        ("2", "trial says 2.0"),
    ]
    said = [entry.message for entry in entries if entry.task_name == "service"]
    assert said == ["Job is preparing.", "Job is running.", "Job completed successfully."]


def test_a_study_stops_by_its_own_condition(cloud: Any) -> None:
    job = run(
        cloud, tuning("report(1, x)", trials=10, study={"study_stopping_config": {"max_num_trials": 3}})
    )
    assert job.state == JobState.JOB_STATE_SUCCEEDED
    assert len(job.trials) == 3


def test_a_job_goes_on_after_the_emulator_was_started_anew(fast_cloud: Any, tmp_path: Path) -> None:
    database = str(tmp_path / "jobs.db")
    first = fast_cloud(db=database)
    flag = tmp_path / "go"
    code = f"print(x)\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.05)\nreport(1, x)"
    name = submit(first, tuning(code, trials=3, algorithm="ALGORITHM_UNSPECIFIED", parameter=DOUBLE))
    wait(first, name, lambda found: found.state == JobState.JOB_STATE_RUNNING)
    before = get(first, name)
    first.emulator.stop()
    flag.touch()
    job = wait(fast_cloud(db=database), name)
    assert job.state == JobState.JOB_STATE_SUCCEEDED
    assert job.trials[0].custom_job == before.trials[0].custom_job
    assert job.trials[0].parameters[0].value == before.trials[0].parameters[0].value
    assert len(job.trials) == 3


def refused(cloud: Any, body: dict[str, Any]) -> str:
    with pytest.raises(InvalidArgument) as caught:
        submit(cloud, body)
    return str(caught.value.message)


CATEGORICAL = {"parameter_id": "x", "categorical_value_spec": {"values": ["a", "b"]}}


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"max_trial_count": 0}, "max_trial_count", "at least 1"),
        ({"parallel_trial_count": 9}, "parallel_trial_count", "at most max_trial_count (3), found 9"),
        ({"max_failed_trial_count": 9}, "max_failed_trial_count", "at most max_trial_count"),
        ({"display_name": ""}, "display_name", "Required"),
        ({"labels": {"A": "b"}}, "labels", "lowercase"),
        ({"study": {"metrics": []}}, "study_spec.metrics", "at least one metric"),
        ({"study": {"metrics": [{"metric_id": "a b", "goal": 1}]}}, "study_spec.metrics[0].metric_id", "'a b'"),
        ({"study": {"metrics": [{"metric_id": "a"}]}}, "study_spec.metrics[0].goal", "MAXIMIZE, MINIMIZE"),
        ({"study": {"metrics": [{"metric_id": "a", "goal": 1}] * 2}}, "study_spec.metrics", "unique"),
        ({"study": {"parameters": []}}, "study_spec.parameters", "at least one parameter"),
        ({"parameter": {"parameter_id": "x"}}, "study_spec.parameters[0]", "must be set"),
        ({"parameter": {**DOUBLE, "parameter_id": "a b"}, "algorithm": "RANDOM_SEARCH"}, "study_spec.parameters[0].parameter_id", "'a b'"),
        ({"parameter": DOUBLE}, "study_spec.parameters[0].double_value_spec", "GRID_SEARCH needs"),
        ({"parameter": whole(3, 1)}, "study_spec.parameters[0].integer_value_spec", "at most max_value"),
        ({"parameter": {**whole(0, 1), "scale_type": 2}}, "study_spec.parameters[0].integer_value_spec", "positive"),
        (
            {"parameter": {"parameter_id": "x", "discrete_value_spec": {"values": [2, 1]}}},
            "study_spec.parameters[0].discrete_value_spec.values",
            "increasing order",
        ),
        ({"parameter": {**CATEGORICAL, "scale_type": 1}}, "study_spec.parameters[0].scale_type", "CATEGORICAL"),
        (
            {"parameter": {"parameter_id": "x", "integer_value_spec": {"min_value": 0, "max_value": 1, "default_value": 1}}},
            "study_spec.parameters[0].integer_value_spec.default_value",
            "Not supported by HyperparameterTuningJob",
        ),
        ({"study": {"observation_noise": 1}}, "study_spec.observation_noise", "Not supported"),
        ({"spec": {"worker_pool_specs": []}}, "trial_job_spec.worker_pool_specs", "Required"),
        ({"spec": {"network": "x"}}, "trial_job_spec.network", "global/networks"),
        (
            {
                "parameter": {
                    **CATEGORICAL,
                    "conditional_parameter_specs": [
                        {"parent_categorical_values": {"values": ["c"]}, "parameter_spec": whole(0, 1)}
                    ],
                }
            },
            "study_spec.parameters[0].conditional_parameter_specs[0].parent_categorical_values",
            "'c' is no value of its parent 'x'",
        ),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_a_wrong_tuning_job_is_refused_with_its_field(
    cloud: Any, changes: dict[str, Any], field: str, says: str
) -> None:
    message = refused(cloud, tuning("", **{**changes}))
    assert f"Field: {field}; Message: " in message
    assert says in message


@pytest.mark.parametrize(
    "study",
    [
        {"decay_curve_stopping_spec": {}},
        {"convex_automated_stopping_spec": {}},
        {"metrics": [{"metric_id": "loss", "goal": 1, "safety_config": {"safety_threshold": 1}}]},
    ],
    ids=str,
)
def test_what_is_not_emulated_is_unimplemented(cloud: Any, study: dict[str, Any]) -> None:
    with pytest.raises(MethodNotImplemented, match="not emulated"):
        submit(cloud, tuning("", study=study))


def test_a_child_cannot_be_told_from_another_custom_job_by_its_message(cloud: Any) -> None:
    job = run(cloud, tuning("report(1, x)", trials=1))
    listed = [one.name for one in cloud.client.list_custom_jobs(parent=PARENT)]
    assert listed == [job.trials[0].custom_job]
    assert isinstance(cloud.get(listed[0]), CustomJob)


@pytest.mark.parametrize(("policy", "refused"), [("refuse", True), ("fail_later", False)])
def test_over_quota_a_tuning_job_does_as_the_switch_says(fast_cloud: Any, policy: str, refused: bool) -> None:
    cloud = fast_cloud(switches={"over_quota": policy})
    cloud.control.set_quotas({"us-central1": {"custom_model_training_cpus": 7}})
    body = tuning("report(1, x)", trials=2, parallel=2)
    if refused:
        with pytest.raises(ResourceExhausted, match=r"exceed quota limits: .*custom_model_training_cpus"):
            submit(cloud, body)
        return
    job = run(cloud, body)
    assert job.state == JobState.JOB_STATE_FAILED
    assert job.error.code == 8
    assert "custom_model_training_cpus" in job.error.message
    assert not job.trials


def test_a_reset_forgets_tuning_jobs_and_ends_their_trials(cloud: Any) -> None:
    name = submit(cloud, tuning("time.sleep(600)", trials=2, parallel=2))
    wait(cloud, name, lambda found: found.state == JobState.JOB_STATE_RUNNING)
    cloud.control.reset()
    with pytest.raises(NotFound):
        get(cloud, name)
    assert list(cloud.client.list_custom_jobs(parent=PARENT)) == []
    assert run(cloud, tuning("report(1, x)", trials=1)).state == JobState.JOB_STATE_SUCCEEDED


def test_an_ended_job_leaves_no_files(cloud: Any) -> None:
    name = submit(cloud, tuning("report(1, x); time.sleep(600)", trials=1))
    job = wait(cloud, name, lambda found: bool(found.trials and found.trials[0].measurements))
    child = cloud.emulator.server.engine.store.get(job.trials[0].custom_job.rsplit("/", 1)[1])
    metrics = Path(child.launch["metric_file"])
    assert metrics.exists()
    cloud.client.cancel_hyperparameter_tuning_job(name=name)
    wait(cloud, name)
    assert not metrics.parents[1].exists()
