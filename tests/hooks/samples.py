"""What the tests of the hooks send, and a clock that does not wait."""

from __future__ import annotations

from typing import Any

from airflow_provider.agent_platform.jobs.pools import container_pools
from airflow_provider.agent_platform.jobs.spec import build_custom_job, build_tuning_job

PROJECT, REGION = "my-project", "us-central1"
FOR_EVER = {"EMULATE_RUN_SECONDS": "100000"}


class Time:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)

    def clock(self) -> float:
        return self.now


def custom_job(display_name: str = "train", **arguments: Any) -> dict[str, Any]:
    pools = container_pools(image_uri="gcr.io/p/i:1", machine_type="n1-standard-4", env=FOR_EVER)
    return build_custom_job(display_name=display_name, worker_pool_specs=pools, **arguments)


def tuning_job() -> dict[str, Any]:
    pools = container_pools(image_uri="gcr.io/p/i:1", machine_type="n1-standard-4", env=FOR_EVER)
    study = {
        "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter_id": "x", "double_value_spec": {"min_value": 0.1, "max_value": 1}}],
    }
    return build_tuning_job(
        display_name="tune",
        study_spec=study,
        max_trial_count=2,
        parallel_trial_count=1,
        worker_pool_specs=pools,
    )
