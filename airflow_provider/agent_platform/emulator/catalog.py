"""What machines there are, what fits into them, and which quota they use.

In: a machine type's name, a pool's message. Out: a :class:`MachineType`, quota metrics with amounts. The
tables are in ``catalog_data``; what is refused, and with which words, is in ``validation``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.cloud.aiplatform_v1.types import AcceleratorType, Scheduling

from airflow_provider.agent_platform.emulator import catalog_data as data

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import CustomJobSpec

GIB = 1024**3
REGIONS = frozenset(data.REGIONS)

SYSTEM_GIB = 1.4
"""Memory that agents and the operating system keep on every machine."""
RESERVED_SHARES = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (float("inf"), 0.02))
"""Share that the node keeps of its first 4 GiB, of the next 4, and so on: Kubernetes Engine's rule."""

QUOTA_PREFIX = "custom_model_training_"
PREEMPTIBLE = frozenset({Scheduling.Strategy.SPOT, Scheduling.Strategy.FLEX_START})
"""Strategies that use the preemptible quota."""


@dataclass(frozen=True, kw_only=True)
class MachineType:
    """One machine type. ``accelerators`` maps an accelerator's name to the counts that fit.

    :param accelerator_required: the accelerators are part of the machine and have to be named in the request.
    """

    name: str
    vcpus: int
    memory_gib: float
    accelerators: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    accelerator_required: bool = False

    @property
    def family(self) -> str:
        """The first part of the name, e.g. ``n1``."""
        return self.name.split("-", 1)[0]

    @property
    def shape(self) -> str:
        """The name without its size, e.g. ``a2-highgpu``."""
        return self.name.rsplit("-", 1)[0]

    @property
    def allocatable_bytes(self) -> int:
        """Memory left for the training code.

        The service does not publish it for each type; documented is that small machines keep up to 40 %.
        This is Kubernetes Engine's rule plus what agents use, which gives 40 % at 8 GiB and 4 % at 360 GiB.
        """
        reserved, rest = SYSTEM_GIB, self.memory_gib
        for size, share in RESERVED_SHARES:
            part = min(rest, size)
            reserved += part * share
            rest -= part
        return int((self.memory_gib - reserved) * GIB)

    @property
    def cpu_metric(self) -> str:
        """The quota metric of its vCPUs, without service and prefix: N1 and E2 share one, each other family
        has its own."""
        return "cpus" if self.family in ("n1", "e2") else f"{self.family}_cpus"

    def in_region(self, region: str) -> bool:
        """Whether the region has this machine type."""
        only = data.REGIONS_OF.get(self.shape, data.REGIONS_OF.get(self.family))
        return region in REGIONS and (only is None or region in only.split())


def _machine_types() -> Iterator[MachineType]:
    for shape, ratio, sizes in data.CPU_FAMILIES:
        for vcpus in sizes:
            yield MachineType(
                name=f"{shape}-{vcpus}",
                vcpus=vcpus,
                memory_gib=round(vcpus * ratio, 1),
                accelerators=_n1_accelerators(vcpus) if shape.startswith("n1-") else {},
            )
    for name, vcpus, memory, accelerator, count in data.ACCELERATOR_MACHINES:
        yield MachineType(
            name=name,
            vcpus=vcpus,
            memory_gib=memory,
            accelerators={accelerator: (count,)},
            accelerator_required=True,
        )
    for name, vcpus, memory in data.TPU_MACHINES:
        cloud_tpu = name == "cloud-tpu"
        yield MachineType(
            name=name,
            vcpus=vcpus,
            memory_gib=memory,
            accelerators=data.CLOUD_TPU_COUNTS if cloud_tpu else {},
            accelerator_required=cloud_tpu,
        )


def _n1_accelerators(vcpus: int) -> dict[str, tuple[int, ...]]:
    return {
        accelerator: counts
        for accelerator, limits in data.N1_ACCELERATORS.items()
        if (counts := tuple(count for count, most in limits.items() if vcpus <= most))
    }


MACHINE_TYPES: Mapping[str, MachineType] = {machine.name: machine for machine in _machine_types()}


def machine_type(name: str) -> MachineType | None:
    """The machine type of that name, ``None`` if the service has none."""
    return MACHINE_TYPES.get(name)


@functools.lru_cache(maxsize=64)
def accelerator_name(number: int) -> str:
    """The name of an accelerator's number; the number itself where it has none."""
    try:
        return str(AcceleratorType(number).name)
    except ValueError:
        return str(number)


def accelerator_metric(name: str) -> str:
    """The quota metric of an accelerator, without service and prefix."""
    return data.QUOTA_NAMES.get(name, name.lower())


def replicas_of(pool: object) -> int:
    """Replicas of a worker pool: an empty pool has none, a pool with a task and no count has one."""
    count = int(getattr(pool, "replica_count", 0))
    has_task = bool(pool.container_spec.image_uri or pool.python_package_spec.executor_image_uri)  # type: ignore[attr-defined]
    return count if count else int(has_task)


@functools.lru_cache(maxsize=2)
def quota_metrics(prefix: str = "") -> frozenset[str]:
    """Every metric that a job can use.

    :param prefix: ``preemptible_`` for the metrics of Spot and flex-start machines alone.
    """
    accelerators = {name for machine in MACHINE_TYPES.values() for name in machine.accelerators}
    names = {machine.cpu_metric for machine in MACHINE_TYPES.values()}
    names |= {accelerator_metric(name) for name in accelerators}
    prefixes = (prefix,) if prefix else ("", "preemptible_")
    return frozenset(QUOTA_PREFIX + one + name for one in prefixes for name in names)


def quota_use(spec: CustomJobSpec) -> dict[str, int]:
    """What a job counts against its region's quotas.

    :param spec: the job's spec, as the client library's message or as bare protobuf.
    :return: full metric name without the service, e.g. ``custom_model_training_cpus`` -> 4. A job on a
        persistent resource uses none: its machines are there already.
    """
    if spec.persistent_resource_id:
        return {}
    prefix = QUOTA_PREFIX + ("preemptible_" if spec.scheduling.strategy in PREEMPTIBLE else "")
    use: dict[str, int] = {}
    for pool in spec.worker_pool_specs:
        replicas, machine = replicas_of(pool), machine_type(pool.machine_spec.machine_type)
        if not replicas or machine is None:
            continue
        amounts = {machine.cpu_metric: machine.vcpus}
        if pool.machine_spec.accelerator_count:
            name = accelerator_name(int(pool.machine_spec.accelerator_type))
            amounts[accelerator_metric(name)] = pool.machine_spec.accelerator_count
        for metric, amount in amounts.items():
            use[prefix + metric] = use.get(prefix + metric, 0) + amount * replicas
    return use
