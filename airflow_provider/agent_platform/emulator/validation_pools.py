"""What the service refuses in worker pools: machines, accelerators, containers, packages.

In: a ``CustomJobSpec`` as bare protobuf. Out: errors added to a list. Which machines there are is in
``catalog``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from google.cloud.aiplatform_v1.types import ReservationAffinity

from airflow_provider.agent_platform.emulator import catalog, catalog_data
from airflow_provider.agent_platform.emulator.found_errors import FoundErrors

MAX_POOLS = 4
MAX_REPLICAS = 1_000
"""Of one pool. The service's own limit is the quota; this one keeps a slip of the keyboard from filling the memory."""
MAX_ENV = 100
MAX_PACKAGES = 100
MAX_ARGS_CHARACTERS = 100_000
DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
DISK_GB = (100, 64_000)

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
TASKS = ("container_spec", "python_package_spec")


def check_pools(found: FoundErrors, path: str, spec: Any, region: str | None) -> None:
    """Check ``worker_pool_specs``."""
    field = f"{path}.worker_pool_specs"
    pools = spec.worker_pool_specs
    if not pools:
        found.add(field, "Required field is not set: at least one worker pool is needed.")
        return
    if len(pools) > MAX_POOLS:
        found.add(field, f"There can be at most {MAX_POOLS} worker pools, found {len(pools)}.")
        return
    for index, pool in enumerate(pools):
        where = f"{field}[{index}]"
        if pool.replica_count < 0:
            found.add(f"{where}.replica_count", f"Must not be negative, found {pool.replica_count}.")
        elif pool.replica_count > MAX_REPLICAS:
            found.add(
                f"{where}.replica_count", f"Must be at most {MAX_REPLICAS}, found {pool.replica_count}."
            )
        elif index and not pool.ByteSize():
            continue  # a skipped pool is an empty message
        elif not index and pool.replica_count > 1:
            found.add(
                f"{where}.replica_count",
                f"The first worker pool holds the primary replica: replica_count must be 1, found "
                f"{pool.replica_count}.",
            )
        _check_task(found, where, pool)
        _check_machine(found, where, pool.machine_spec, region, optional=bool(spec.persistent_resource_id))
        _check_disk(found, where, pool)


def check_flex_start_pools(found: FoundErrors, path: str, spec: Any) -> None:
    """What FLEX_START asks of the machines: certain accelerators, one machine for all pools, no
    reservation."""
    machines = set()
    for index, pool in enumerate(spec.worker_pool_specs):
        if not pool.ByteSize():
            continue
        where = f"{path}.worker_pool_specs[{index}].machine_spec"
        machine = pool.machine_spec
        machines.add((machine.machine_type, machine.accelerator_type, machine.accelerator_count))
        name = catalog.accelerator_name(machine.accelerator_type)
        if name not in catalog_data.FLEX_START_ACCELERATORS:
            found.add(
                f"{where}.accelerator_type",
                f"FLEX_START does not support {name}; select from "
                f"{', '.join(sorted(catalog_data.FLEX_START_ACCELERATORS))}.",
            )
        affinity = machine.reservation_affinity.reservation_affinity_type
        if affinity not in (
            ReservationAffinity.Type.TYPE_UNSPECIFIED,
            ReservationAffinity.Type.NO_RESERVATION,
        ):
            found.add(f"{where}.reservation_affinity", "FLEX_START cannot be used with reservations.")
    if len(machines) > 1:
        found.add(f"{path}.worker_pool_specs", "FLEX_START needs the same machine_spec in all worker pools.")


def _check_task(found: FoundErrors, where: str, pool: Any) -> None:
    task = pool.WhichOneof("task")
    if task is None:
        found.add(where, f"One of {' and '.join(TASKS)} must be set.")
        return
    spec, where = getattr(pool, task), f"{where}.{task}"
    if task == "container_spec":
        if not spec.image_uri:
            found.add(f"{where}.image_uri", "Required field is not set.")
    else:
        _check_package(found, where, spec)
    _check_env(found, f"{where}.env", spec.env)
    characters = sum(len(arg) for arg in spec.args)
    if characters > MAX_ARGS_CHARACTERS:
        found.add(
            f"{where}.args",
            f"The total length of args must be at most {MAX_ARGS_CHARACTERS} characters, found {characters}.",
        )


def _check_package(found: FoundErrors, where: str, spec: Any) -> None:
    if not spec.executor_image_uri:
        found.add(f"{where}.executor_image_uri", "Required field is not set.")
    if not spec.package_uris:
        found.add(f"{where}.package_uris", "Required field is not set.")
    elif len(spec.package_uris) > MAX_PACKAGES:
        found.add(
            f"{where}.package_uris",
            f"There can be at most {MAX_PACKAGES} package URIs, found {len(spec.package_uris)}.",
        )
    for index, uri in enumerate(spec.package_uris[:MAX_PACKAGES]):
        # A path on this machine is the emulator's own: the service takes Cloud Storage only.
        scheme = uri.split("://", 1)[0] if "://" in uri else "file"
        if scheme not in ("gs", "file") or not uri or "\0" in uri:
            found.add(
                f"{where}.package_uris[{index}]", f"{uri[:200]!r} must be a gs:// URI of a package file."
            )
        elif ".." in re.split(r"[/\\]", uri):
            found.add(f"{where}.package_uris[{index}]", f"{uri[:200]!r} must not contain a '..' part.")
    if not spec.python_module:
        found.add(f"{where}.python_module", "Required field is not set.")
    elif not MODULE.fullmatch(spec.python_module):
        found.add(f"{where}.python_module", f"{spec.python_module[:200]!r} is no name of a Python module.")


def _check_env(found: FoundErrors, where: str, env: Sequence[Any]) -> None:
    if len(env) > MAX_ENV:
        found.add(where, f"There can be at most {MAX_ENV} environment variables, found {len(env)}.")
    names = [variable.name for variable in env]
    if len(set(names)) < len(names):
        found.add(where, "EnvVar names must be unique.")
    for index, variable in enumerate(env[:MAX_ENV]):
        if not ENV_NAME.fullmatch(variable.name):
            found.add(f"{where}[{index}].name", f"{variable.name[:200]!r} is not a valid C identifier.")
        if "\0" in variable.value:
            found.add(f"{where}[{index}].value", "Must not contain a null character.")


def _check_machine(found: FoundErrors, where: str, spec: Any, region: str | None, *, optional: bool) -> None:
    where = f"{where}.machine_spec"
    if not spec.machine_type:
        if not optional:
            found.add(f"{where}.machine_type", "Required field is not set.")
        return
    machine = catalog.machine_type(spec.machine_type)
    if machine is None or (region is not None and not machine.in_region(region)):
        found.add(f"{where}.machine_type", f"Machine type {spec.machine_type[:200]} is not supported.")
        return
    if spec.accelerator_count < 0:
        found.add(f"{where}.accelerator_count", f"Must not be negative, found {spec.accelerator_count}.")
        return
    if not spec.accelerator_type:
        if spec.accelerator_count:
            found.add(f"{where}.accelerator_type", "Must be set if accelerator_count is set.")
        elif machine.accelerator_required:
            (name, counts), *_ = machine.accelerators.items()
            found.add(
                f"{where}.accelerator_type",
                f'Machine type "{machine.name}" needs its accelerators: set accelerator_type to {name} and '
                f"accelerator_count to {counts[0]}.",
            )
        return
    name = catalog.accelerator_name(spec.accelerator_type)
    counts = machine.accelerators.get(name, ())
    if not counts:
        found.add(
            f"{where}.accelerator_type",
            f'Accelerator "{name}" is not supported for machine type "{machine.name}".',
        )
    elif spec.accelerator_count not in counts:
        found.add(
            f"{where}.accelerator_count",
            f'Accelerator count {spec.accelerator_count} of "{name}" is not supported for machine type '
            f'"{machine.name}"; supported: {", ".join(map(str, counts))}.',
        )


def _check_disk(found: FoundErrors, where: str, pool: Any) -> None:
    disk, where = pool.disk_spec, f"{where}.disk_spec"
    if disk.boot_disk_type and disk.boot_disk_type not in DISK_TYPES:
        found.add(
            f"{where}.boot_disk_type",
            f"{disk.boot_disk_type[:200]!r} is not supported; select from {', '.join(DISK_TYPES)}.",
        )
    least, most = DISK_GB
    if disk.boot_disk_size_gb and not least <= disk.boot_disk_size_gb <= most:
        found.add(
            f"{where}.boot_disk_size_gb",
            f"Must be between {least} and {most}, found {disk.boot_disk_size_gb}.",
        )
