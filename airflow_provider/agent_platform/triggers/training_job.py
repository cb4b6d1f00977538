"""The trigger a training task waits in. Stateless: everything it knows is in its kwargs and on the platform.

In: a job's name and absolute deadlines. Out: exactly one event (:mod:`.events`). It never fails a task by itself, and it
cancels the job only when a clock ended or when the task was killed by a user.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.agent_platform.triggers.clocks import Clocks
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent, parse_event

__all__ = ["TRIGGER_CLASS_PATH", "TRIGGER_VERSION", "TrainingJobEvent", "TrainingJobTrigger", "parse_event"]

TRIGGER_CLASS_PATH: Final = "airflow_provider.agent_platform.triggers.training_job.TrainingJobTrigger"
"""Stored with every deferred task. Renaming it, or one of the kwargs, strands tasks in flight."""

TRIGGER_VERSION: Final = 1


class TrainingJobTrigger(BaseTrigger):
    """Wait, without a worker slot, until a training job ends or one of its clocks does.

    :param job_name: full resource name, ``projects/../locations/../customJobs/..`` (or ``hyperparameterTuningJobs``).
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: service account, or chain of them, to act as.
    :param poll_interval: seconds between two reads of the state; shared: the smallest of all waiters counts.
    :param queue_deadline: ISO 8601 time by which the job must have been RUNNING once.
    :param run_timeout: seconds from the job's first start.
    :param execution_deadline: ISO 8601 time of Airflow's ``execution_timeout``, which Airflow ignores while deferred.
    :param try_number: the try that deferred; a kill is only obeyed while this try owns the job.
    :param cancel_bound: seconds to wait for the end of a job that was cancelled because a clock ended.
    :param base_output_directory: with ``checkpoint_interval``: where to look for the newest checkpoint.
    :param checkpoint_interval: seconds; warn when the newest checkpoint is older than this while the job runs.
    :param version: format of these kwargs.
    """

    def __init__(
        self,
        job_name: str,
        *,
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        poll_interval: float = 30.0,
        queue_deadline: str | None = None,
        run_timeout: float | None = None,
        execution_deadline: str | None = None,
        try_number: int = 1,
        cancel_bound: float = 300.0,
        base_output_directory: str | None = None,
        checkpoint_interval: float | None = None,
        version: int = TRIGGER_VERSION,
    ) -> None:
        super().__init__()
        self.job_name = job_name
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.poll_interval = poll_interval
        self.queue_deadline = queue_deadline
        self.run_timeout = run_timeout
        self.execution_deadline = execution_deadline
        self.try_number = try_number
        self.cancel_bound = cancel_bound
        self.base_output_directory = base_output_directory
        self.checkpoint_interval = checkpoint_interval
        self.version = version
        self.clocks = Clocks.parse(
            queue_deadline=queue_deadline, run_timeout=run_timeout, execution_deadline=execution_deadline
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Answer the class path and the kwargs that make this trigger again."""
        return TRIGGER_CLASS_PATH, {
            "version": self.version,
            "job_name": self.job_name,
            "gcp_conn_id": self.gcp_conn_id,
            "impersonation_chain": self.impersonation_chain,
            "poll_interval": self.poll_interval,
            "queue_deadline": self.queue_deadline,
            "run_timeout": self.run_timeout,
            "execution_deadline": self.execution_deadline,
            "try_number": self.try_number,
            "cancel_bound": self.cancel_bound,
            "base_output_directory": self.base_output_directory,
            "checkpoint_interval": self.checkpoint_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; then yield one event."""
        raise NotImplementedError
        yield
