"""What a worker does with its job when it is told to stop: leave it for the next try, or cancel it.

In: a SIGTERM, which Airflow turns into ``on_kill``. Out: at most one cancel. Airflow sends the same signal when a user
marks or clears the task, and when a pod is evicted or a worker stops; only Airflow's own state of the task tells
which. A job is left running only when a next try will adopt it. (A deferred task is killed in ``triggers.ownership``.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.hooks.api_retry import is_gone
from airflow_provider.agent_platform.operators.lifecycle import Lifecycle
from airflow_provider.agent_platform.operators.records import state_of
from airflow_provider.agent_platform.operators.task import TaskFacts
from airflow_provider.agent_platform.policy.states import JobState, is_live

STATE_SECONDS: Final = 1.5
"""How long Airflow is asked for the task's state. It may not answer: the signal may have come in the middle of a call."""

KILL_SECONDS: Final = 4.0
"""Airflow sends SIGKILL 5 s after SIGTERM."""

STILL_OURS: Final = frozenset({"running", "queued", "scheduled", "up_for_retry"})
"""States in which nobody has taken the task away from its worker."""


class WorkerStopped(BaseException):
    """The worker was told to stop. The text says what became of the job.

    No ``Exception``: code that treats any failed call as a failed call must not take this for one.
    """


@dataclass(kw_only=True)
class WorkerKill:
    """Decides about the job of one worker process, once.

    :param lifecycle: knows the job, or how to look for it.
    :param task: who is running.
    :param task_state: asks Airflow for the task's state; None when it is gone. May block or raise.
    :param log: the task's log.
    """

    lifecycle: Lifecycle
    task: TaskFacts
    task_state: Callable[[], str | None]
    log: TaskLogger
    requested: bool = False
    outcome: str = ""

    def on_kill(self) -> None:
        """Decide and act within a few seconds. Runs in a signal handler: the main thread stands still meanwhile.

        All work is done in a thread, since the lock that the main thread may hold right now would never be free.
        """
        if self.requested:
            return
        self.requested = True
        worker = threading.Thread(target=self._run, name="training-job-kill", daemon=True)
        worker.start()
        worker.join(KILL_SECONDS)

    def after_create(self, job_name: str) -> None:
        """Called when a create has answered: a kill that came while it was in flight is made good.

        :param job_name: the job just made.
        """
        if self.requested and not self._is_left():
            self._cancel([job_name])

    def out_of_time(self) -> list[str]:
        """Cancel what runs because ``execution_timeout`` ended in the worker; return the names, oldest first.

        Read from the platform: the alarm may have interrupted a create, and then no name is known here.
        """
        names = self.lifecycle.running()
        self._cancel(names, "The time of the task is over")
        return names

    def check(self) -> None:
        """Stop a wait of the plain mode once a kill was asked for.

        :raises WorkerStopped: it was.
        """
        if self.requested:
            raise WorkerStopped(self.outcome or "The worker was told to stop.")

    def _run(self) -> None:
        try:
            if self._is_left():
                return
            names = self._names()
            self._cancel(names)
            if not names:
                self.outcome = "The worker was told to stop; this task has no live job on the platform."
        except Exception:
            self.log.exception("The job could not be cancelled; the next try, or a clear, ends or adopts it.")

    def _is_left(self) -> bool:
        state = self._state()
        killed = state is not UNKNOWN and state not in STILL_OURS
        if killed or not self.task.another_try_comes:
            return False
        self.outcome = (
            f"The worker was told to stop while the task was {state}. "
            f"{self.lifecycle.job_name or 'The job, if one was created,'} goes on, and the next try adopts it."
        )
        self.log.warning("%s", self.outcome)
        return True

    def _state(self) -> Any:
        answer: list[Any] = []

        def ask() -> None:
            try:
                answer.append(self.task_state())
            except Exception as error:
                self.log.debug("Airflow did not tell the task's state: %s", error)

        thread = threading.Thread(target=ask, name="training-job-state", daemon=True)
        thread.start()
        thread.join(STATE_SECONDS)
        return answer[0] if answer else UNKNOWN

    def _names(self) -> list[str]:
        if self.lifecycle.job_name is not None and not self.lifecycle.creating:
            return [self.lifecycle.job_name]
        book = self.lifecycle.reader.read()
        return [record.name for record in book.current if is_live(record.state)]

    def _cancel(self, names: list[str], why: str = "The task was killed") -> None:
        for name in names:
            try:
                state = state_of(self.lifecycle.hook.get(name))
                if is_live(state) and state != JobState.CANCELLING:
                    self.lifecycle.hook.cancel(name)
                    self.outcome = f"{why}: {name} was cancelled."
                    self.log.warning("%s", self.outcome)
            except Exception as error:
                if not is_gone(error):
                    raise


class _Unknown:
    def __repr__(self) -> str:
        return "in a state Airflow did not tell"


UNKNOWN: Final = _Unknown()


def task_state_of(context: Any) -> Callable[[], str | None]:
    """Return a function that asks Airflow for the task's state, None when the task instance is gone.

    :param context: the task's context.
    """
    ti = context["ti"]

    def ask() -> str | None:
        from airflow.sdk.execution_time.comms import GetTaskStates
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

        map_index = ti.map_index if ti.map_index is not None and ti.map_index >= 0 else None
        answer = SUPERVISOR_COMMS.send(
            GetTaskStates(dag_id=ti.dag_id, map_index=map_index, task_ids=[ti.task_id], run_ids=[ti.run_id])
        )
        states = getattr(answer, "task_states", {}).get(ti.run_id, {})
        return next((str(state) for state in states.values()), None)

    return ask
