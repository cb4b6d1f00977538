"""A real triggerer, and what it costs: processor time and memory of its processes, what its logs say.

In: an Airflow stack, of which nothing else need run: a triggerer reads and writes the database by itself. Out:
figures. What it runs is put into the database before (``deferred_tasks``).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil
import sqlalchemy

from tests.benchmarks.deferred_tasks import DAG_ID
from tests.harness.airflow_stack import AirflowStack
from tests.harness.processes import Component
from tests.harness.waiting import wait_until

_BLOCKED = re.compile(r"^(\S+) .*async thread was blocked for ([\d.]+) seconds")


@dataclass(frozen=True)
class Spent:
    """Seconds of processor time: of the process with the database, and of the one that runs the triggers."""

    supervisor: float
    runner: float

    def since(self, before: Spent, seconds: float) -> dict[str, float]:
        """Return what was spent since an earlier look, for a minute."""
        supervisor = (self.supervisor - before.supervisor) * 60 / seconds
        runner = (self.runner - before.runner) * 60 / seconds
        return {"cpu_s_per_min": supervisor + runner, "runner_cpu_s_per_min": runner}


class MeasuredTriggerer:
    """One triggerer that runs; made by :func:`running_triggerer`."""

    def __init__(self, stack: AirflowStack, component: Component) -> None:
        self._component = component
        self._logs = stack.home / "logs" / f"dag_id={DAG_ID}"
        self._log_begins = component.log.stat().st_size if component.log.exists() else 0
        self.started_at = time.time()

    def wait_until_all_said(self, run_id: str, word: str, count: int, seconds: float) -> float:
        """Wait until the log of every task of a run holds a word; answer when the last one said it.

        :return: seconds since the triggerer was started.
        """
        said: dict[int, float] = {}

        def look() -> bool:
            said.update(self.said(run_id, word, skip=said))
            return len(said) == count

        try:
            wait_until(look, f"{word!r} in the logs", seconds=seconds, every=1.0, watch=self._component.check)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {len(said)} of {count}\n{self._component.tail()}") from None
        return max(said.values()) - self.started_at

    def said(self, run_id: str, word: str, skip: Container[int] = ()) -> dict[int, float]:
        """Return when the tasks of a run first said a word in their logs, by map index.

        :param skip: map indexes that need not be looked at.
        """
        found = {}
        for path in (self._logs / f"run_id={run_id}").glob("task_id=*/map_index=*/*.log"):
            index = int(path.parent.name.partition("=")[2])
            if index not in skip and (moment := _said_at(path, word)) is not None:
                found[index] = moment
        return found

    def spent(self) -> Spent:
        """Return the processor time up to now, of children that have ended too."""
        (supervisor, runner) = (self._times(pid) for pid in self._pids())
        return Spent(supervisor, runner)

    def memory_mb(self) -> dict[str, float]:
        """Return the resident memory of both processes."""
        supervisor, runner = (psutil.Process(pid).memory_info().rss / 1e6 for pid in self._pids())
        return {"supervisor_mb": supervisor, "runner_mb": runner}

    def blocked(self, begin: float = 0.0) -> dict[str, float]:
        """Return how often Airflow warned that the event loop was held, and for how long at most.

        :param begin: warnings before this moment are left out.
        """
        with self._component.log.open(errors="replace") as log:
            log.seek(self._log_begins)
            found = [match for line in log if (match := _BLOCKED.match(line))]
        held = [float(match[2]) for match in found if _seconds(match[1]) >= begin]
        return {"blocked_warnings": len(held), "blocked_most_s": max(held, default=0.0)}

    def _pids(self) -> tuple[int, int]:
        supervisor = self._component.pid
        (runner,) = (pid for pid in self._component.members() if pid != supervisor)
        return supervisor, runner

    @staticmethod
    def _times(pid: int) -> float:
        return float(sum(psutil.Process(pid).cpu_times()[:4]))


@contextmanager
def running_triggerer(stack: AirflowStack) -> Iterator[MeasuredTriggerer]:
    """Start a triggerer; afterwards stop it and forget all deferred tasks."""
    component = stack.component("triggerer")
    component.env = dict(stack.env)  # as it is now: the servers of each measurement have other ports
    measured = MeasuredTriggerer(stack, component)
    component.start()
    try:
        yield measured
    finally:
        component.stop()
        with _database(stack).begin() as connection:
            connection.execute(
                sqlalchemy.text("UPDATE task_instance SET state = 'success', trigger_id = NULL")
            )
            connection.execute(sqlalchemy.text("DELETE FROM trigger"))


def scheduled(stack: AirflowStack, run_id: str) -> dict[int, datetime]:
    """Return when the tasks of a run were scheduled to go on, by map index; those that were not are left out."""
    question = sqlalchemy.text(
        "SELECT map_index, scheduled_dttm FROM task_instance WHERE run_id = :run_id AND state = 'scheduled'"
    )
    with _database(stack).connect() as connection:
        return {row[0]: row[1] for row in connection.execute(question, {"run_id": run_id})}


def _database(stack: AirflowStack) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(stack.env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])


def _said_at(path: Path, word: str) -> float | None:
    for line in path.read_text(errors="replace").splitlines():
        if word in line:
            return _seconds(json.loads(line)["timestamp"])
    return None


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
