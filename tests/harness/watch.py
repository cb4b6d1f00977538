"""Follow a run of ``train_digits`` and tell a person what happens, as it happens.

In: a running set-up and the id of a run. Out: one line for each thing that changed; the machine of the
first job is taken away on the way. Not here: processes (``laptop``) and the summary (``demo``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.harness.laptop import PROJECT, REGION, Laptop
from tests.harness.machine_loss import resumed_from, saved_steps, stopped_at, take_machine_away

DAG_ID = "train_digits"

# The machine goes when this many steps are in a checkpoint: well before the end, well after the start.
_LOSE_MACHINE_AFTER = 100

# Airflow's answers cost more than the emulator's, and change less often.
_AIRFLOW_EVERY = 1.0


class Watch:
    """What has been told about one run so far.

    :param laptop: the running set-up.
    :param run_id: the run of the DAG.
    :param say: takes one line.
    """

    def __init__(self, laptop: Laptop, run_id: str, say: Callable[[str], None]) -> None:
        self._laptop = laptop
        self._run_id = run_id
        self._say = say
        self._told: dict[str, Any] = {}
        self._next_airflow = 0.0
        self._machine_lost = False

    def look(self) -> None:
        """Look once, tell what is new; raises when a process has died."""
        self._laptop.check()
        for number, job in enumerate(self._laptop.services.api.jobs(PROJECT, REGION), start=1):
            self._look_at_job(number, job)
        if time.monotonic() >= self._next_airflow:
            self._next_airflow = time.monotonic() + _AIRFLOW_EVERY
            for task in self._laptop.airflow.api.task_instances(DAG_ID, self._run_id):
                self._tell(f"task {task['task_id']}", task["state"] or "waiting")

    def _look_at_job(self, number: int, job: dict[str, Any]) -> None:
        who = f"job {number}"
        lines = self._laptop.services.api.log_lines(PROJECT, job["name"])
        step = resumed_from(lines)
        if step is not None and self._is_news(f"{who} resumed", step):
            self._say(f"{who:<15} RESUMED from step {step}")
        saved = saved_steps(lines)
        if saved:
            self._tell(who, f"saved checkpoints up to step {max(saved)}", key=f"{who} saved")
        if number == 1 and not self._machine_lost and saved and max(saved) >= _LOSE_MACHINE_AFTER:
            self._machine_lost = True
            take_machine_away(self._laptop.services.api, job)
            self._say(f"{who:<15} its Spot machine is taken away, and the region has no other for it")
        step = stopped_at(lines)
        if step is not None and self._is_news(f"{who} stopped", step):
            self._say(f"{who:<15} PREEMPTED at step {step}")
        for event in self._laptop.services.api.events(job["name"])[self._told.get(f"{who} events", 0) :]:
            self._told[f"{who} events"] = self._told.get(f"{who} events", 0) + 1
            if event["kind"] == "state":
                self._say(f"{who:<15} {event['state'].removeprefix('JOB_STATE_')}")
            elif event["kind"] == "run" and event["run"] > 1:
                self._say(f"{who:<15} the service looks for another machine (run {event['run']})")
        message = job.get("error", {}).get("message")
        if message and self._is_news(f"{who} error", message):
            self._say(f"{who:<15} error: {message}")

    def _tell(self, who: str, what: str, *, key: str = "") -> None:
        if self._is_news(key or who, what):
            self._say(f"{who:<15} {what}")

    def _is_news(self, key: str, value: object) -> bool:
        if self._told.get(key) == value:
            return False
        self._told[key] = value
        return True
