"""A task's context without a supervisor: what our operators read of it, and XComs in a dict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow.sdk.bases.operator import ExecutorSafeguard

from airflow_provider.agent_platform.operators.base import TrainingJobBaseOperator


def context_of(
    operator: TrainingJobBaseOperator,
    *,
    run_id: str = "run",
    try_number: int = 1,
    max_tries: int | None = None,
    xcoms: dict[str, Any] | None = None,
) -> Any:
    """Return the context of one try; ``execute`` may be called with it in this thread.

    :param max_tries: as the server counts; default: the task's retries, as before any clear.
    :param xcoms: filled with what the operator pushes.
    """
    store = {} if xcoms is None else xcoms
    ti = SimpleNamespace(
        dag_id=operator.dag_id,
        run_id=run_id,
        task_id=operator.task_id,
        map_index=-1,
        try_number=try_number,
        max_tries=operator.retries if max_tries is None else max_tries,
        start_date=None,
        task=operator,
        xcom_push=lambda key, value: store.__setitem__(key, value),
        xcom_pull=lambda key, **_: store.get(key),
    )
    ExecutorSafeguard.tracker.set(operator)
    return {"ti": ti, "task": operator}
