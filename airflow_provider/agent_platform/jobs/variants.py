"""A finished payload, changed for one submit: environment, labels, machine, scheduling.

In: a payload of ``jobs.spec`` and the change. Out: a new payload; the one given is never touched. Which
change is due is not decided here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from airflow_provider.agent_platform.jobs.durations import api_duration
from airflow_provider.agent_platform.jobs.errors import problem
from airflow_provider.agent_platform.jobs.identity import merge_labels

Job = dict[str, Any]

RESERVED_ENVIRONMENT = frozenset({"AIRFLOW_RESUME_FROM", "AIRFLOW_RESUME_STEP", "AIRFLOW_RUN_INDEX"})
"""Variables that the provider sets; a user's spec may not hold them."""

_MAX_ENVIRONMENT = 100


def with_environment(job: Job, environment: Mapping[str, str]) -> Job:
    """Return the payload with these variables in every worker of every pool.

    A variable of the same name that the payload already has is replaced. They come first, so that the
    user's own variables and arguments may refer to them as ``$(AIRFLOW_RESUME_FROM)``.

    :param environment: names and values.
    :raises SpecError: more than 100 variables in one container.
    """
    changed = copy.deepcopy(job)
    ours = [{"name": name, "value": value} for name, value in environment.items()]
    for task in _tasks(changed):
        kept = [variable for variable in task.get("env", []) if variable.get("name") not in environment]
        if len(ours) + len(kept) > _MAX_ENVIRONMENT:
            raise problem(
                "env",
                f"{len(kept)} variables and {len(ours)} of the provider are more than {_MAX_ENVIRONMENT}.",
            )
        if ours or kept:
            task["env"] = ours + kept
    return changed


def with_arguments(job: Job, arguments: Sequence[str]) -> Job:
    """Return the payload with these arguments after those of every worker.

    :param arguments: may be empty.
    """
    changed = copy.deepcopy(job)
    for task in _tasks(changed):
        if arguments:
            task["args"] = [*task.get("args", []), *arguments]
    return changed


def with_machine_type(job: Job, machine_type: str | None, *, pools: Sequence[int] | None = None) -> Job:
    """Return the payload with another machine type in its pools.

    Accelerators stay as they are: a ladder is made of machine types that take the same ones.

    :param machine_type: for example ``n1-highmem-8``; None changes nothing.
    :param pools: numbers of the pools; None is every pool that has a machine type.
    """
    changed = copy.deepcopy(job)
    if machine_type is None:
        return changed
    for index, pool in enumerate(spec_of(changed).get("worker_pool_specs", [])):
        machine = pool.get("machine_spec", {})
        if machine.get("machine_type") and (pools is None or index in pools):
            machine["machine_type"] = machine_type
    return changed


def with_scheduling(
    job: Job,
    *,
    strategy: str | None = None,
    disable_retries: bool | None = None,
    timeout: object = None,
    max_wait_duration: object = None,
    restart_job_on_worker_restart: bool | None = None,
) -> Job:
    """Return the payload with these fields of ``scheduling``; None leaves a field as it is.

    :param strategy: by name.
    :param disable_retries: as in the API.
    :param timeout: a duration in any form.
    :param max_wait_duration: a duration in any form.
    :param restart_job_on_worker_restart: as in the API.
    """
    changes = {
        "strategy": strategy,
        "disable_retries": disable_retries,
        "timeout": None if timeout is None else api_duration(timeout),
        "max_wait_duration": None if max_wait_duration is None else api_duration(max_wait_duration),
        "restart_job_on_worker_restart": restart_job_on_worker_restart,
    }
    changed = copy.deepcopy(job)
    given = {name: value for name, value in changes.items() if value is not None}
    if given:
        spec_of(changed).setdefault("scheduling", {}).update(given)
    return changed


def with_labels(job: Job, labels: Mapping[str, str]) -> Job:
    """Return the payload with our labels beside the user's.

    :param labels: from ``TaskIdentity.labels``.
    :raises SpecError: a clash with one of the user's, or too many.
    """
    changed = copy.deepcopy(job)
    changed["labels"] = merge_labels(job.get("labels"), labels)
    return changed


def with_output_directory(job: Job, uri: str) -> Job:
    """Return the payload with this ``base_output_directory`` when it has none.

    :param uri: ``gs://bucket/folder``.
    """
    changed = copy.deepcopy(job)
    if output_directory_of(changed) is None:
        spec_of(changed)["base_output_directory"] = {"output_uri_prefix": uri}
    return changed


def spec_of(job: Job) -> dict[str, Any]:
    """Return the ``CustomJobSpec`` inside a payload of either kind (the same object, not a copy)."""
    return cast("dict[str, Any]", job["trial_job_spec"] if "trial_job_spec" in job else job["job_spec"])


def output_directory_of(job: Job) -> str | None:
    """Return the payload's ``base_output_directory``, or None."""
    uri = spec_of(job).get("base_output_directory", {}).get("output_uri_prefix")
    return str(uri) if uri else None


def strategy_of(job: Job) -> str | None:
    """Return the payload's scheduling strategy by name, or None."""
    strategy = spec_of(job).get("scheduling", {}).get("strategy")
    return str(strategy) if strategy else None


def machine_type_of(job: Job) -> str | None:
    """Return the machine type of the payload's first pool that has one, or None."""
    for pool in spec_of(job).get("worker_pool_specs", []):
        machine_type = pool.get("machine_spec", {}).get("machine_type")
        if machine_type:
            return str(machine_type)
    return None


def _tasks(job: Job) -> Iterator[dict[str, Any]]:
    for pool in spec_of(job).get("worker_pool_specs", []):
        for name in ("container_spec", "python_package_spec"):
            if name in pool:
                yield pool[name]
