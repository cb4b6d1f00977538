"""Every argument of an operator changes the request or the behaviour, and what is wrong is said at DAG parse."""

from __future__ import annotations

import inspect
import json
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider.agent_platform.hooks.errors import ConfigurationError
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.operators import arguments
from airflow_provider.agent_platform.operators.assembly import assemble
from airflow_provider.agent_platform.operators.base import TrainingJobBaseOperator
from airflow_provider.agent_platform.operators.custom_job import (
    ContainerTrainingOperator,
    CustomJobOperator,
    PythonPackageTrainingOperator,
)
from airflow_provider.agent_platform.operators.hyperparameter_tuning_job import (
    HyperparameterTuningJobOperator,
)
from tests.operators.context import context_of

POOLS = [
    {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "image"},
    }
]
STUDY = {
    "metrics": [{"metric_id": "accuracy", "goal": "MAXIMIZE"}],
    "parameters": [{"parameter_id": "lr", "double_value_spec": {"min_value": 0.1, "max_value": 1}}],
}
ONE_OF_EACH: dict[type[TrainingJobBaseOperator], dict[str, Any]] = {
    CustomJobOperator: {"worker_pool_specs": POOLS},
    ContainerTrainingOperator: {"image_uri": "image", "machine_type": "n1-standard-4"},
    PythonPackageTrainingOperator: {
        "executor_image_uri": "image",
        "package_uris": ["gs://b/p.tar.gz"],
        "python_module": "m",
        "machine_type": "n1-standard-4",
    },
    HyperparameterTuningJobOperator: {
        "study_spec": STUDY,
        "max_trial_count": 4,
        "parallel_trial_count": 2,
        "worker_pool_specs": POOLS,
    },
}

# A value for each argument that becomes a field of the request, other than its default.
FIELDS: dict[str, Any] = {
    "labels": {"team": "ml"},
    "encryption_spec_key_name": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
    "base_output_directory": "gs://bucket/folder",
    "strategy": "SPOT",
    "run_timeout": 3600,
    "restart_job_on_worker_restart": True,
    "service_account": "a@p.iam.gserviceaccount.com",
    "network": "projects/1/global/networks/n",
    "reserved_ip_ranges": ["range"],
    "tensorboard": "projects/p/locations/l/tensorboards/1",
    "enable_web_access": True,
    "enable_dashboard_access": True,
    "experiment": "projects/p/locations/l/metadataStores/default/contexts/e",
    "experiment_run": "projects/p/locations/l/metadataStores/default/contexts/r",
    "persistent_resource_id": "cluster",
    "protected_artifact_location_id": "us",
    "psc_interface_config": {"network_attachment": "attachment"},
    "models": ["projects/p/locations/l/models/1"],
}
POOL_FIELDS: dict[str, Any] = {
    "replica_count": 3,
    "machine_type": "n1-highmem-8",
    "accelerator_type": "NVIDIA_TESLA_T4",
    "accelerator_count": 2,
    "boot_disk_type": "pd-standard",
    "boot_disk_size_gb": 200,
    "machine_spec": {"machine_type": "n1-highmem-8"},
    "nfs_mounts": [{"server": "s", "path": "/p", "mount_point": "/m"}],
}

# Arguments that change what the lifecycle does; each has a test of its own where that is.
BEHAVIOUR = {
    "project_id", "region", "fallback_regions", "queue_timeout", "platform_retries", "machine_types", "resume",
    "resume_args", "discard_incomplete", "checkpoint_interval", "checkpoint_recognisers", "failure_rules",
    "max_jobs", "gcp_conn_id", "impersonation_chain", "deferrable", "poll_interval", "retry_policy",
    "retry_delay",
}  # fmt: skip


def make(kind: type[TrainingJobBaseOperator], **more: Any) -> TrainingJobBaseOperator:
    with DAG("dag", schedule=None):
        return kind(task_id="train", **{**ONE_OF_EACH[kind], **more})


def request(operator: TrainingJobBaseOperator) -> dict[str, Any]:
    return operator.build_job(display_name=operator.display_name or "name")


@pytest.mark.parametrize("kind", ONE_OF_EACH, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_the_api_reaches_the_request(kind: type[TrainingJobBaseOperator], field: str) -> None:
    assert request(make(kind, **{field: FIELDS[field]})) != request(make(kind))


@pytest.mark.parametrize("field", POOL_FIELDS)
@pytest.mark.parametrize("kind", [ContainerTrainingOperator, PythonPackageTrainingOperator])
def test_each_field_of_a_pool_reaches_the_request(kind: type[TrainingJobBaseOperator], field: str) -> None:
    more = {field: POOL_FIELDS[field]}
    base: dict[str, Any] = {}
    if field == "machine_spec":
        more["machine_type"] = None
    if field.startswith("accelerator"):
        base = {"accelerator_type": "NVIDIA_L4", "accelerator_count": 1}
    assert request(make(kind, **{**base, **more})) != request(make(kind, **base))


def test_no_argument_is_without_a_test() -> None:
    named = set(inspect.signature(TrainingJobBaseOperator.__init__).parameters) - {"self", "kwargs"}
    assert named == set(FIELDS) | BEHAVIOUR | {"max_wait_duration", "display_name"}


@pytest.mark.parametrize("kind", ONE_OF_EACH, ids=lambda kind: kind.__name__)
def test_template_fields_exist_and_hold_what_the_user_gave(kind: type[TrainingJobBaseOperator]) -> None:
    operator = make(kind)
    for name in operator.template_fields:
        assert hasattr(operator, name)
    own = set(inspect.signature(kind.__init__).parameters) - {"self", "kwargs", "image"}
    assert own <= set(operator.template_fields)


@pytest.mark.parametrize("field", ["display_name", "base_output_directory", "service_account", "strategy"])
def test_a_template_is_not_judged_at_parse(field: str) -> None:
    make(CustomJobOperator, **{field: "{{ params.value }}"})


@pytest.mark.parametrize(
    ("arguments_", "words"),
    [
        ({"worker_pool_specs": None}, ["worker_pool_specs", "job_spec"]),
        ({"job_spec": {"worker_pool_specs": POOLS}}, ["worker_pool_specs", "job_spec"]),
        ({"resume": "sometimes"}, ["resume", "'sometimes'", "'retries'"]),
        ({"max_jobs": 0}, ["max_jobs", "0"]),
        ({"max_jobs": True}, ["max_jobs"]),
        ({"queue_timeout": "soon"}, ["queue_timeout", "'soon'"]),
        ({"queue_timeout": 0}, ["queue_timeout", "above 0"]),
        ({"poll_interval": timedelta(0)}, ["poll_interval"]),
        ({"fallback_regions": "us-east1"}, ["fallback_regions", "['us-east1']"]),
        ({"machine_types": [4]}, ["machine_types", "4"]),
        ({"failure_rules": ["retry"]}, ["failure_rules", "FailureRule"]),
        ({"labels": {"airflow-ti": "x"}}, ["labels", "airflow-ti"]),
        ({"labels": {"Team": "x"}}, ["labels", "Team"]),
        ({"base_output_directory": "/tmp/x"}, ["base_output_directory", "gs://"]),
        ({"strategy": "CHEAP"}, ["strategy", "CHEAP", "SPOT"]),
        ({"display_name": "x" * 129}, ["display_name", "128"]),
    ],
)
def test_bad_input_is_said_at_dag_parse(arguments_: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        make(CustomJobOperator, **arguments_)
    for word in words:
        assert word in str(caught.value)


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        make(CustomJobOperator, resume="no", max_jobs=-1, strategy="CHEAP")
    assert len(caught.value.problems) == 3


def test_two_names_of_the_image_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="image_uri and image"):
        make(ContainerTrainingOperator, image="other")


def test_the_names_of_spec_fields_are_arguments() -> None:
    named = set(inspect.signature(TrainingJobBaseOperator.__init__).parameters)
    assert set(arguments.SPEC_FIELDS) <= named


def test_the_mapped_form_can_be_serialised() -> None:
    with DAG("dag", schedule=None):
        mapped = ContainerTrainingOperator.partial(
            task_id="train", image="image", machine_type="n1-standard-4"
        ).expand(args=[["1"], ["2"]])
    assert mapped.task_id == "train"


def test_a_retry_delay_of_default_args_is_the_users_own() -> None:
    with DAG("dag", schedule=None, default_args={"retry_delay": timedelta(seconds=7)}):
        operator = CustomJobOperator(task_id="train", worker_pool_specs=POOLS)
    assert operator.user_retry_delay == timedelta(seconds=7)
    assert make(CustomJobOperator).user_retry_delay is None


@pytest.mark.parametrize(
    ("name", "rendered"),
    [
        ("machine_types", "n1-standard-8"),
        ("fallback_regions", "['us-east1']"),
        ("resume_args", "--resume={uri}"),
        ("machine_types", None),
        ("queue_timeout", "soon"),
        ("queue_timeout", "0"),
    ],
)
def test_a_template_that_was_rendered_to_something_wrong_is_named_when_the_task_runs(
    name: str, rendered: object
) -> None:
    with DAG("dag", schedule=None):
        task = CustomJobOperator(task_id="train", worker_pool_specs=POOLS, **{name: "{{ params.x }}"})
    setattr(task, name, rendered)
    with pytest.raises(SpecError, match=name):
        assemble(task, context_of(task))


@pytest.mark.parametrize("name", ["project_id", "region"])
def test_a_template_that_was_rendered_to_a_number_is_no_traceback(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "google_cloud_platform", "extra": {"project": "p", "region": "us-central1"}}
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(connection))
    with DAG("dag", schedule=None):
        task = CustomJobOperator(task_id="train", worker_pool_specs=POOLS)
    setattr(task, name, 123456)
    if name == "project_id":
        assert assemble(task, context_of(task)).request.project_id == "123456"
    else:
        with pytest.raises(ConfigurationError, match="region is '123456'"):
            assemble(task, context_of(task))
