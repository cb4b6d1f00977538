"""Rules of the service that join several fields: each is an error before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.jobs.spec import build_custom_job

MACHINE: dict[str, Any] = {"machine_type": "n1-standard-4"}


def pool(**fields: Any) -> dict[str, Any]:
    return {"machine_spec": MACHINE, "container_spec": {"image_uri": "i"}, **fields}


def container(**fields: Any) -> dict[str, Any]:
    return pool(container_spec={"image_uri": "i", **fields})


def package(**fields: Any) -> dict[str, Any]:
    spec = {"executor_image_uri": "e", "package_uris": ["gs://b/p.tar.gz"], "python_module": "m", **fields}
    return {"machine_spec": MACHINE, "python_package_spec": spec}


def check(*pools: Any, **arguments: Any) -> None:
    build_custom_job(display_name="d", worker_pool_specs=list(pools), **arguments)


def variables(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "value": "v"} for name in names]


@pytest.mark.parametrize(
    "pools",
    [
        [pool()],
        [pool(replica_count=1), pool(replica_count=7)],
        [pool(), {}, pool(replica_count=2)],
        [package()],
        [pool(machine_spec={**MACHINE, "accelerator_type": "NVIDIA_L4", "accelerator_count": 1})],
        [pool(machine_spec={"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x2"})],
        [container(env=variables("A", "_b", "C3"))],
    ],
)
def test_jobs_that_the_service_takes_pass(pools: list[dict[str, Any]]) -> None:
    check(*pools)


@pytest.mark.parametrize(
    ("pools", "arguments", "text"),
    [
        ([], {}, "worker_pool_specs: is empty"),
        ([{}], {}, r"worker_pool_specs\[0\]: has nothing to run"),
        ([pool(replica_count=4)], {}, r"\[0\].replica_count: is 4: the first pool is the single primary.*other 3"),
        ([pool(), pool(replica_count=0)], {}, r"\[1\].replica_count: is 0"),
        ([pool(machine_spec={})], {}, r"\[0\].machine_spec.machine_type: is missing"),
        ([pool(machine_spec={**MACHINE, "accelerator_type": "NVIDIA_L4"})], {}, "accelerator_count: is missing"),
        ([pool(machine_spec={**MACHINE, "accelerator_count": 2})], {}, "accelerator_type: is missing for the 2"),
        ([pool(container_spec={})], {}, r"container_spec.image_uri: is missing"),
        ([package(package_uris=[])], {}, "python_package_spec.package_uris: is missing"),
        ([package(python_module="")], {}, "python_package_spec.python_module: is missing"),
        ([package(package_uris=["gs://b/p"] * 101)], {}, "package_uris: has 101 entries; at most 100"),
        ([container(args=["x" * 60_000, "y" * 40_001])], {}, "args: has 100001 characters; at most 100000"),
        ([container(env=variables("A", "A"))], {}, r"env\[1\].name: A is there twice"),
        ([container(env=variables("1A"))], {}, "must be a C identifier"),
        ([container(env=variables("A-B"))], {}, "must be a C identifier"),
        ([container(env=[{"value": "v"}])], {}, r"env\[0\].name: is missing"),
        ([container(env=variables(*(f"V{n}" for n in range(98))))], {}, "env: has 98 variables"),
        ([container(env=variables("AIRFLOW_RESUME_FROM"))], {}, "AIRFLOW_RESUME_FROM is set by the provider"),
        ([pool()], {"base_output_directory": "s3://b/x"}, "base_output_directory: 's3://b/x' is no 'gs://bucket"),
        ([pool()], {"base_output_directory": "/local"}, "base_output_directory: '/local' is no"),
        ([pool()], {"base_output_directory": "gs://"}, "base_output_directory: 'gs://' is no"),
        ([pool()], {"max_wait_duration": 60}, "is for FLEX_START only, and the strategy is not given"),
        ([pool()], {"max_wait_duration": 60, "strategy": "SPOT"}, "strategy is SPOT: use queue_timeout"),
        ([pool()], {"run_timeout": 0}, "scheduling.timeout: is 0"),
        ([pool()], {"strategy": "FLEX_START", "run_timeout": "604801s"}, "with FLEX_START at most 604800s"),
        (
            [pool(), pool(machine_spec={"machine_type": "g2-standard-8"}, replica_count=1)],
            {"strategy": "FLEX_START"},
            "same machine_spec in every pool",
        ),
    ],
)  # fmt: skip
def test_jobs_that_the_service_refuses_are_refused_first(
    pools: list[dict[str, Any]], arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(SpecError, match=text):
        check(*pools, **arguments)


def test_a_persistent_resource_brings_its_own_machines() -> None:
    check(pool(machine_spec={}), persistent_resource_id="shared")


def test_flex_start_takes_its_own_options() -> None:
    check(pool(), pool(replica_count=2), strategy="FLEX_START", max_wait_duration=0, run_timeout="604800s")


def test_the_paths_of_a_whole_spec_name_the_argument() -> None:
    with pytest.raises(SpecError, match=r"job_spec.worker_pool_specs\[0\].replica_count: is 2"):
        build_custom_job(display_name="d", job_spec={"worker_pool_specs": [pool(replica_count=2)]})


def test_a_field_that_cannot_be_read_is_the_only_problem_named() -> None:
    with pytest.raises(SpecError) as caught:
        check(pool(machine_spec={"machine_typ": "x"}))
    assert len(caught.value.problems) == 1
