"""The rules of the service that join several fields, checked before anything is sent.

In: a spec that ``jobs.reader`` has read. Out: problems, noted in the reader. A rule is here only when the
service's documentation or its client says it; what only the service can know (is this machine there?) is
left to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_provider.agent_platform.jobs.durations import seconds_of
from airflow_provider.agent_platform.jobs.errors import shown
from airflow_provider.agent_platform.jobs.reader import Reader
from airflow_provider.agent_platform.jobs.templating import holds_template, is_template
from airflow_provider.agent_platform.jobs.variants import RESERVED_ENVIRONMENT

MAX_DISPLAY_NAME = 128
MAX_ENVIRONMENT = 100
MAX_PACKAGES = 100
MAX_ARGUMENT_CHARACTERS = 100_000
FLEX_START_SECONDS = 7 * 24 * 3600

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUCKET_URI = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](?:/.*)?", re.DOTALL)


def check_display_name(reader: Reader, name: object, path: str = "display_name") -> None:
    """Check a job's display name: 1 to 128 characters (comment of ``CustomJob.display_name``)."""
    if reader.pending(name) or not isinstance(name, str):
        return
    if not 0 < len(name) <= MAX_DISPLAY_NAME:
        reader.problem(
            path, f"has {len(name)} characters; the service takes 1 to {MAX_DISPLAY_NAME}: choose another."
        )


def check_spec(reader: Reader, spec: Mapping[str, Any], path: str) -> None:
    """Check a ``CustomJobSpec``, unless one of its fields could not be read: then the rest would be noise.

    :param reader: takes the problems.
    :param spec: as read.
    :param path: "" or the name of the argument that holds the spec.
    """
    if reader.problems:
        return
    prefix = f"{path}." if path else ""
    uri = spec.get("base_output_directory", {})
    uri = uri.get("output_uri_prefix") if isinstance(uri, Mapping) else None
    if isinstance(uri, str) and not reader.pending(uri) and not _BUCKET_URI.fullmatch(uri):
        reader.problem(f"{prefix}base_output_directory", f"{shown(uri)} is no 'gs://bucket/folder'.")
    pools = spec.get("worker_pool_specs", [])
    if isinstance(pools, list):
        _check_pools(reader, pools, f"{prefix}worker_pool_specs", "persistent_resource_id" in spec)
    scheduling = spec.get("scheduling", {})
    if isinstance(scheduling, Mapping):
        _check_scheduling(reader, scheduling, pools, f"{prefix}scheduling")


def _check_pools(reader: Reader, pools: list[Any], path: str, persistent: bool) -> None:
    if not pools:
        reader.problem(path, "is empty: a job needs at least one pool with one replica.")
    for index, pool in enumerate(pools):
        where = f"{path}[{index}]"
        if not isinstance(pool, Mapping):
            continue  # not known yet, or a problem already
        if not any(pool.values()) and index > 0:
            continue  # an unused pool in between stays empty: its number has a meaning
        _check_replicas(reader, pool.get("replica_count"), index, f"{where}.replica_count")
        _check_machine(reader, pool.get("machine_spec", {}), persistent, f"{where}.machine_spec")
        _check_task(reader, pool, where)


def _check_replicas(reader: Reader, count: object, index: int, path: str) -> None:
    if not isinstance(count, int):
        return
    if count < 1:
        reader.problem(path, f"is {count}: a pool that is used has at least one replica.")
    elif index == 0 and count > 1:
        reader.problem(
            path,
            f"is {count}: the first pool is the single primary replica. Give it 1 and put the other "
            f"{count - 1} into the second pool.",
        )


def _check_machine(reader: Reader, machine: object, persistent: bool, path: str) -> None:
    if not isinstance(machine, Mapping):
        return
    if not machine.get("machine_type") and not persistent:
        reader.problem(f"{path}.machine_type", "is missing: give one, for example 'n1-standard-4'.")
    accelerator, count = machine.get("accelerator_type"), machine.get("accelerator_count")
    if holds_template([accelerator, count]):
        return
    if accelerator not in (None, "ACCELERATOR_TYPE_UNSPECIFIED") and not count:
        reader.problem(f"{path}.accelerator_count", f"is missing: how many {accelerator} has a replica?")
    if count and accelerator in (None, "ACCELERATOR_TYPE_UNSPECIFIED"):
        reader.problem(f"{path}.accelerator_type", f"is missing for the {count} accelerators of a replica.")


def _check_task(reader: Reader, pool: Mapping[str, Any], path: str) -> None:
    required = {
        "container_spec": ("image_uri",),
        "python_package_spec": ("executor_image_uri", "package_uris", "python_module"),
    }
    given = [name for name in required if name in pool]
    if not given:
        reader.problem(path, f"has nothing to run: give one of {' and '.join(required)}.")
    for name in given:
        task, where = pool[name], f"{path}.{name}"
        if not isinstance(task, Mapping):
            continue
        for field in required[name]:
            if not task.get(field):
                reader.problem(f"{where}.{field}", "is missing.")
        packages = task.get("package_uris", [])
        if isinstance(packages, list) and len(packages) > MAX_PACKAGES:
            reader.problem(f"{where}.package_uris", f"has {len(packages)} entries; at most {MAX_PACKAGES}.")
        arguments = task.get("args", [])
        if isinstance(arguments, list):
            characters = sum(len(item) for item in arguments if isinstance(item, str))
            if characters > MAX_ARGUMENT_CHARACTERS:
                reader.problem(
                    f"{where}.args",
                    f"has {characters} characters; at most {MAX_ARGUMENT_CHARACTERS}: put them into a file.",
                )
        if isinstance(task.get("env"), list):
            _check_environment(reader, task["env"], f"{where}.env")


def _check_environment(reader: Reader, variables: list[Any], path: str) -> None:
    if len(variables) > MAX_ENVIRONMENT - len(RESERVED_ENVIRONMENT):
        reader.problem(
            path,
            f"has {len(variables)} variables; the service takes {MAX_ENVIRONMENT}, the provider sets "
            f"{len(RESERVED_ENVIRONMENT)}: put them into a file.",
        )
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name") if isinstance(variable, Mapping) else None
        where = f"{path}[{index}].name"
        if name is None and isinstance(variable, Mapping):
            reader.problem(where, "is missing.")
        if not isinstance(name, str) or reader.pending(name):
            continue
        if not _VARIABLE.fullmatch(name):
            reader.problem(
                where, f"{shown(name)} must be a C identifier: letters, digits and '_', no digit first."
            )
        elif name in RESERVED_ENVIRONMENT:
            reader.problem(where, f"{name} is set by the provider: use another name.")
        elif name in seen:
            reader.problem(where, f"{name} is there twice; names must be unique.")
        seen.add(name)


def _check_scheduling(reader: Reader, scheduling: Mapping[str, Any], pools: object, path: str) -> None:
    strategy, timeout = scheduling.get("strategy"), scheduling.get("timeout")
    known_timeout = isinstance(timeout, str) and not is_template(timeout)
    if known_timeout and seconds_of(timeout) <= 0:
        reader.problem(f"{path}.timeout", "is 0: give more, or leave it out for the service's 7 days.")
    if is_template(strategy):
        return
    if "max_wait_duration" in scheduling and strategy != "FLEX_START":
        reader.problem(
            f"{path}.max_wait_duration",
            f"is for FLEX_START only, and the strategy is {strategy or 'not given'}: use queue_timeout.",
        )
    if strategy != "FLEX_START":
        return
    if known_timeout and seconds_of(timeout) > FLEX_START_SECONDS:
        reader.problem(
            f"{path}.timeout", f"is {timeout}; with FLEX_START at most {FLEX_START_SECONDS}s (7 days)."
        )
    machines = (
        [pool.get("machine_spec") for pool in pools if isinstance(pool, Mapping) and any(pool.values())]
        if (isinstance(pools, list))
        else []
    )
    if not holds_template(machines) and any(machine != machines[0] for machine in machines):
        reader.problem(f"{path}.strategy", "FLEX_START wants the same machine_spec in every pool.")
