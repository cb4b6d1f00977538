"""Trainings that run until a file appears, for tests that stop and kill parts of Airflow meanwhile.

A run's ``conf`` names the file, and the point of the lifecycle at which its worker kills itself, once.
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider.agent_platform.operators import points
from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator

WAIT = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.1)"
COMMAND = ["python3", "-c", WAIT]


def killed_once(context: object, options: str) -> None:
    """Before the task starts: arm the kill that the run's conf asks for."""
    point, _, marker = options.partition("@")
    if not point or Path(marker).exists():
        return

    def observe(passed: str) -> None:
        if passed == point:
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    points.observer = observe


class KillableTraining(ContainerTrainingOperator):
    """A training whose worker can be told to die at a point of the lifecycle."""

    template_fields = (*ContainerTrainingOperator.template_fields, "kill_at")

    def __init__(self, *, kill_at: str = "", **kwargs: object) -> None:
        self.kill_at = kill_at
        super().__init__(**kwargs)  # type: ignore[arg-type]

    def pre_execute(self, context: object) -> None:
        """Arm the kill."""
        killed_once(context, self.kill_at)


with DAG("crashes", schedule=None, catchup=False, max_active_runs=16) as crashes:
    KillableTraining(
        task_id="train",
        image="python:3",
        command=COMMAND,
        args=["{{ dag_run.conf['release'] }}"],
        machine_type="n1-standard-4",
        poll_interval=1,
        retries=4,
        retry_delay=timedelta(seconds=1),
        kill_at="{{ dag_run.conf.get('kill_at', '') }}",
    )

with DAG("crashes_plain", schedule=None, catchup=False, max_active_runs=16) as crashes_plain:
    KillableTraining(
        task_id="train",
        image="python:3",
        command=COMMAND,
        args=["{{ dag_run.conf['release'] }}"],
        machine_type="n1-standard-4",
        poll_interval=1,
        retries=4,
        retry_delay=timedelta(seconds=1),
        deferrable=False,
        kill_at="{{ dag_run.conf.get('kill_at', '') }}",
    )
