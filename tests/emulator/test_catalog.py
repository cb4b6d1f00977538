"""The tables of machines: sound in themselves, and the quotas and memory that follow from them."""

from __future__ import annotations

import pytest
from google.cloud.aiplatform_v1.types import AcceleratorType, CustomJobSpec

from airflow_provider.agent_platform.emulator import catalog, catalog_data


def spec(
    machine: str, replicas: int = 1, accelerator: str | None = None, count: int = 0, **more: object
) -> CustomJobSpec:
    machine_spec: dict[str, object] = {"machine_type": machine}
    if accelerator:
        machine_spec.update(accelerator_type=accelerator, accelerator_count=count)
    pool = {"machine_spec": machine_spec, "replica_count": 1, "container_spec": {"image_uri": "i"}}
    return CustomJobSpec(worker_pool_specs=[pool, {}, {**pool, "replica_count": replicas}], **more)


def test_n1_standard_4_uses_four_of_the_plain_cpu_quota() -> None:
    assert catalog.quota_use(
        CustomJobSpec(worker_pool_specs=[spec("n1-standard-4").worker_pool_specs[0]])
    ) == {"custom_model_training_cpus": 4}


def test_replicas_and_pools_add_up_and_accelerators_have_their_own_metric() -> None:
    assert catalog.quota_use(spec("a2-highgpu-2g", 3, "NVIDIA_TESLA_A100", 2)) == {
        "custom_model_training_a2_cpus": 4 * 24,
        "custom_model_training_nvidia_a100_gpus": 4 * 2,
    }


@pytest.mark.parametrize("strategy", ["SPOT", "FLEX_START"])
def test_spot_and_flex_start_use_the_preemptible_quota(strategy: str) -> None:
    use = catalog.quota_use(spec("g2-standard-4", 1, "NVIDIA_L4", 1, scheduling={"strategy": strategy}))
    assert use == {
        "custom_model_training_preemptible_g2_cpus": 8,
        "custom_model_training_preemptible_nvidia_l4_gpus": 2,
    }


def test_a_job_on_a_persistent_resource_uses_no_quota() -> None:
    assert catalog.quota_use(spec("n1-standard-4", persistent_resource_id="mine")) == {}


def test_a_pool_with_a_task_and_no_count_has_one_replica_and_an_empty_one_none() -> None:
    pools = spec("n1-standard-4").worker_pool_specs
    pools[0].replica_count = 0
    assert [catalog.replicas_of(pool) for pool in pools] == [1, 0, 1]


@pytest.mark.parametrize("machine", catalog.MACHINE_TYPES.values(), ids=lambda machine: machine.name)
def test_every_machine_leaves_the_training_code_most_of_its_memory(machine: catalog.MachineType) -> None:
    share = machine.allocatable_bytes / (machine.memory_gib * catalog.GIB)
    assert 0.6 - 1e-6 <= share < 1
    assert machine.vcpus > 0
    assert any(machine.in_region(region) for region in catalog.REGIONS)


def test_small_machines_keep_the_largest_share_for_the_system() -> None:
    small, large = catalog.MACHINE_TYPES["c2d-highcpu-4"], catalog.MACHINE_TYPES["n1-standard-96"]
    assert 1 - small.allocatable_bytes / (small.memory_gib * catalog.GIB) == pytest.approx(0.4, abs=0.001)
    assert 1 - large.allocatable_bytes / (large.memory_gib * catalog.GIB) < 0.05


def test_every_accelerator_named_in_a_table_exists_and_has_a_quota_metric() -> None:
    named = {name for machine in catalog.MACHINE_TYPES.values() for name in machine.accelerators}
    named |= catalog_data.FLEX_START_ACCELERATORS | set(catalog_data.QUOTA_NAMES)
    assert named <= set(AcceleratorType.__members__)
    assert named <= set(catalog_data.QUOTA_NAMES)


def test_every_region_named_in_a_table_exists() -> None:
    named = {region for regions in catalog_data.REGIONS_OF.values() for region in regions.split()}
    assert named <= catalog.REGIONS
    shapes = {machine.shape for machine in catalog.MACHINE_TYPES.values()}
    families = {machine.family for machine in catalog.MACHINE_TYPES.values()}
    assert set(catalog_data.REGIONS_OF) <= shapes | families


def test_a_large_n1_needs_many_gpus_and_a_small_one_may_have_few() -> None:
    assert catalog.MACHINE_TYPES["n1-standard-4"].accelerators["NVIDIA_TESLA_T4"] == (1, 2, 4)
    assert catalog.MACHINE_TYPES["n1-standard-96"].accelerators["NVIDIA_TESLA_T4"] == (4,)
    assert catalog.MACHINE_TYPES["n1-standard-64"].accelerators["NVIDIA_TESLA_V100"] == (8,)


def test_an_unknown_region_has_no_machine() -> None:
    assert not catalog.MACHINE_TYPES["n1-standard-4"].in_region("mars-north1")
