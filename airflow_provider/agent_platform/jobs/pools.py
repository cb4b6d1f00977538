"""Worker pools from a few plain arguments, for jobs whose workers are all alike.

In: an image or a package, a machine, a number of replicas. Out: ``worker_pool_specs`` for ``jobs.spec``,
which checks them. Pool 0 always holds the single primary replica; the others are in pool 1, as the service
wants it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from airflow_provider.agent_platform.jobs.errors import problem, shown
from airflow_provider.agent_platform.jobs.messages import plain
from airflow_provider.agent_platform.jobs.scalars import ValueFault, whole
from airflow_provider.agent_platform.jobs.templating import is_template


def container_pools(
    *,
    image_uri: object,
    command: object = None,
    args: object = None,
    env: object = None,
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

    :param image_uri: of the container.
    :param command: replaces the image's entry point; list of text.
    :param args: list of text.
    :param env: dict of names and values, or the API's list of ``{"name": .., "value": ..}``.
    :param replica_count: all replicas, the primary included. While it is a template, two pools cannot be told
        apart yet: the result is good for checking only.
    :param machine_type: for example ``n1-standard-4``.
    :param accelerator_type: by name, for example ``NVIDIA_TESLA_T4``.
    :param accelerator_count: of one replica.
    :param boot_disk_type: ``pd-ssd`` or ``pd-standard``.
    :param boot_disk_size_gb: of one replica.
    :param machine_spec: more fields of ``MachineSpec`` (``reservation_affinity``, ``tpu_topology``, ...).
    :param pool_fields: more fields of ``WorkerPoolSpec`` (``nfs_mounts``, ``lustre_mounts``).
    :raises SpecError: a replica count below 1.
    """
    task = _given(image_uri=image_uri, command=command, args=args, env=_variables(env))
    machine = _machine(machine_type, accelerator_type, accelerator_count, machine_spec)
    disk = _given(boot_disk_type=boot_disk_type, boot_disk_size_gb=boot_disk_size_gb)
    return _pools("container_spec", task, machine, disk, replica_count, pool_fields)


def python_package_pools(
    *,
    executor_image_uri: object,
    package_uris: object,
    python_module: object,
    args: object = None,
    env: object = None,
    replica_count: object = 1,
    machine_type: object = None,
    accelerator_type: object = None,
    accelerator_count: object = None,
    boot_disk_type: object = None,
    boot_disk_size_gb: object = None,
    machine_spec: Mapping[str, Any] | None = None,
    **pool_fields: object,
) -> list[dict[str, Any]]:
    """Return the pools of a Python package in a prebuilt image; the rest as in :func:`container_pools`.

    :param executor_image_uri: a prebuilt training image.
    :param package_uris: one ``gs://`` URI or a list of them.
    :param python_module: run after the packages are installed.
    :raises SpecError: a replica count below 1.
    """
    packages = (
        [package_uris] if isinstance(package_uris, str) and not is_template(package_uris) else package_uris
    )
    task = _given(
        executor_image_uri=executor_image_uri,
        package_uris=packages,
        python_module=python_module,
        args=args,
        env=_variables(env),
    )
    machine = _machine(machine_type, accelerator_type, accelerator_count, machine_spec)
    disk = _given(boot_disk_type=boot_disk_type, boot_disk_size_gb=boot_disk_size_gb)
    return _pools("python_package_spec", task, machine, disk, replica_count, pool_fields)


def _pools(
    kind: str,
    task: dict[str, Any],
    machine: dict[str, Any],
    disk: dict[str, Any],
    replica_count: object,
    pool_fields: Mapping[str, object],
) -> list[dict[str, Any]]:
    pool: dict[str, Any] = {kind: task, **_given(**pool_fields)}
    if machine:
        pool["machine_spec"] = machine
    if disk:
        if "disk_spec" in pool:
            raise problem(
                "disk_spec", "is given together with boot_disk_type or boot_disk_size_gb: give one."
            )
        pool["disk_spec"] = disk
    primary = {**pool, "replica_count": 1}
    if is_template(replica_count):
        return [primary]
    try:
        count = whole(32)(replica_count, "replica_count")
    except ValueFault as fault:
        raise problem("replica_count", str(fault)) from None
    if count < 1:
        raise problem("replica_count", f"is {count}: a job has at least one replica, the primary.")
    if count == 1:
        return [primary]
    return [primary, {**copy.copy(pool), "replica_count": count - 1}]


def _machine(
    machine_type: object, accelerator_type: object, accelerator_count: object, more: Any
) -> dict[str, Any]:
    given = _given(
        machine_type=machine_type, accelerator_type=accelerator_type, accelerator_count=accelerator_count
    )
    more = plain(more or {})
    twice = sorted(set(given) & set(more))
    if twice:
        raise problem(
            f"machine_spec.{twice[0]}", f"is also given as {twice[0]}={shown(given[twice[0]])}: give one."
        )
    return {**more, **given}


def _variables(env: object) -> object:
    if isinstance(env, Mapping):
        return [{"name": name, "value": value} for name, value in env.items()]
    return env


def _given(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
