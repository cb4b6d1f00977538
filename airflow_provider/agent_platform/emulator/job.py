"""A live custom job: from its spec to its lifecycle's plan and its workers' launches.

In: the stored row and the parsed spec. Out: a :class:`JobPlan`, and a :class:`Launch` for each replica. It
holds what the engine must know while the job lives, and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.cloud.aiplatform_v1 import types

from airflow_provider.agent_platform.emulator import catalog, environment
from airflow_provider.agent_platform.emulator.clock import Timer
from airflow_provider.agent_platform.emulator.cluster import Cluster
from airflow_provider.agent_platform.emulator.config import Config
from airflow_provider.agent_platform.emulator.environment import Child
from airflow_provider.agent_platform.emulator.faults import Target
from airflow_provider.agent_platform.emulator.life import JobPlan
from airflow_provider.agent_platform.emulator.lifecycle import Lifecycle
from airflow_provider.agent_platform.emulator.runners.base import Handle, Launch
from airflow_provider.agent_platform.emulator.store import Row

CustomJob = types.CustomJob.pb()
"""The bare protobuf class: the wrapper of the client library costs more than all else in a call."""

Strategy = types.Scheduling.Strategy


@dataclass(kw_only=True, eq=False)
class LiveJob:
    """One job that has not ended.

    :param running_since: clock time of this run's RUNNING, None before.
    :param up_since: clock time at which each replica of this run (re)started.
    """

    row: Row
    spec: Any
    child: Child | None
    lifecycle: Lifecycle
    cluster: Cluster | None = None
    workers: dict[str, tuple[Launch, Handle]] = field(default_factory=dict)
    timers: list[Timer] = field(default_factory=list)
    running_since: float | None = None
    up_since: dict[str, float] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """What faults are matched against."""
        return Target(job=self.row.id, display_name=self.row.display_name, region=self.row.region)

    def keep(self, timer: Timer) -> None:
        """Forget a timer when the job ends."""
        if len(self.timers) > 50:
            self.timers = [one for one in self.timers if one.callback is not None]
        self.timers.append(timer)


def plan_of(row: Row, spec: Any, config: Config, quota_refused: tuple[str, ...] = ()) -> JobPlan:
    """What the lifecycle depends on."""
    scheduling = spec.scheduling
    flex_start = scheduling.strategy == Strategy.FLEX_START
    timeout = max_wait = 0.0
    if scheduling.HasField("timeout"):
        timeout = _seconds(scheduling.timeout)
    if flex_start:
        asked = scheduling.HasField("max_wait_duration")
        max_wait = _seconds(scheduling.max_wait_duration) if asked else config["default_max_wait_seconds"]
    return JobPlan(
        job_id=row.id,
        project=row.project,
        region=row.region,
        replicas=environment.replica_names(spec),
        timeout=timeout or config["default_timeout_seconds"],
        max_wait=max_wait,
        spot=scheduling.strategy == Strategy.SPOT,
        flex_start=flex_start,
        restart_job_on_worker_restart=scheduling.restart_job_on_worker_restart,
        disable_retries=scheduling.disable_retries,
        quota_refused=quota_refused,
    )


def launch_of(
    job: LiveJob, config: Config, replica: str, *, run: int, attempt: int, new_machine: bool
) -> Launch:
    """One start of a replica; without addresses, which simulated workers do not need, without the service's variables."""
    row, spec = job.row, job.spec
    number, _ = environment.split_replica(replica)
    pool = spec.worker_pool_specs[number]
    service: dict[str, str] = {}
    if job.cluster is not None:
        service = environment.service_variables(
            spec,
            job_id=row.id,
            project=row.project,
            region=row.region,
            replica=replica,
            cluster=job.cluster,
            child=job.child,
        )
    user = environment.expand(environment.user_variables(pool), service)
    machine = catalog.machine_type(pool.machine_spec.machine_type)
    limit = int(machine.allocatable_bytes * config.memory_scale) if machine is not None else 0
    package = pool.python_package_spec
    return Launch(
        job_id=row.id,
        replica=replica,
        run=run,
        attempt=attempt,
        command=environment.command(pool, job.child),
        environment={**service, **user},
        entrypoint=bool(package.python_module or pool.container_spec.command),
        user_environment=user,
        image=pool.container_spec.image_uri or package.executor_image_uri,
        memory_limit=limit,
        packages=tuple(package.package_uris) if package.python_module else (),
        keep_directory=attempt > 0 and not new_machine,
        progress_key=f"{spec.base_output_directory.output_uri_prefix or row.id}#{replica}",
    )


def _seconds(duration: Any) -> float:
    return float(duration.seconds + duration.nanos / 1e9)
