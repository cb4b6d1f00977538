"""Cancel the jobs of tasks that a user has ended, where nobody else has done it: a second chance, in the api-server.

In: tasks that were ended. Out: one cancel for each job of theirs that still runs some seconds later. The first chance is the
task's own: its trigger (``triggers.kill``) or its worker (``operators.killing``). Calls to Google are made in one thread
for all tasks that were ended together; a thread that the end of the api-server takes with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.agent_platform.jobs.identity import LABEL_TI, TaskIdentity, managed_filter
from airflow_provider.agent_platform.operators.records import state_of
from airflow_provider.agent_platform.plugins import database
from airflow_provider.agent_platform.policy.states import JobState, is_live
from airflow_provider.agent_platform.triggers.ownership import STATES, Part
from airflow_provider.agent_platform.triggers.poller import ACTIVE_FILTER
from airflow_provider.agent_platform.triggers.trouble import brief

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 10.0
"""Seconds in which the task's own trigger or worker cancels the job."""

JOB_TYPES: Final = ("custom_job", "hyperparameter_tuning_job")

READ_MASK: Final = ("name", "state", "labels")


@dataclass(frozen=True, kw_only=True)
class EndedTask:
    """A task instance that was ended, and where its jobs may be.

    :param dag_id: with ``run_id``, ``task_id`` and ``map_index``: which one.
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: as the operator's.
    :param project_id: None is the connection's.
    :param regions: None among them is the connection's.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    gcp_conn_id: str
    impersonation_chain: str | tuple[str, ...] | None
    project_id: str | None
    regions: tuple[str | None, ...]

    def identity(self, deployment: str) -> TaskIdentity:
        """Return who its jobs belong to."""
        return TaskIdentity(
            dag_id=self.dag_id,
            run_id=self.run_id,
            task_id=self.task_id,
            map_index=self.map_index,
            deployment=deployment,
        )

    def __str__(self) -> str:
        mapped = f" [{self.map_index}]" if self.map_index >= 0 else ""
        return f"task {self.task_id}{mapped} of DAG {self.dag_id}, run {self.run_id}"


class Sweep:
    """Collects tasks for some seconds, then looks after all of them in one thread.

    :param look: does so.
    :param sleep: waits; injected by tests.
    """

    def __init__(
        self,
        look: Callable[[Iterable[EndedTask]], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._look = look or end_orphans
        self._sleep = sleep
        self._lock = threading.Lock()
        self._waiting: set[EndedTask] = set()

    def add(self, task: EndedTask) -> threading.Thread | None:
        """Look after a task; answer the thread when one was started for it."""
        with self._lock:
            first = not self._waiting
            self._waiting.add(task)
        if not first:
            return None
        thread = threading.Thread(target=self._run, name="training-job-orphans", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        self._sleep(GRACE_SECONDS)
        with self._lock:
            tasks, self._waiting = self._waiting, set()
        try:
            self._look(tasks)
        except Exception:
            log.exception("The jobs of %d ended tasks could not be looked for", len(tasks))


def end_orphans(tasks: Iterable[EndedTask], *, hook: Callable[..., Any] | None = None) -> None:
    """Cancel what still runs for these tasks, if they are still ended.

    :param tasks: those that were ended.
    :param hook: makes a :class:`TrainingJobHook`; injected by tests.
    """
    from airflow_provider.agent_platform import settings
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

    make = hook or TrainingJobHook
    deployment = settings.current().deployment
    connections: dict[tuple[Any, Any], list[EndedTask]] = defaultdict(list)
    for task in tasks:
        connections[task.gcp_conn_id, task.impersonation_chain].append(task)
    for (conn_id, chain), group in connections.items():
        try:
            with make(conn_id, chain) as opened:
                _end_in_connection(opened, group, deployment)
        except Exception as error:
            _could_not(group, error)


def _end_in_connection(hook: TrainingJobHook, tasks: list[EndedTask], deployment: str) -> None:
    places: dict[tuple[str, str], dict[str, EndedTask]] = defaultdict(dict)
    for task in tasks:
        key = task.identity(deployment).key
        for region in task.regions:
            try:
                places[hook.project_id(task.project_id), hook.region(region)][key] = task
            except Exception as error:
                _could_not([task], error)
    for (project_id, region), by_key in places.items():
        try:
            for task, name in _live_jobs(hook, project_id, region, by_key):
                _end(hook, task, name)
        except Exception as error:
            _could_not(by_key.values(), error)


def _live_jobs(
    hook: TrainingJobHook, project_id: str, region: str, by_key: Mapping[str, EndedTask]
) -> list[tuple[EndedTask, str]]:
    return [
        (by_key[job.labels[LABEL_TI]], job.name)
        for job_type in JOB_TYPES
        for job in hook.list_jobs(
            job_type=job_type,
            project_id=project_id,
            region=region,
            # One listing for all of them, however many were ended together.
            filter=f"{managed_filter()} AND {ACTIVE_FILTER}",
            read_mask=READ_MASK,
        )
        if job.labels.get(LABEL_TI) in by_key and _runs(job)
    ]


def _end(hook: TrainingJobHook, task: EndedTask, name: str) -> None:
    # Asked after the job was listed: a task that was cleared since has a try that looks after this job itself, and a
    # job of that try cannot be in the list.
    exists, state = database.task_state(task)
    if exists and STATES.get(state) is not Part.KILLED:
        return
    if not _runs(hook.get(name)) or not hook.cancel(name):
        return
    text = f"{name} still ran after its task had ended ({state if exists else 'deleted'}): cancelled it."
    log.warning("%s: %s", task, text)
    database.leave_trace(task, text)


def _runs(job: Any) -> bool:
    state = state_of(job)
    return is_live(state) and state != JobState.CANCELLING


def _could_not(tasks: Iterable[EndedTask], error: Exception) -> None:
    for task in tasks:
        log.warning(
            "%s was ended by a user. Whether its job ended too could not be told here: %s. Its trigger or worker cancels "
            "it; this look is a second chance, with the identity of the api-server where the connection names none.",
            task,
            brief(error),
        )
