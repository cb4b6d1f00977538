"""One DAG for each way a training can end badly; a test arms the emulator's faults by the name of the DAG."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator
from airflow_provider.agent_platform.policy.failures import FailureRule

# What the training does, how often Airflow may retry it, and what else the task is told.
SCENARIOS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "exit_1": ("raise SystemExit(1)", 3, {}),
    "abort_retries_3": ("import os; os._exit(134)", 3, {}),
    "abort_retries_5": ("import os; os._exit(134)", 5, {}),
    "internal_error": ("pass", 1, {}),
    "unknown_text": ("pass", 2, {}),
    "stockout": ("pass", 0, {"fallback_regions": ["europe-west4"]}),
    "quota_refused": ("pass", 0, {}),
    "cancelled_outside": ("import time; time.sleep(600)", 3, {}),
    "rule_requeues": ("raise SystemExit(75)", 0, {
        "failure_rules": [FailureRule(exit_codes=[75], action="requeue", delay=1)], "max_jobs": 3}),
    "plain_mode": ("pass", 0, {"deferrable": False}),
    "queue_timeout": ("pass", 2, {"queue_timeout": timedelta(seconds=8)}),
    "run_timeout": ("import time; time.sleep(600)", 2, {"run_timeout": timedelta(seconds=6)}),
}  # fmt: skip

for name, (code, retries, options) in SCENARIOS.items():
    with DAG(f"failure_{name}", schedule=None, catchup=False, max_active_runs=8):
        ContainerTrainingOperator(
            task_id="train",
            image="python:3",
            command=["python3", "-c", code],
            machine_type="n1-standard-4",
            poll_interval=1,
            retries=retries,
            retry_delay=timedelta(seconds=1),
            **options,
        )
