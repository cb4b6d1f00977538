"""Worker pools from a few plain arguments, for jobs whose workers are all alike.

In: an image or a package, a machine, a number of replicas. Out: ``worker_pool_specs`` for ``jobs.spec``,
which checks them. Pool 0 always holds the single primary replica; the others are in pool 1, as the service
wants it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def container_pools(
    *,
    image_uri: object,
    command: object = None,
    args: object = None,
    env: Mapping[str, object] | Sequence[Mapping[str, object]] | object = None,
    replica_count: object = 1,
    machine_type: object = None,
    accelerator_type: object = None,
    accelerator_count: object = None,
    boot_disk_type: object = None,
    boot_disk_size_gb: object = None,
    machine_spec: Mapping[str, Any] | None = None,
    **pool_fields: object,
) -> list[dict[str, Any]]:
    """Return the pools of one image on ``replica_count`` machines: one primary, the rest workers.

    :param env: dict of names and values, or the API's list of ``{"name": .., "value": ..}``.
    :param replica_count: all replicas, the primary included.
    :param machine_spec: more fields of ``MachineSpec`` (``reservation_affinity``, ``tpu_topology``, ...).
    :param pool_fields: more fields of ``WorkerPoolSpec`` (``nfs_mounts``, ``lustre_mounts``, ``disk_spec``).
    :raises SpecError: a replica count below 1.
    """
    raise NotImplementedError


def python_package_pools(
    *,
    executor_image_uri: object,
    package_uris: object,
    python_module: object,
    args: object = None,
    env: Mapping[str, object] | Sequence[Mapping[str, object]] | object = None,
    replica_count: object = 1,
    machine_type: object = None,
    accelerator_type: object = None,
    accelerator_count: object = None,
    boot_disk_type: object = None,
    boot_disk_size_gb: object = None,
    machine_spec: Mapping[str, Any] | None = None,
    **pool_fields: object,
) -> list[dict[str, Any]]:
    """Return the pools of a Python package in a prebuilt image; arguments as in :func:`container_pools`.

    :param package_uris: one URI or a list of them.
    """
    raise NotImplementedError
