"""The trigger a sensor waits in: any job, by name or by labels, also one that is not ours.

In: a name, or labels and a place. Out: one event (:mod:`.events`) when the job has ended. It never cancels
anything, whatever happens to the sensor; its timeout is Airflow's own, of the deferral. It shares the poll
loops of :mod:`.training_job`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.agent_platform.triggers import events, log_lines
from airflow_provider.agent_platform.triggers.clocks import Clocks, Now, utcnow
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from airflow_provider.agent_platform.triggers.poller import Poller
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import HookReader, PollKey, ReaderFactory, chain_key
from airflow_provider.agent_platform.triggers.subscription import JobGoneError
from airflow_provider.agent_platform.triggers.training_job import TriggerArgumentsError
from airflow_provider.agent_platform.triggers.trouble import Outage, PollRefusedError
from airflow_provider.agent_platform.triggers.view import JobView
from airflow_provider.agent_platform.triggers.watch import QUIET_SECONDS, JobWatch

SENSOR_TRIGGER_CLASS_PATH: Final = (
    "airflow_provider.agent_platform.triggers.training_job_sensor.TrainingJobSensorTrigger"
)
"""Stored with every deferred sensor. Renaming it, or one of the kwargs, strands tasks in flight."""

SENSOR_TRIGGER_VERSION: Final = 1


def labels_filter(labels: Mapping[str, str]) -> str:
    """Answer the List filter for jobs that carry all these labels."""
    return " AND ".join(f'labels.{key}="{value}"' for key, value in sorted(labels.items()))


class TrainingJobSensorTrigger(BaseTrigger):
    """Wait until a job has ended, however it was made.

    :param job_name: full resource name; or
    :param labels: the newest job that carries all of these, once there is one. If a newer one has appeared by
        the time it ends, that one is waited for.
    :param job_type: kind of job the labels are looked for on: ``custom_job`` or
        ``hyperparameter_tuning_job``.
    :param project_id: project to look in; only with labels.
    :param region: region to look in; only with labels.
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: service account, or chain of them, to act as.
    :param poll_interval: seconds between two reads.
    :param version: format of these kwargs.
    :raises TriggerArgumentsError: neither or both of name and labels, or no place.
    """

    now: Now = staticmethod(utcnow)
    """The clock. Not a kwarg: it cannot be stored."""

    quiet: float = QUIET_SECONDS
    """Seconds after the start in which no event is fired."""

    reader_factory: ReaderFactory = HookReader
    """Makes the calls."""

    def __init__(
        self,
        *,
        job_name: str | None = None,
        labels: Mapping[str, str] | None = None,
        job_type: str = "custom_job",
        project_id: str | None = None,
        region: str | None = None,
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        poll_interval: float = 60.0,
        version: int = SENSOR_TRIGGER_VERSION,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is not annotated
        if version != SENSOR_TRIGGER_VERSION:
            raise TriggerArgumentsError(f"format {version!r} is not known, only {SENSOR_TRIGGER_VERSION} is")
        if bool(job_name) == bool(labels):
            raise TriggerArgumentsError("give exactly one of job_name and labels")
        if labels and not (project_id and region):
            raise TriggerArgumentsError("labels need a project_id and a region to look in")
        self.job_name = job_name
        self.labels = dict(labels) if labels else None
        self.job_type = job_type
        self.project_id = project_id
        self.region = region
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.poll_interval = poll_interval
        self.version = version
        if job_name:
            try:
                self._key_of(job_name)
            except ValueError as error:
                raise TriggerArgumentsError(str(error)) from error

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Answer the class path and the kwargs that make this trigger again."""
        return SENSOR_TRIGGER_CLASS_PATH, {
            "version": self.version,
            "job_name": self.job_name,
            "labels": self.labels,
            "job_type": self.job_type,
            "project_id": self.project_id,
            "region": self.region,
            "gcp_conn_id": self.gcp_conn_id,
            "impersonation_chain": self.impersonation_chain,
            "poll_interval": self.poll_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; then yield one event."""
        event = await (self._follow(self.job_name) if self.job_name else self._follow_newest())
        yield TriggerEvent(event.to_dict())  # type: ignore[no-untyped-call]  # Airflow's is not annotated

    # --- inside --------------------------------------------------------------------------------

    async def _follow_newest(self) -> TrainingJobEvent:
        key = PollKey(
            gcp_conn_id=self.gcp_conn_id,
            impersonation_chain=chain_key(self.impersonation_chain),
            project=self.project_id or "",
            region=self.region or "",
            job_type=self.job_type,
        )
        with poller_for(key, reader_factory=self.reader_factory).hold() as poller:
            name: str | None = None
            event: TrainingJobEvent | None = None
            while True:
                try:
                    newest = await self._newest(poller, urgent=event is not None)
                except PollRefusedError as error:
                    return TrainingJobEvent(
                        type=events.REFUSED,
                        job_name=name or labels_filter(self.labels or {}),
                        error_code=error.code,
                        message=error.message,
                    )
                if event is not None and (newest is None or newest.name == name):
                    return event
                if newest is None:
                    await asyncio.sleep(self.poll_interval)
                    continue
                name = newest.name
                event = await self._follow(name)

    async def _newest(self, poller: Poller, *, urgent: bool) -> JobView | None:
        found = f"jobs with {labels_filter(self.labels or {})}"
        outage = Outage(found, self.log)
        while True:
            try:
                return await poller.newest(labels_filter(self.labels or {}), urgent=urgent)
            except Exception as error:
                refused = outage.failed(error, asyncio.get_running_loop().time())
                if refused is not None:
                    raise refused from error
                await asyncio.sleep(self.poll_interval)

    async def _follow(self, job_name: str) -> TrainingJobEvent:
        # No clocks: the timeout of a sensor is Airflow's, and a sensor ends nobody's job.
        watch = JobWatch(job_name, clocks=Clocks(), cancel_bound=0.0, began=self.now(), quiet=self.quiet)
        poller = poller_for(self._key_of(job_name), reader_factory=self.reader_factory)
        with poller.subscribe(job_name, interval=self.poll_interval) as subscription:
            while True:
                step = watch.step(self.now())
                for line in watch.take_lines():
                    await log_lines.write(self.log, line.level, line.text)
                if step.event is not None:
                    return step.event
                try:
                    view = await subscription.next(until=step.until, now=self.now())
                except JobGoneError as error:
                    watch.gone(str(error))
                except PollRefusedError as error:
                    watch.refused(error.code, error.message)
                else:
                    if view is not None:
                        watch.observe(view, self.now())

    def _key_of(self, job_name: str) -> PollKey:
        return PollKey.of(
            job_name, gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain
        )
