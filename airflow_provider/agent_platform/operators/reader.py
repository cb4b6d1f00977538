"""Read all jobs of a task instance from the platform: the ledger's source, in every configured region.

In: who the task is and where its jobs may be. Out: a :class:`Book`. Nothing is concluded from it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pendulum

from airflow_provider.agent_platform.hooks.api_retry import is_gone
from airflow_provider.agent_platform.operators.records import is_ours, record_of
from airflow_provider.agent_platform.operators.task import TaskFacts
from airflow_provider.agent_platform.policy.epochs import current_epoch
from airflow_provider.agent_platform.policy.ledger import JobRecord
from airflow_provider.agent_platform.policy.states import JobState, is_live

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

_BEGINNING = pendulum.datetime(1970, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Book:
    """Every job of one task instance.

    :param current: jobs of the current epoch, oldest first.
    :param others: jobs of all other epochs, oldest first.
    :param epoch: the current one.
    :param gone: names that were asked for and do not exist any more.
    :param messages: the jobs by name, as the service told them.
    """

    current: tuple[JobRecord, ...] = ()
    others: tuple[JobRecord, ...] = ()
    epoch: int = 0
    gone: tuple[str, ...] = ()
    messages: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stale(self) -> tuple[JobRecord, ...]:
        """Live jobs of other epochs: a clear came while they were running."""
        return tuple(record for record in self.others if is_live(record.state))

    def successor(self, try_number: int) -> JobRecord | None:
        """Return a running job of another epoch that a *later* try has made: this one is over, whatever it still does.

        :param try_number: of the try that asks.
        """
        later = (record for record in self.stale if record.try_number > try_number)
        return next((record for record in later if record.state != JobState.CANCELLING), None)

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
    :param task: whose jobs, in which try.
    :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
    :param project_id: where the jobs are.
    :param regions: all regions a job of this task may be in.
    """

    hook: TrainingJobHook
    task: TaskFacts
    job_type: str
    project_id: str
    regions: Sequence[str]

    def read(self, *, also: Iterable[str] = ()) -> Book:
        """List the jobs by label, newest state.

        :param also: names of jobs that must be in the answer even if the list lags behind; each is read by itself.
        """
        messages: dict[str, Any] = {}
        for region in self.regions:
            listed = self.hook.list_jobs(
                job_type=self.job_type,
                project_id=self.project_id,
                region=region,
                filter=self.task.identity.ledger_filter(),
            )
            messages.update(
                (message.name, message) for message in listed if is_ours(message, key=self.task.identity.key)
            )
        gone = []
        for name in also:
            # Also when it is listed: the list may be older than the job.
            try:
                messages[name] = self.hook.get(name)
            except Exception as error:
                if not is_gone(error):
                    raise
                messages.pop(name, None)
                gone.append(name)
        ordered = sorted(map(record_of, messages.values()), key=_order)
        epoch = current_epoch(ordered, max_tries=self.task.max_tries, first_guess=self.task.epoch)
        current = [record for record in ordered if record.epoch == epoch]
        return Book(
            current=tuple(replace(record, run_index=index) for index, record in enumerate(current)),
            others=tuple(record for record in ordered if record.epoch != epoch),
            epoch=epoch,
            gone=tuple(gone),
            messages=messages,
        )


def _order(record: JobRecord) -> tuple[pendulum.DateTime, str]:
    # Names break ties: two processes that read the same two jobs must keep the same one.
    return (record.create_time or _BEGINNING, record.name)
