"""Operators for ``CustomJob``: a whole spec, one image, or a Python package.

In: what a DAG author writes. Out: the payload of a create call; everything else is in ``operators.base``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider.agent_platform.jobs.pools import container_pools, python_package_pools
from airflow_provider.agent_platform.jobs.schema import ClientSchema
from airflow_provider.agent_platform.jobs.spec import Job, build_custom_job
from airflow_provider.agent_platform.operators.arguments import TEMPLATE_FIELDS
from airflow_provider.agent_platform.operators.base import TrainingJobBaseOperator

POOL_FIELDS = (
    "replica_count",
    "machine_type",
    "accelerator_type",
    "accelerator_count",
    "boot_disk_type",
    "boot_disk_size_gb",
    "machine_spec",
    "nfs_mounts",
)


class CustomJobOperator(TrainingJobBaseOperator):
    """Run a custom training job given as worker pools or as a whole spec.

    :param worker_pool_specs: list of ``WorkerPoolSpec``, as dicts in snake_case or camelCase, or as messages.
    :param job_spec: a whole ``CustomJobSpec``. Exactly one of the two.

    All other arguments are those of :class:`~airflow_provider.agent_platform.operators.base.TrainingJobBaseOperator`.
    """

    template_fields: Sequence[str] = ("worker_pool_specs", "job_spec", *TEMPLATE_FIELDS)

    def __init__(
        self,
        *,
        worker_pool_specs: Sequence[Any] | None = None,
        job_spec: Any = None,
        **kwargs: Any,
    ) -> None:
        self.worker_pool_specs = worker_pool_specs
        self.job_spec = job_spec
        super().__init__(**kwargs)

    def build_job(
        self, *, display_name: str, at_parse: bool = False, client_schema: ClientSchema | None = None
    ) -> Job:
        """Return the payload."""
        return build_custom_job(
            display_name=display_name,
            worker_pool_specs=self.worker_pool_specs,
            job_spec=self.job_spec,
            at_parse=at_parse,
            client_schema=client_schema,
            **self.spec_fields(),
        )


class _PoolOperator(TrainingJobBaseOperator):
    """Shared by the operators whose workers are all alike.

    :param replica_count: all replicas, the primary included. Default: 1.
    :param machine_type: for example ``n1-standard-4``.
    :param accelerator_type: for example ``NVIDIA_TESLA_T4``.
    :param accelerator_count: of each replica.
    :param boot_disk_type: ``pd-ssd`` (the service's default) or ``pd-standard``.
    :param boot_disk_size_gb: the service's default is 100.
    :param machine_spec: more fields of ``MachineSpec`` (``reservation_affinity``, ``tpu_topology``, ...).
    :param nfs_mounts: as in the API.
    """

    def __init__(
        self,
        *,
        replica_count: int = 1,
        machine_type: str | None = None,
        accelerator_type: str | None = None,
        accelerator_count: int | None = None,
        boot_disk_type: str | None = None,
        boot_disk_size_gb: int | None = None,
        machine_spec: Mapping[str, Any] | None = None,
        nfs_mounts: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.replica_count = replica_count
        self.machine_type = machine_type
        self.accelerator_type = accelerator_type
        self.accelerator_count = accelerator_count
        self.boot_disk_type = boot_disk_type
        self.boot_disk_size_gb = boot_disk_size_gb
        self.machine_spec = machine_spec
        self.nfs_mounts = nfs_mounts
        super().__init__(**kwargs)

    @abstractmethod
    def pools(self) -> list[dict[str, Any]]:
        """Return the worker pools."""

    def pool_fields(self) -> dict[str, Any]:
        """Return the shared arguments, without those that were not given."""
        return {name: getattr(self, name) for name in POOL_FIELDS if getattr(self, name) is not None}

    def build_job(
        self, *, display_name: str, at_parse: bool = False, client_schema: ClientSchema | None = None
    ) -> Job:
        """Return the payload."""
        return build_custom_job(
            display_name=display_name,
            worker_pool_specs=self.pools(),
            at_parse=at_parse,
            client_schema=client_schema,
            **self.spec_fields(),
        )


class ContainerTrainingOperator(_PoolOperator):
    """Run one image on ``replica_count`` machines: one primary, the rest workers.

    :param image_uri: the image. ``image`` is another name for it.
    :param command: entry point; default: the image's.
    :param args: arguments.
    :param env: dict of names and values, or the API's list of ``{"name": .., "value": ..}``.
    """

    template_fields: Sequence[str] = ("image_uri", "command", "args", "env", *POOL_FIELDS, *TEMPLATE_FIELDS)

    def __init__(
        self,
        *,
        image_uri: str | None = None,
        image: str | None = None,
        command: Sequence[str] | None = None,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        **kwargs: Any,
    ) -> None:
        if image_uri is not None and image is not None:
            raise ValueError("image_uri and image are two names of one argument: give one of them.")
        self.image_uri = image_uri if image is None else image
        self.command = command
        self.args = args
        self.env = env
        super().__init__(**kwargs)

    def pools(self) -> list[dict[str, Any]]:
        """Return the worker pools."""
        return container_pools(
            image_uri=self.image_uri,
            command=self.command,
            args=self.args,
            env=self.env,
            **self.pool_fields(),
        )


class PythonPackageTrainingOperator(_PoolOperator):
    """Run a module of a Python package in a prebuilt image, on ``replica_count`` machines.

    :param executor_image_uri: the prebuilt image.
    :param package_uris: one ``gs://`` URI or a list of them.
    :param python_module: run with ``python3 -m``.
    :param args: arguments.
    :param env: dict of names and values, or the API's list of ``{"name": .., "value": ..}``.
    """

    template_fields: Sequence[str] = (
        "executor_image_uri",
        "package_uris",
        "python_module",
        "args",
        "env",
        *POOL_FIELDS,
        *TEMPLATE_FIELDS,
    )

    def __init__(
        self,
        *,
        executor_image_uri: str,
        package_uris: str | Sequence[str],
        python_module: str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.executor_image_uri = executor_image_uri
        self.package_uris = package_uris
        self.python_module = python_module
        self.args = args
        self.env = env
        super().__init__(**kwargs)

    def pools(self) -> list[dict[str, Any]]:
        """Return the worker pools."""
        return python_package_pools(
            executor_image_uri=self.executor_image_uri,
            package_uris=self.package_uris,
            python_module=self.python_module,
            args=self.args,
            env=self.env,
            **self.pool_fields(),
        )
