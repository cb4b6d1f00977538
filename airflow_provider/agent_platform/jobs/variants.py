"""A finished payload, changed for one submit: environment, labels, machine, scheduling.

In: a payload of ``jobs.spec`` and the change. Out: a new payload; the one given is never touched. Which
change is due is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Job = dict[str, Any]

RESERVED_ENVIRONMENT = frozenset({"AIRFLOW_RESUME_FROM", "AIRFLOW_RESUME_STEP", "AIRFLOW_RUN_INDEX"})
"""Variables that the provider sets; a user's spec may not hold them."""


def with_environment(job: Job, environment: Mapping[str, str]) -> Job:
    """Return the payload with these variables in every worker of every pool.

    A variable of the same name that the payload already has is replaced.

    :param environment: names and values.
    :raises SpecError: more than 100 variables in one container.
    """
    raise NotImplementedError


def with_arguments(job: Job, arguments: Sequence[str]) -> Job:
    """Return the payload with these arguments after those of every worker."""
    raise NotImplementedError


def with_machine_type(job: Job, machine_type: str | None, *, pools: Sequence[int] | None = None) -> Job:
    """Return the payload with another machine type in its pools.

    :param machine_type: for example ``n1-highmem-8``; None changes nothing.
    :param pools: numbers of the pools; None is every pool that has a machine.
    """
    raise NotImplementedError


def with_scheduling(
    job: Job,
    *,
    strategy: str | None = None,
    disable_retries: bool | None = None,
    timeout: object = None,
    max_wait_duration: object = None,
    restart_job_on_worker_restart: bool | None = None,
) -> Job:
    """Return the payload with these fields of ``scheduling``; None leaves a field as it is."""
    raise NotImplementedError


def with_labels(job: Job, labels: Mapping[str, str]) -> Job:
    """Return the payload with our labels beside the user's.

    :param labels: from ``TaskIdentity.labels``.
    :raises SpecError: a clash with one of the user's, or too many.
    """
    raise NotImplementedError


def with_output_directory(job: Job, uri: str) -> Job:
    """Return the payload with this ``base_output_directory`` when it has none.

    :param uri: ``gs://bucket/folder``.
    """
    raise NotImplementedError


def spec_of(job: Job) -> dict[str, Any]:
    """Return the ``CustomJobSpec`` inside a payload of either kind (the same object, not a copy)."""
    raise NotImplementedError


def output_directory_of(job: Job) -> str | None:
    """Return the payload's ``base_output_directory``, or None."""
    raise NotImplementedError


def strategy_of(job: Job) -> str | None:
    """Return the payload's scheduling strategy by name, or None."""
    raise NotImplementedError


def machine_type_of(job: Job) -> str | None:
    """Return the machine type of the payload's first pool that has one, or None."""
    raise NotImplementedError
