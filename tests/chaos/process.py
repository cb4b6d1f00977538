"""One process of a crash test: one start or one resume of the operator, which may be told to die on the way.

Imported by the fork server, so that a process costs a fork and not the import of Airflow and of Google's client.
"""

from __future__ import annotations

import os
from typing import Any

import google.cloud.aiplatform_v1  # noqa: F401 - imported before the fork, or each process would pay a second for it
from airflow.sdk import DAG
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider.agent_platform.operators import points, submission
from airflow_provider.agent_platform.operators.custom_job import CustomJobOperator
from tests.chaos.world import die
from tests.operators.context import context_of

CONNECTION = '{"conn_type": "google_cloud_platform", "extra": {"project": "chaos", "region": "us-central1"}}'


def main(task: dict[str, Any], sender: Any) -> None:
    """Run one step of the task and tell how it ended."""
    os.environ["AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT"] = CONNECTION
    os.environ["AGENT_PLATFORM_EMULATOR_HOST"] = task["grpc_target"]
    crash = task["crash"]
    seen: dict[str, int] = {}

    def observe(point: str) -> None:
        seen[point] = seen.get(point, 0) + 1
        sender.send({"point": point})
        if crash is not None and point == crash[0] and seen[point] == crash[1]:
            die()

    points.observer = observe
    # The emulator's List does not lag, so that a job that was not stored need not be looked for so long.
    submission.SEARCH_SECONDS = 2.0
    sender.send(_step(task))
    sender.close()


def _step(task: dict[str, Any]) -> dict[str, Any]:
    with DAG("chaos", schedule=None):
        operator = CustomJobOperator(task_id="train", retries=task["retries"], **task["arguments"])
    context = context_of(
        operator, run_id=task["run_id"], try_number=task["try_number"], max_tries=task["max_tries"]
    )
    ti = context["ti"]
    try:
        if task["method"] == "execute":
            result = operator.execute(context)
        else:
            result = operator.resume_execution(task["method"], task["kwargs"], context)
    except TaskDeferred as deferred:
        return {
            "how": "deferred",
            "method": deferred.method_name,
            "kwargs": deferred.kwargs or {},
            "trigger": deferred.trigger.serialize()[1],
        }
    except Exception as error:
        policy = operator.retry_policy
        assert policy is not None
        answer = policy.evaluate(error, ti.try_number, ti.max_tries, context)
        tries_left = ti.try_number <= ti.max_tries
        how = "failed" if answer.action is RetryAction.FAIL or not tries_left else "retry"
        return {"how": how, "error": f"{type(error).__name__}: {error}"}
    return {"how": "success", "result": result}
