"""A training service in memory, behind the interface of our own hook: for tests of the lifecycle alone.

It speaks the real messages and raises the real client's errors; how the service itself behaves is the emulator's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pendulum
from google.api_core import exceptions as api
from google.cloud import aiplatform_v1 as v1
from google.rpc import status_pb2

from airflow_provider.agent_platform.jobs.console import JobName

START = pendulum.datetime(2026, 3, 1, 12)


@dataclass
class Time:
    """A clock that only moves when told to, or when somebody sleeps."""

    moment: pendulum.DateTime = START
    slept: list[float] = field(default_factory=list)

    def now(self) -> pendulum.DateTime:
        return self.moment

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.forward(seconds)

    def forward(self, seconds: float) -> None:
        self.moment = self.moment.add(seconds=seconds)


@dataclass
class Platform:
    """Jobs by name; every call is counted."""

    time: Time = field(default_factory=Time)
    jobs: dict[str, Any] = field(default_factory=dict)
    creates: list[str] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    lists: int = 0
    hidden_from_list: int = 0
    """So many List calls do not show the youngest job yet."""
    before_list: dict[str, Exception] = field(default_factory=dict)
    """Raised by List calls whose filter begins with this field."""
    before_create: list[Exception | None] = field(default_factory=list)
    """Raised by the next creates, one each, and nothing is stored; None lets one through."""
    after_create: list[Exception | None] = field(default_factory=list)
    """Raised by the next creates, one each, after the job was stored."""
    on_create: Callable[[Any], None] = lambda _: None

    # -- our hook's interface

    def create(
        self,
        job: Any,
        *,
        project_id: str,
        region: str,
        job_type: str = "custom_job",
        timeout: float | None = None,
    ) -> Any:
        refused = self.before_create.pop(0) if self.before_create else None
        if refused is not None:
            raise refused
        kind, collection = (
            (v1.CustomJob, "customJobs")
            if job_type == "custom_job"
            else (v1.HyperparameterTuningJob, "hyperparameterTuningJobs")
        )
        message: Any = kind(job)
        number = len(self.creates) + 1
        message.name = f"projects/{project_id}/locations/{region}/{collection}/{number:019d}"
        message.state = v1.JobState.JOB_STATE_PENDING
        message.create_time = self.time.now()
        self.jobs[message.name] = message
        self.creates.append(message.name)
        self.on_create(message)
        lost = self.after_create.pop(0) if self.after_create else None
        if lost is not None:
            raise lost
        self.time.forward(1)
        return message

    def get(self, name: str, *, timeout: float | None = None) -> Any:
        if name not in self.jobs:
            raise api.NotFound(f"{name} is not found")  # type: ignore[no-untyped-call]
        return self.jobs[name]

    def list_jobs(
        self,
        *,
        job_type: str = "custom_job",
        project_id: str,
        region: str,
        filter: str = "",
        read_mask: Sequence[str] | None = None,
        page_size: int = 100,
        limit: int = 10_000,
        timeout: float | None = None,
        retry: bool = True,
    ) -> list[Any]:
        self.lists += 1
        if refused := self.before_list.get(filter.partition("=")[0]):
            raise refused
        # Whoever asks for live jobs alone gets those that have ended too: it must not rely on the filter.
        label, _, value = filter.partition(" AND ")[0].removeprefix("labels.").partition("=")
        found = [
            job
            for name, job in self.jobs.items()
            if JobName.parse(name).region == region
            and JobName.parse(name).job_type == job_type
            and job.labels.get(label) == value.strip('"')
        ]
        if self.hidden_from_list > 0 and found:
            self.hidden_from_list -= 1
            found = found[:-1]
        return found[::-1]

    def cancel(self, name: str, *, timeout: float | None = None) -> bool:
        self.cancels.append(name)
        job = self.get(name)
        if int(job.state) in (1, 2, 3):
            job.state = v1.JobState.JOB_STATE_CANCELLING
        return True

    def close(self) -> None:
        """Nothing is open."""

    # -- what the service does with a job

    def run(self, name: str) -> None:
        job = self.jobs[name]
        job.state = v1.JobState.JOB_STATE_RUNNING
        job.start_time = self.time.now()

    def end(self, name: str, state: str, message: str = "", code: int = 0) -> None:
        job = self.jobs[name]
        self.time.forward(60)
        job.state = getattr(v1.JobState, f"JOB_STATE_{state}")
        job.end_time = self.time.now()
        if message or code:
            job.error = status_pb2.Status(code=code, message=message)

    @property
    def live(self) -> list[str]:
        return [name for name, job in self.jobs.items() if int(job.state) in (1, 2, 3, 6, 8, 10)]

    @property
    def last(self) -> Any:
        return self.jobs[self.creates[-1]]
