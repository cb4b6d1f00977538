"""Kill the processes that run tasks, one after the other and at random, as a machine without memory does.

In: the scheduler, whose session holds them, and a seed. Out: whom it has killed. Not here: a kill at a chosen
point (``operators.points``), and what becomes of the tasks.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
from types import TracebackType

import psutil

from tests.harness.processes import Component

# Airflow names the process of a task after the task instance. Its supervisor and the executor's workers have other
# names, and are left alone.
_TASK = re.compile(r"^airflow worker -- ([0-9a-f-]{36})$")


class WorkerKiller:
    """Kills for as long as the ``with`` block runs.

    :param scheduler: with the LocalExecutor, all tasks run in its session.
    :param seed: of the pauses and of the choice; which processes there are is up to the machine.
    :param pause: seconds between two kills, at least and at most.
    """

    def __init__(self, scheduler: Component, *, seed: int, pause: tuple[float, float]) -> None:
        self.killed: list[str] = []
        """Ids of the task instances whose process was killed, in order."""
        self._scheduler = scheduler
        self._random = random.Random(seed)
        self._pause = pause
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="worker-killer", daemon=True)

    def __enter__(self) -> WorkerKiller:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._over.wait(self._random.uniform(*self._pause)):
                self._kill_one()
        except BaseException as error:
            self._error = error

    def _kill_one(self) -> None:
        running = task_processes(self._scheduler)
        if running:
            victim = self._random.choice(sorted(running))
            with contextlib.suppress(psutil.NoSuchProcess):
                running[victim].kill()
                self.killed.append(victim)


def task_processes(scheduler: Component) -> dict[str, psutil.Process]:
    """Return the processes that run a task now, by the id of its task instance."""
    found = {}
    for pid in scheduler.members():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            titled = _TASK.match(" ".join(process.cmdline()).strip())
            if titled:
                found[titled.group(1)] = process
    return found
