"""Spot trainings that lose their machines again and again; a test takes them away where the training waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset

from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator

SCRIPT = Path(__file__).resolve().parents[1] / "training" / "count_steps.py"
MODEL = Asset("counted_model", uri="gs://demo-training/checkpoints/preempted")
DAY = "2026-11-30"


def add_partition(context: Any, result: Any) -> None:
    """As docs/checkpoints.md shows it."""
    context["outlet_events"][MODEL].add_partitions(DAY)


# What the training does, and what else the task is told. None of them has a retry.
SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {
    "preempted": ("--steps 60 --save-every 10 --gone-at 15 25 35 45 55", {
        "outlets": [MODEL], "post_execute": add_partition}),
    "never_saved": ("--steps 60 --save-every 10 --gone-at 5", {}),
    "got_stuck": ("--steps 60 --save-every 10 --gone-at 15 15", {}),
    "cut_off": ("--steps 30 --save-every 10 --cut-off-at 20 --gone-at 20", {"discard_incomplete": True}),
}  # fmt: skip

for name, (arguments, options) in SCENARIOS.items():
    with DAG(f"checkpoints_{name}", schedule=None, catchup=False):
        ContainerTrainingOperator(
            task_id="train",
            image="python:3",
            command=["python3", str(SCRIPT)],
            args=arguments.split(),
            machine_type="n1-standard-4",
            strategy="SPOT",
            base_output_directory=f"gs://demo-training/checkpoints/{name}",
            poll_interval=1,
            retries=0,
            **options,
        )
