"""The look at the checkpoints that goes along with a waiting job, from its first RUNNING on.

In: where the checkpoints are, and the views of the wait. Out: a task beside the wait
(:func:`~airflow_provider.agent_platform.checkpoints.watch.watch_checkpoints`), ended with it. The trigger's
module does not import the store before a job runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pendulum


class CheckpointsBeside:
    """Starts the look when the job runs, and ends it with the wait.

    :param base_output_directory: of the job; nothing is started without it.
    :param interval: ``checkpoint_interval`` in seconds; nothing is started without it.
    :param gcp_conn_id: connection of the storage client.
    :param impersonation_chain: as for the job.
    :param log: writes a line: level, text.
    :param ti: the task instance, for the metric's tags.
    """

    __slots__ = ("_arguments", "_task")

    def __init__(
        self,
        *,
        base_output_directory: str | None,
        interval: float | None,
        gcp_conn_id: str,
        impersonation_chain: str | Sequence[str] | None,
        log: Callable[[int, str], object],
        ti: Any,
    ) -> None:
        self._task: asyncio.Task[None] | None = None
        self._arguments: tuple[Any, ...] | None = None
        if base_output_directory and interval:
            self._arguments = (base_output_directory, interval, gcp_conn_id, impersonation_chain, log, ti)

    def start(self, running_since: pendulum.DateTime) -> None:
        """The job runs. Later calls do nothing."""
        if self._arguments is None or self._task is not None:
            return
        from airflow_provider.agent_platform.checkpoints.watch import watch_checkpoints
        from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

        directory, interval, gcp_conn_id, chain, log, ti = self._arguments
        identity = (gcp_conn_id, chain if chain is None or isinstance(chain, str) else tuple(chain))
        hook = TrainingJobHook(gcp_conn_id=gcp_conn_id, impersonation_chain=chain)
        tags = {} if ti is None else {"dag_id": ti.dag_id, "task_id": ti.task_id}
        self._task = asyncio.get_running_loop().create_task(
            watch_checkpoints(
                directory,
                checkpoint_interval=interval,
                running_since=running_since,
                client_factory=hook.storage_client,
                # The client is made in a thread, where a triggerer cannot read a connection.
                prepare=hook.aload_connection,
                identity=identity,
                log=log,
                tags=tags,
            )
        )

    def stop(self) -> None:
        """The wait is over."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
