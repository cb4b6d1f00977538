"""Read all jobs of a task instance from the platform: the ledger's source, in every configured region.

In: who the task is and where its jobs may be. Out: a :class:`Book`. Nothing is concluded from it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pendulum

from airflow_provider.agent_platform.hooks.api_retry import is_gone
from airflow_provider.agent_platform.jobs.identity import TaskIdentity
from airflow_provider.agent_platform.operators.records import is_ours, record_of
from airflow_provider.agent_platform.policy.ledger import JobRecord
from airflow_provider.agent_platform.policy.states import is_live

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

_BEGINNING = pendulum.datetime(1970, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Book:
    """Every job of one task instance.

    :param current: jobs of the current epoch, oldest first.
    :param others: jobs of all other epochs, oldest first.
    :param gone: names that were asked for and do not exist any more.
    """

    current: tuple[JobRecord, ...] = ()
    others: tuple[JobRecord, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def stale(self) -> tuple[JobRecord, ...]:
        """Live jobs of other epochs: a clear came while they were running."""
        return tuple(record for record in self.others if is_live(record.state))

    @property
    def previous(self) -> JobRecord | None:
        """The newest job of the newest epoch before this one."""
        return max(self.others, key=lambda record: (record.epoch, _order(record)), default=None)

    def find(self, name: str) -> JobRecord | None:
        """Return the job with this name, of whatever epoch."""
        return next((record for record in (*self.current, *self.others) if record.name == name), None)


@dataclass(frozen=True, kw_only=True)
class BookReader:
    """Reads the book of one task instance.

    :param hook: talks to the service.
    :param identity: whose jobs.
    :param epoch: which of them are current.
    :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
    :param project_id: where the jobs are.
    :param regions: all regions a job of this task may be in.
    """

    hook: TrainingJobHook
    identity: TaskIdentity
    epoch: int
    job_type: str
    project_id: str
    regions: Sequence[str]

    def read(self, *, also: Iterable[str] = ()) -> Book:
        """List the jobs by label, newest state.

        :param also: names of jobs that must be in the answer even if the list lags behind; each is read by itself.
        """
        found: dict[str, JobRecord] = {}
        for region in self.regions:
            messages = self.hook.list_jobs(
                job_type=self.job_type,
                project_id=self.project_id,
                region=region,
                filter=self.identity.ledger_filter(),
            )
            found.update(
                (message.name, record_of(message))
                for message in messages
                if is_ours(message, key=self.identity.key)
            )
        gone = []
        for name in also:
            # Also when it is listed: the list may be older than the job.
            try:
                found[name] = record_of(self.hook.get(name))
            except Exception as error:
                if not is_gone(error):
                    raise
                found.pop(name, None)
                gone.append(name)
        ordered = sorted(found.values(), key=_order)
        current = [record for record in ordered if record.epoch == self.epoch]
        return Book(
            current=tuple(replace(record, run_index=index) for index, record in enumerate(current)),
            others=tuple(record for record in ordered if record.epoch != self.epoch),
            gone=tuple(gone),
        )


def _order(record: JobRecord) -> tuple[pendulum.DateTime, str]:
    # Names break ties: two processes that read the same two jobs must keep the same one.
    return (record.create_time or _BEGINNING, record.name)
