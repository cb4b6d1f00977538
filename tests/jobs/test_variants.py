"""A payload changed for one submit: only what was asked, and never the payload itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider.agent_platform.jobs import variants
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.jobs.identity import TaskIdentity
from airflow_provider.agent_platform.jobs.spec import build_custom_job, build_tuning_job

POOLS: list[dict[str, Any]] = [
    {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "container_spec": {"image_uri": "i", "args": ["a"], "env": [{"name": "A", "value": "1"}]},
    },
    {},
    {
        "machine_spec": {"machine_type": "n1-standard-8"},
        "python_package_spec": {"executor_image_uri": "e", "package_uris": ["u"], "python_module": "m"},
    },
]
STUDY = {
    "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
    "parameters": [{"parameter_id": "x", "double_value_spec": {"min_value": 0, "max_value": 1}}],
}


def custom(**arguments: Any) -> variants.Job:
    return build_custom_job(display_name="d", worker_pool_specs=POOLS, **arguments)


def tuning() -> variants.Job:
    return build_tuning_job(
        display_name="d", study_spec=STUDY, max_trial_count=1, parallel_trial_count=1, worker_pool_specs=POOLS
    )


@pytest.fixture(params=[custom, tuning])
def job(request: pytest.FixtureRequest) -> Iterator[variants.Job]:
    made: variants.Job = request.param()
    before = copy.deepcopy(made)
    yield made
    assert made == before, "the payload that was given must stay as it is"


def tasks(job: variants.Job) -> list[dict[str, Any]]:
    pools = variants.spec_of(job)["worker_pool_specs"]
    return [pools[0]["container_spec"], pools[2]["python_package_spec"]]


def test_variables_reach_every_worker_before_the_users_own(job: variants.Job) -> None:
    changed = variants.with_environment(job, {"AIRFLOW_RESUME_STEP": "5"})
    first, second = tasks(changed)
    ours = {"name": "AIRFLOW_RESUME_STEP", "value": "5"}
    # First, so that $(AIRFLOW_RESUME_STEP) can be used in the user's own variables.
    assert first["env"] == [ours, {"name": "A", "value": "1"}]
    assert second["env"] == [ours]
    assert variants.spec_of(changed)["worker_pool_specs"][1] == {}


def test_setting_a_variable_again_replaces_it(job: variants.Job) -> None:
    once = variants.with_environment(job, {"AIRFLOW_RUN_INDEX": "0"})
    twice = variants.with_environment(once, {"AIRFLOW_RUN_INDEX": "1"})
    assert tasks(twice)[1]["env"] == [{"name": "AIRFLOW_RUN_INDEX", "value": "1"}]


def test_no_variables_change_nothing(job: variants.Job) -> None:
    assert variants.with_environment(job, {}) == job
    assert variants.with_arguments(job, []) == job
    assert variants.with_scheduling(job) == job
    assert variants.with_machine_type(job, None) == job


def test_more_than_100_variables_are_refused(job: variants.Job) -> None:
    with pytest.raises(SpecError, match="more than 100"):
        variants.with_environment(job, {f"V{n}": "x" for n in range(100)})


def test_arguments_come_after_the_users_own(job: variants.Job) -> None:
    first, second = tasks(variants.with_arguments(job, ["--resume_from=gs://b/c"]))
    assert first["args"] == ["a", "--resume_from=gs://b/c"]
    assert second["args"] == ["--resume_from=gs://b/c"]


def test_a_machine_type_reaches_the_pools_that_have_one(job: variants.Job) -> None:
    changed = variants.with_machine_type(job, "n1-highmem-8")
    pools = variants.spec_of(changed)["worker_pool_specs"]
    assert [pool.get("machine_spec") for pool in pools] == [
        {"machine_type": "n1-highmem-8"},
        None,
        {"machine_type": "n1-highmem-8"},
    ]
    assert variants.machine_type_of(changed) == "n1-highmem-8"


def test_a_machine_type_can_be_for_one_pool(job: variants.Job) -> None:
    pools = variants.spec_of(variants.with_machine_type(job, "big", pools=[2]))["worker_pool_specs"]
    assert [pool.get("machine_spec", {}).get("machine_type") for pool in pools] == [
        "n1-standard-4",
        None,
        "big",
    ]


def test_scheduling_changes_only_what_is_given(job: variants.Job) -> None:
    once = variants.with_scheduling(job, strategy="SPOT", timeout="PT1H")
    twice = variants.with_scheduling(once, disable_retries=True, restart_job_on_worker_restart=False)
    assert variants.spec_of(twice)["scheduling"] == {
        "strategy": "SPOT",
        "timeout": "3600s",
        "disable_retries": True,
        "restart_job_on_worker_restart": False,
    }
    assert variants.strategy_of(twice) == "SPOT"
    flexible = variants.with_scheduling(job, strategy="FLEX_START", max_wait_duration=60)
    assert variants.spec_of(flexible)["scheduling"] == {"strategy": "FLEX_START", "max_wait_duration": "60s"}


def test_our_labels_stand_beside_the_users() -> None:
    ours = TaskIdentity(dag_id="d", run_id="r", task_id="t").labels(epoch=0, try_number=1)
    job = custom(labels={"team": "a"})
    assert variants.with_labels(job, ours)["labels"] == {"team": "a", **ours}
    assert job["labels"] == {"team": "a"}
    assert variants.with_labels(custom(), ours)["labels"] == ours


def test_labels_of_ours_cannot_be_set_by_a_user() -> None:
    ours = TaskIdentity(dag_id="d", run_id="r", task_id="t").labels(epoch=0, try_number=1)
    with pytest.raises(SpecError, match="belongs to the provider"):
        custom(labels={"airflow-ti": "x"})
    with pytest.raises(SpecError, match="belongs to the provider"):
        variants.with_labels({**custom(), "labels": {"airflow-ti": "x"}}, ours)


def test_an_output_folder_is_set_only_where_there_is_none(job: variants.Job) -> None:
    once = variants.with_output_directory(job, "gs://b/one")
    assert variants.output_directory_of(once) == "gs://b/one"
    assert variants.output_directory_of(variants.with_output_directory(once, "gs://b/two")) == "gs://b/one"


def test_what_is_not_there_reads_as_none(job: variants.Job) -> None:
    assert variants.output_directory_of(job) is None
    assert variants.strategy_of(job) is None
    assert variants.machine_type_of(job) == "n1-standard-4"
    empty = {"job_spec": {"worker_pool_specs": [{"container_spec": {"image_uri": "i"}}]}}
    assert variants.machine_type_of(empty) is None
