"""Hundreds of mapped trainings in one run. Nothing is trained: the emulator's ``simulated`` runner waits.

A run's ``conf`` says how many, and how many seconds of the platform each runs.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator

with DAG("many", schedule=None, catchup=False, max_active_tasks=1000) as many:

    @task
    def environments(dag_run: object = None) -> list[dict[str, str]]:
        """The environment of each training: it runs ``step`` seconds longer than the one before."""
        conf = dag_run.conf  # type: ignore[attr-defined]
        return [
            {"EMULATE_RUN_SECONDS": str(conf["seconds"] + number * conf.get("step", 0))}
            for number in range(conf["count"])
        ]

    ContainerTrainingOperator.partial(
        task_id="train",
        image="python:3",
        command=["train"],
        machine_type="n1-standard-4",
        poll_interval=2,
        retries=20,
        retry_delay=timedelta(seconds=1),
    ).expand(env=environments())
