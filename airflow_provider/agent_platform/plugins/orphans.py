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
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.agent_platform.jobs.identity import LABEL_TI, managed_filter
from airflow_provider.agent_platform.operators.records import state_of
from airflow_provider.agent_platform.plugins import database
from airflow_provider.agent_platform.plugins.ended_task import EndedTask
from airflow_provider.agent_platform.policy.states import JobState, is_live
from airflow_provider.agent_platform.triggers.ownership import STATES, Part
from airflow_provider.agent_platform.triggers.poller import ACTIVE_FILTER
from airflow_provider.agent_platform.triggers.trouble import brief

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

log = logging.getLogger(__name__)

PAUSES: Final = (10.0, 50.0)
"""Seconds before each look. Until the first the task's own trigger or worker has cancelled the job; the second one
finds a job that the list did not show yet, or whose create was still under way."""

READ_MASK: Final = ("name", "state", "labels")


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
        self._collecting = False

    def add(self, task: EndedTask) -> threading.Thread | None:
        """Look after a task; answer the thread when one was started for it."""
        with self._lock:
            self._waiting.add(task)
            if self._collecting:
                return None
            thread = threading.Thread(target=self._run, name="training-job-orphans", daemon=True)
            thread.start()
            self._collecting = True
            return thread

    def _run(self) -> None:
        first, second = PAUSES
        self._sleep(first)
        with self._lock:
            tasks, self._waiting, self._collecting = self._waiting, set(), False
        self._look_after(tasks)
        self._sleep(second)
        self._look_after(tasks)

    def _look_after(self, tasks: set[EndedTask]) -> None:
        try:
            self._look(tasks)
        except Exception:
            log.exception("The jobs of %d ended tasks could not be looked for", len(tasks))


def end_orphans(tasks: Iterable[EndedTask], *, hook: Callable[..., Any] | None = None) -> None:
    """Cancel what still runs for these tasks, if they are still ended. Never raises for one of them.

    :param tasks: those that were ended.
    :param hook: makes a :class:`TrainingJobHook`; injected by tests.
    """
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

    make = hook or TrainingJobHook
    connections: dict[tuple[Any, Any], list[EndedTask]] = defaultdict(list)
    for task in tasks:
        connections[task.where.gcp_conn_id, task.where.impersonation_chain].append(task)
    for (conn_id, chain), group in connections.items():
        try:
            with make(conn_id, chain) as opened:
                _end_in_connection(opened, group)
        except Exception as error:
            _could_not(group, error)


def _end_in_connection(hook: TrainingJobHook, tasks: list[EndedTask]) -> None:
    places: dict[tuple[str, str, str], dict[str, EndedTask]] = defaultdict(dict)
    for task in tasks:
        for region in task.where.regions:
            places[task.where.project_id, region, task.where.job_type][task.where.key] = task
    for (project_id, region, job_type), by_key in places.items():
        try:
            jobs = hook.list_jobs(
                job_type=job_type,
                project_id=project_id,
                region=region,
                # One listing for all of them, however many were ended together.
                filter=f"{managed_filter()} AND {ACTIVE_FILTER}",
                read_mask=READ_MASK,
            )
        except Exception as error:
            _could_not(by_key.values(), error)
        else:
            _end_listed(hook, jobs, by_key)


def _end_listed(hook: TrainingJobHook, jobs: Iterable[Any], by_key: Mapping[str, EndedTask]) -> None:
    for job in jobs:
        task = by_key.get(job.labels.get(LABEL_TI))
        if task is None or not _runs(job):
            continue
        try:
            _end(hook, task, job.name)
        except Exception as error:
            _could_not([task], error)


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
    try:
        database.leave_trace(task, text)
    except Exception as error:  # a busy database is no reason to tell of a cancel that failed
        log.warning("The audit log could not be written: %s", brief(error))


def _runs(job: Any) -> bool:
    state = state_of(job)
    return is_live(state) and state != JobState.CANCELLING


def _could_not(tasks: Iterable[EndedTask], error: Exception) -> None:
    first, *others = tasks
    log.warning(
        "%s%s ended by a user. Whether the job ended too could not be told here: %s. The task's own trigger or worker "
        "cancels it; this look is a second chance, with the identity of the api-server where the connection names none.",
        first,
        f" and {len(others)} more were" if others else " was",
        brief(error),
    )
