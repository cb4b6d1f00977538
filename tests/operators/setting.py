"""One task instance over its tries, on the platform in memory: what a test of the lifecycle starts from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pendulum

from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, FoundCheckpoint
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.jobs.identity import TaskIdentity, epoch_of
from airflow_provider.agent_platform.jobs.spec import build_custom_job
from airflow_provider.agent_platform.operators.lifecycle import Lifecycle
from airflow_provider.agent_platform.operators.preparation import Preparation
from airflow_provider.agent_platform.operators.request import TrainingRequest
from airflow_provider.agent_platform.operators.retry_policy import TrainingRetryPolicy
from airflow_provider.agent_platform.operators.steps import Carried, Step
from airflow_provider.agent_platform.operators.task import TaskFacts
from airflow_provider.agent_platform.operators.verdict import Verdicts
from airflow_provider.agent_platform.policy.decide import Budget
from airflow_provider.agent_platform.policy.placement import PlacementOptions
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from tests.operators.platform import Platform

POOLS = [
    {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "image", "command": ["train"]},
    }
]


@dataclass
class Checkpoints:
    """The checkpoints of one base directory, instead of a bucket."""

    found: list[tuple[int, pendulum.DateTime]] = field(default_factory=list)
    problem: str | None = None

    def save(self, step: int, moment: pendulum.DateTime) -> None:
        self.found.append((step, moment))

    def scan(self, since: pendulum.DateTime | None) -> CheckpointScan:
        if self.problem:
            return CheckpointScan(known=False, problem=self.problem)
        steps = [step for step, moment in self.found if since is None or moment >= since]
        if not steps:
            return CheckpointScan()
        return CheckpointScan(
            newest=FoundCheckpoint(
                uri=f"gs://bucket/run/checkpoints/checkpoint-{max(steps)}", step=max(steps), framework="plain"
            )
        )


@dataclass
class Setting:
    """What stays the same over tries: the platform, the checkpoints, the user's wishes."""

    platform: Platform = field(default_factory=Platform)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    run_id: str = "run"
    retries: int = 0
    try_number: int = 1
    max_tries: int | None = None
    strategy: str | None = None
    regions: tuple[str, ...] = ("us-central1",)
    options: dict[str, Any] = field(default_factory=dict)
    retry_policy: Any = field(default_factory=TrainingRetryPolicy)
    queue_timeout: pendulum.Duration | None = None
    max_jobs: int = 50
    execution_deadline: pendulum.DateTime | None = None
    owner_try: int | None = None

    def task(self) -> TaskFacts:
        max_tries = self.retries if self.max_tries is None else self.max_tries
        return TaskFacts(
            identity=TaskIdentity(dag_id="dag", run_id=self.run_id, task_id="train"),
            epoch=epoch_of(max_tries, self.retries),
            try_number=self.try_number,
            max_tries=max_tries,
            retries=self.retries,
            started_at=self.platform.time.now(),
            execution_deadline=self.execution_deadline,
        )

    def lifecycle(self) -> Lifecycle:
        """A new process: nothing is remembered but what the platform tells."""
        job = build_custom_job(
            display_name="dag.train",
            worker_pool_specs=POOLS,
            base_output_directory="gs://bucket/run",
            strategy=self.strategy,
        )
        request = TrainingRequest(
            job=job,
            job_type="custom_job",
            project_id="project",
            placement=PlacementOptions(
                regions=self.regions,
                machine_types=self.options.get("machine_types", ()),
                strategy=self.strategy,
            ),
            base_output_directory="gs://bucket/run",
            budget=Budget(retries=self.retries, max_jobs=self.max_jobs, queue_timeout=self.queue_timeout),
            **{key: value for key, value in self.options.items() if key != "machine_types"},
        )
        log = logging.getLogger("tests.lifecycle")
        task = self.task()
        preparation = LookingAtMemory(
            request=request,
            storage_client=lambda: None,
            check_bucket=lambda _: None,
            log=log,
        )
        preparation.checkpoints = self.checkpoints
        verdicts = Verdicts(
            request=request,
            task=task,
            context={},
            retry_policy=self.retry_policy,
            retry_delay=None,
            log_tail=lambda job, replica: [],
            log=log,
            now=self.platform.time.now,
        )
        return Lifecycle(
            request=request,
            task=task,
            hook=cast(TrainingJobHook, self.platform),
            verdicts=verdicts,
            preparation=preparation,
            log=log,
            now=self.platform.time.now,
            sleep=self.platform.time.sleep,
            owner_try=lambda: self.owner_try,
        )

    def start(self) -> Step:
        return self.lifecycle().start()

    def resume(self, name: str, type: str = "ended") -> Step:
        job = self.platform.jobs.get(name)
        event = TrainingJobEvent(type=type, job_name=name, state=int(job._pb.state) if job else None)
        return self.lifecycle().resumed(event)

    def wait_over(self, carried: Carried | None = None) -> Step:
        return self.lifecycle().waited(carried or Carried())

    def next_try(self) -> Setting:
        self.try_number += 1
        return self

    def clear(self) -> Setting:
        self.max_tries = self.try_number + self.retries
        self.try_number += 1
        return self


class LookingAtMemory(Preparation):
    """Preparation whose storage is a list in memory."""

    checkpoints: Checkpoints

    def look(self, since: pendulum.DateTime | None = None) -> CheckpointScan:
        return self.checkpoints.scan(since)


def environment_of(job: Any) -> dict[str, str]:
    return {item.name: item.value for item in job.job_spec.worker_pool_specs[0].container_spec.env}


__all__: Sequence[str] = ("Checkpoints", "Setting", "environment_of", "replace")
