"""One image or package on n replicas: the pools that the service wants."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import aiplatform_v1 as api

from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.jobs.pools import container_pools, python_package_pools
from airflow_provider.agent_platform.jobs.spec import build_custom_job


def build(pools: list[dict[str, Any]], **arguments: Any) -> list[dict[str, Any]]:
    job = build_custom_job(display_name="d", worker_pool_specs=pools, **arguments)
    return list(job["job_spec"]["worker_pool_specs"])


def test_one_replica_is_one_pool() -> None:
    assert build(container_pools(image_uri="i", machine_type="m")) == [
        {"container_spec": {"image_uri": "i"}, "machine_spec": {"machine_type": "m"}, "replica_count": 1}
    ]


@pytest.mark.parametrize("count", [8, "8", 8.0])
def test_of_n_replicas_one_is_the_primary_and_the_rest_are_workers(count: Any) -> None:
    primary, workers = build(container_pools(image_uri="i", machine_type="m", replica_count=count))
    assert (primary.pop("replica_count"), workers.pop("replica_count")) == (1, 7)
    assert primary == workers


def test_every_argument_reaches_the_pools() -> None:
    (pool,) = build(
        container_pools(
            image_uri="i",
            command=["python"],
            args=["--n", 3],
            env={"A": 1, "B": "b"},
            machine_type="m",
            accelerator_type="NVIDIA_L4",
            accelerator_count=2,
            boot_disk_type="pd-ssd",
            boot_disk_size_gb=300,
            machine_spec={"reservationAffinity": {"reservationAffinityType": "ANY_RESERVATION"}},
            nfs_mounts=[{"server": "s", "path": "/p", "mount_point": "/m"}],
        )
    )
    assert pool == {
        "container_spec": {
            "image_uri": "i",
            "command": ["python"],
            "args": ["--n", "3"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "b"}],
        },
        "machine_spec": {
            "machine_type": "m",
            "accelerator_type": "NVIDIA_L4",
            "accelerator_count": 2,
            "reservation_affinity": {"reservation_affinity_type": "ANY_RESERVATION"},
        },
        "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 300},
        "nfs_mounts": [{"server": "s", "path": "/p", "mount_point": "/m"}],
        "replica_count": 1,
    }


def test_variables_may_be_the_apis_list() -> None:
    env = [{"name": "A", "value": "1"}]
    assert container_pools(image_uri="i", env=env)[0]["container_spec"]["env"] == env


def test_a_package_runs_in_its_image() -> None:
    primary, workers = build(
        python_package_pools(
            executor_image_uri="e",
            package_uris="gs://b/p.tar.gz",
            python_module="trainer.task",
            args=["--x"],
            env={"A": "1"},
            replica_count=2,
            machine_type="m",
        )
    )
    assert primary["python_package_spec"] == {
        "executor_image_uri": "e",
        "package_uris": ["gs://b/p.tar.gz"],
        "python_module": "trainer.task",
        "args": ["--x"],
        "env": [{"name": "A", "value": "1"}],
    }
    assert workers["replica_count"] == 1


@pytest.mark.parametrize("count", [0, -1, "none", 1.5, True, None])
def test_a_count_that_is_no_count_is_refused(count: Any) -> None:
    with pytest.raises(SpecError, match="replica_count"):
        container_pools(image_uri="i", replica_count=count)


def test_a_templated_count_can_be_checked_but_not_split() -> None:
    (pool,) = container_pools(
        image_uri="{{ params.image }}", machine_type="m", replica_count="{{ params.n }}"
    )
    build([pool], at_parse=True)


def test_a_machine_given_twice_is_refused() -> None:
    with pytest.raises(SpecError, match=r"machine_spec.machine_type: is also given as machine_type='m'"):
        container_pools(image_uri="i", machine_type="m", machine_spec={"machine_type": "n"})
    with pytest.raises(SpecError, match="disk_spec"):
        container_pools(image_uri="i", boot_disk_size_gb=200, disk_spec={"boot_disk_type": "pd-ssd"})


def test_a_machine_may_be_a_message() -> None:
    (pool,) = build(container_pools(image_uri="i", machine_spec=api.MachineSpec(machine_type="m")))
    assert pool["machine_spec"] == {"machine_type": "m"}


def test_an_unknown_field_of_a_pool_is_refused() -> None:
    with pytest.raises(SpecError, match=r"WorkerPoolSpec has no such field. Did you mean 'nfs_mounts'"):
        build(container_pools(image_uri="i", machine_type="m", nfs_mount=[]))
