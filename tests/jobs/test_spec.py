"""A job in every form that users, gcloud and the console write it: one and the same request, or a clear error."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG, task
from google.cloud import aiplatform_v1 as api

from airflow_provider.agent_platform.hooks.requests import CUSTOM_JOB, TUNING_JOB, to_message
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.jobs.spec import build_custom_job, build_tuning_job

POOL: dict[str, Any] = {
    "machine_spec": {
        "machine_type": "n1-standard-4",
        "accelerator_type": "NVIDIA_TESLA_T4",
        "accelerator_count": 1,
    },
    "replica_count": 1,
    "disk_spec": {"boot_disk_size_gb": 200},
    "container_spec": {
        "image_uri": "europe-docker.pkg.dev/p/r/train:1",
        "args": ["--epochs", "3"],
        "env": [{"name": "LEVEL", "value": "info"}],
    },
}
CAMEL_POOL: dict[str, Any] = {
    "machineSpec": {
        "machineType": "n1-standard-4",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 1,
    },
    "replicaCount": "1",
    "diskSpec": {"bootDiskSizeGb": 200},
    "containerSpec": {
        "imageUri": "europe-docker.pkg.dev/p/r/train:1",
        "args": ["--epochs", "3"],
        "env": [{"name": "LEVEL", "value": "info"}],
    },
}
STUDY: dict[str, Any] = {
    "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
    "parameters": [{"parameter_id": "lr", "double_value_spec": {"min_value": 0.001, "max_value": 0.1}}],
}


def custom(**arguments: Any) -> dict[str, Any]:
    return build_custom_job(display_name="train", **arguments)


def tuning(**arguments: Any) -> dict[str, Any]:
    given = {
        "study_spec": STUDY,
        "max_trial_count": 4,
        "parallel_trial_count": 2,
        "worker_pool_specs": [POOL],
    }
    return build_tuning_job(display_name="tune", **{**given, **arguments})


def problems(call: Any, **arguments: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        call(**arguments)
    return [str(problem) for problem in caught.value.problems]


# -- one request, many forms


def test_snake_case_and_camel_case_are_the_same_request() -> None:
    assert custom(worker_pool_specs=[POOL]) == custom(worker_pool_specs=[CAMEL_POOL])


def test_pools_and_a_whole_spec_are_the_same_request() -> None:
    spec = {"workerPoolSpecs": [CAMEL_POOL], "scheduling": {"timeout": "3600s", "strategy": "SPOT"}}
    assert custom(job_spec=spec) == custom(worker_pool_specs=[POOL], run_timeout=3600, strategy="SPOT")


def test_messages_and_dicts_are_the_same_request() -> None:
    pool = api.WorkerPoolSpec(POOL)
    spec = api.CustomJobSpec(
        worker_pool_specs=[POOL], scheduling={"timeout": datetime.timedelta(hours=1), "strategy": "SPOT"}
    )
    expected = custom(worker_pool_specs=[POOL], strategy="SPOT", run_timeout="PT1H")
    assert custom(worker_pool_specs=[pool], strategy="SPOT", run_timeout="PT1H") == expected
    assert custom(job_spec=spec) == expected
    assert custom(job_spec=api.CustomJobSpec.pb(spec)) == expected
    assert custom(worker_pool_specs=spec.worker_pool_specs, strategy=4, run_timeout="3600s") == expected


@pytest.mark.parametrize(
    "timeout",
    [3600, "3600", "3600s", "PT1H", "1:00:00", datetime.timedelta(hours=1), pendulum.duration(hours=1)],
)
def test_a_run_timeout_is_sent_as_the_timeout_of_the_scheduling(timeout: Any) -> None:
    job = custom(worker_pool_specs=[POOL], run_timeout=timeout)
    assert job["job_spec"]["scheduling"] == {"timeout": "3600s"}
    message = to_message(job, CUSTOM_JOB)
    assert message.job_spec.scheduling.timeout == datetime.timedelta(hours=1)


@pytest.mark.parametrize("strategy", ["SPOT", "spot", 4, api.Scheduling.Strategy.SPOT])
def test_a_strategy_is_given_by_name_or_number(strategy: Any) -> None:
    job = to_message(custom(worker_pool_specs=[POOL], strategy=strategy), CUSTOM_JOB)
    assert job.job_spec.scheduling.strategy == api.Scheduling.Strategy.SPOT


def test_a_rendered_bool_is_a_bool() -> None:
    job = custom(worker_pool_specs=[POOL], enable_web_access="True", restart_job_on_worker_restart="false")
    assert job["job_spec"]["enable_web_access"] is True
    assert job["job_spec"]["scheduling"] == {"restart_job_on_worker_restart": False}


def test_numbers_in_arguments_and_variables_become_text() -> None:
    pool = {
        **POOL,
        "container_spec": {"image_uri": "i", "args": ["--lr", 0.1], "env": [{"name": "N", "value": 3}]},
    }
    spec = custom(worker_pool_specs=[pool])["job_spec"]["worker_pool_specs"][0]["container_spec"]
    assert spec["args"] == ["--lr", "0.1"]
    assert spec["env"] == [{"name": "N", "value": "3"}]


def test_what_is_none_is_not_given() -> None:
    pool = {**POOL, "nfs_mounts": None, "machine_spec": {**POOL["machine_spec"], "tpu_topology": None}}
    assert custom(worker_pool_specs=[pool], network=None, strategy=None) == custom(worker_pool_specs=[POOL])


def test_the_payload_is_plain_json_and_the_input_is_not_changed() -> None:
    before = copy.deepcopy(CAMEL_POOL)
    job = custom(worker_pool_specs=[CAMEL_POOL], labels={"team": "a"}, run_timeout=60)
    assert json.loads(json.dumps(job)) == job
    job["job_spec"]["worker_pool_specs"][0]["container_spec"]["args"].append("x")
    assert before == CAMEL_POOL


def test_arguments_reach_their_fields() -> None:
    job = custom(
        worker_pool_specs=[POOL],
        labels={"team": "vision", "cost": 3},
        encryption_spec_key_name="projects/p/locations/l/keyRings/r/cryptoKeys/k",
        base_output_directory="gs://bucket/out",
        service_account="sa@p.iam.gserviceaccount.com",
        psc_interface_config={"networkAttachment": "projects/p/regions/r/networkAttachments/n"},
        reserved_ip_ranges=["a", "b"],
        disable_retries=True,
    )
    assert job["labels"] == {"team": "vision", "cost": "3"}
    assert job["encryption_spec"] == {"kms_key_name": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}
    spec = job["job_spec"]
    assert spec["base_output_directory"] == {"output_uri_prefix": "gs://bucket/out"}
    assert spec["psc_interface_config"] == {"network_attachment": "projects/p/regions/r/networkAttachments/n"}
    assert spec["scheduling"] == {"disable_retries": True}
    assert to_message(job, CUSTOM_JOB).job_spec.reserved_ip_ranges == ["a", "b"]


def test_a_value_given_twice_but_the_same_is_fine() -> None:
    spec = {"worker_pool_specs": [POOL], "scheduling": {"timeout": "3600s"}}
    assert custom(job_spec=spec, run_timeout=3600) == custom(job_spec=spec)


def test_false_for_a_switch_means_not_given() -> None:
    spec = {"worker_pool_specs": [POOL], "scheduling": {"restart_job_on_worker_restart": True}}
    assert custom(job_spec=spec, restart_job_on_worker_restart=False) == custom(job_spec=spec)


# -- clear errors


@pytest.mark.parametrize("arguments", [{}, {"worker_pool_specs": [POOL], "job_spec": {}}])
def test_exactly_one_of_pools_and_spec(arguments: dict[str, Any]) -> None:
    assert "give exactly one of worker_pool_specs and job_spec" in problems(custom, **arguments)[0]


def test_an_unknown_field_is_refused_with_the_nearest_one() -> None:
    pool = {**POOL, "machine_spec": {"machine_typ": "n1-standard-4"}}
    (problem,) = problems(custom, worker_pool_specs=[pool])
    assert problem.startswith("worker_pool_specs[0].machine_spec.machine_typ: MachineSpec has no such field.")
    assert "Did you mean 'machine_type'?" in problem
    assert "reservation_affinity" in problem


def test_an_unknown_argument_is_refused_with_the_nearest_one() -> None:
    (problem,) = problems(custom, worker_pool_specs=[POOL], enable_webaccess=True)
    assert problem.startswith("enable_webaccess: is no field of a job. Did you mean 'enable_web_access'?")


@pytest.mark.parametrize(
    ("spec", "argument", "value", "text"),
    [
        (
            {"scheduling": {"timeout": "60s"}},
            "run_timeout",
            3600,
            "run_timeout: is '3600s', but job_spec.scheduling",
        ),
        ({"scheduling": {"strategy": "SPOT"}}, "strategy", "STANDARD", "scheduling.strategy is 'SPOT'"),
        (
            {"service_account": "a"},
            "service_account",
            "b",
            "service_account: is 'b', but job_spec.service_account",
        ),
        (
            {"baseOutputDirectory": {"outputUriPrefix": "gs://one/a"}},
            "base_output_directory",
            "gs://two/a",
            "base_output_directory: is",
        ),
    ],
)
def test_two_different_values_for_one_field_are_an_error(
    spec: dict[str, Any], argument: str, value: Any, text: str
) -> None:
    (problem,) = problems(custom, job_spec={"worker_pool_specs": [POOL], **spec}, **{argument: value})
    assert text in problem
    assert "give one of them" in problem


@pytest.mark.parametrize(
    "whole", [{"jobSpec": {"workerPoolSpecs": [POOL]}}, {"job_spec": {}}, api.CustomJob(display_name="x")]
)
def test_a_whole_job_is_no_job_spec(whole: Any) -> None:
    (problem,) = problems(custom, job_spec=whole)
    assert problem.startswith("job_spec: holds a whole job: give its jobSpec")


def test_a_message_of_another_type_is_refused() -> None:
    (problem,) = problems(custom, job_spec=api.Scheduling(strategy=4))
    assert problem == "job_spec: is a Scheduling message, but a CustomJobSpec belongs here."


def test_both_spellings_of_one_field_are_an_error() -> None:
    pool = {**POOL, "replicaCount": 1}
    assert problems(custom, worker_pool_specs=[pool]) == [
        "worker_pool_specs[0].replica_count: is given twice, in snake_case and in camelCase: leave one out."
    ]


def test_two_tasks_in_one_pool_are_an_error_and_not_the_last_one() -> None:
    pool = {
        **POOL,
        "python_package_spec": {"executor_image_uri": "i", "package_uris": ["u"], "python_module": "m"},
    }
    assert (
        "container_spec and python_package_spec exclude each other"
        in problems(custom, worker_pool_specs=[pool])[0]
    )


@pytest.mark.parametrize("name", [None, "", "x" * 129, 7])
def test_a_display_name_has_1_to_128_characters(name: Any) -> None:
    (problem,) = problems(build_custom_job, display_name=name, worker_pool_specs=[POOL])
    assert problem.startswith("display_name:")


def test_every_problem_is_listed_at_once() -> None:
    pool = {**POOL, "replica_count": "two", "container_spec": {"image_uri": 7}}
    found = problems(custom, worker_pool_specs=[pool], strategy="FAST", run_timeout="1h", labels={"A": "b"})
    assert [problem.split(":")[0] for problem in found] == [
        "labels['A']",
        "worker_pool_specs[0].replica_count",
        "worker_pool_specs[0].container_spec.image_uri",
        "strategy",
        "run_timeout",
    ]


def test_errors_pickle() -> None:
    import pickle

    with pytest.raises(SpecError) as caught:
        custom()
    copied = pickle.loads(pickle.dumps(caught.value))
    assert copied.problems == caught.value.problems
    assert str(copied) == str(caught.value)


@pytest.mark.parametrize("pools", ["{{ ti.xcom_pull('make') }}", POOL, 3])
def test_pools_that_are_no_list_are_refused(pools: Any) -> None:
    (problem,) = problems(custom, worker_pool_specs=pools)
    assert "is no list: give a list of WorkerPoolSpec" in problem


def test_a_lazy_value_that_nobody_resolved_is_refused_when_the_task_runs() -> None:
    with DAG("d", schedule=None):

        @task
        def name() -> str:
            return "sa"

        (problem,) = problems(custom, worker_pool_specs=[POOL], service_account=name())
    assert "lazy values must be resolved" in problem


# -- while a DAG is parsed


def test_templates_are_skipped_while_a_dag_is_parsed() -> None:
    pool = {
        "machine_spec": {"machine_type": "{{ params.machine }}", "accelerator_type": "{{ params.gpu }}"},
        "replica_count": "{{ params.n }}",
        "container_spec": {
            "image_uri": "{{ params.image }}",
            "args": "{{ params.args }}",
            "env": [{"name": "{{ params.name }}", "value": "{{ params.value }}"}],
        },
    }
    with DAG("d", schedule=None):

        @task
        def scheduling() -> dict[str, Any]:
            return {}

        job = custom(
            worker_pool_specs=[pool],
            strategy="{{ params.strategy }}",
            max_wait_duration="{{ params.wait }}",
            run_timeout="{{ params.timeout }}",
            labels={"team": "{{ params.team }}"},
            base_output_directory="gs://{{ params.bucket }}/x",
            network=scheduling(),
            enable_web_access="{{ params.web }}",
            at_parse=True,
        )
    assert job["job_spec"]["worker_pool_specs"] == [pool]
    assert job["labels"] == {"team": "{{ params.team }}"}


def test_a_whole_spec_may_come_from_another_task() -> None:
    with DAG("d", schedule=None):

        @task
        def make() -> dict[str, Any]:
            return {}

        spec = make()
        assert custom(job_spec=spec, strategy="SPOT", at_parse=True)["job_spec"] is spec
        assert custom(worker_pool_specs=spec, at_parse=True)["job_spec"]["worker_pool_specs"] is spec
        assert tuning(study_spec=spec, max_trial_count="{{ n }}", at_parse=True)["study_spec"] is spec


def test_what_is_known_is_checked_while_a_dag_is_parsed() -> None:
    pool = {**POOL, "machine_spec": {"machine_typ": "{{ params.machine }}"}}
    (problem,) = problems(custom, worker_pool_specs=[pool], at_parse=True)
    assert "machine_typ" in problem


# -- tuning jobs


def test_a_tuning_job_has_its_study_and_its_counts() -> None:
    job = tuning(max_failed_trial_count="1", labels={"a": "b"}, run_timeout=60, strategy="SPOT")
    message = to_message(job, TUNING_JOB)
    assert message.study_spec.metrics[0].metric_id == "loss"
    assert message.study_spec.parameters[0].double_value_spec.max_value == 0.1
    assert (message.max_trial_count, message.parallel_trial_count, message.max_failed_trial_count) == (
        4,
        2,
        1,
    )
    assert message.trial_job_spec.scheduling.timeout == datetime.timedelta(minutes=1)
    assert message.labels == {"a": "b"}


def test_a_study_in_camel_case_or_as_a_message_is_the_same_request() -> None:
    camel = {
        "metrics": [{"metricId": "loss", "goal": "minimize"}],
        "parameters": [{"parameterId": "lr", "doubleValueSpec": {"minValue": "0.001", "maxValue": 0.1}}],
    }
    assert tuning(study_spec=camel) == tuning()
    assert tuning(study_spec=api.StudySpec(STUDY)) == tuning()
    spec = {"workerPoolSpecs": [CAMEL_POOL]}
    assert tuning(worker_pool_specs=None, trial_job_spec=spec) == tuning()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"study_spec": None}, "study_spec: is missing"),
        ({"study_spec": {}}, "study_spec.metrics: is missing"),
        ({"study_spec": {**STUDY, "metrics": [{"goal": "MINIMIZE"}]}}, "metrics[0].metric_id: is missing"),
        ({"study_spec": {**STUDY, "parameters": [{"parameter_id": "x"}]}}, "parameters[0]: has no values"),
        (
            {"study_spec": {**STUDY, "metrics": [{"metric_id": "a", "goal": "MIN"}]}},
            "Allowed: MAXIMIZE, MINIMIZE",
        ),
        ({"max_trial_count": None}, "max_trial_count: is missing"),
        ({"max_trial_count": 0}, "max_trial_count: is 0; it must be at least 1"),
        ({"parallel_trial_count": 5}, "parallel_trial_count: is 5, more than max_trial_count (4)"),
        ({"max_failed_trial_count": -1}, "max_failed_trial_count: is -1"),
        ({"trial_job_spec": {}}, "exactly one of worker_pool_specs and trial_job_spec"),
        ({"trial_job_spec": {"trialJobSpec": {}}, "worker_pool_specs": None}, "holds a whole job"),
    ],
)
def test_a_tuning_job_that_cannot_run_is_refused(arguments: dict[str, Any], text: str) -> None:
    assert any(text in problem for problem in problems(tuning, **arguments))
