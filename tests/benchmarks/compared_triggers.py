"""Triggers that ours is measured beside: one that only sleeps, and the google provider's.

They are importable by a real triggerer, which makes them from a stored class path. The google provider's is led
to a local server: everything else of it runs as it is. Not here: how they are measured.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

SLEEPING = "tests.benchmarks.compared_triggers.SleepingTrigger"
GOOGLES = "tests.benchmarks.compared_triggers.google_trigger"


class SleepingTrigger(BaseTrigger):
    """The least a trigger can do.

    :param seconds: how long it sleeps.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is not annotated
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return SLEEPING, {"seconds": self.seconds}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(self.seconds)
        yield TriggerEvent({})  # type: ignore[no-untyped-call]  # Airflow's is not annotated


def why_not_google() -> str | None:
    """Return why the google provider's trigger cannot be measured here; ``None`` when it can."""
    try:
        found = importlib.util.find_spec("airflow.providers.google") is not None
    except ModuleNotFoundError:
        found = False
    return None if found else "apache-airflow-providers-google is not installed"


def google_trigger(target: str, job_name: str, poll_interval: float) -> Any:
    """Make the google provider's ``CustomJobTrigger`` for a job of a local server.

    Its hook makes a client for each trigger, as it does; only the channel is another one: without TLS, to the
    local server.

    :param target: address of the server.
    :param job_name: full resource name.
    :param poll_interval: seconds.
    """
    import grpc.aio
    from airflow.providers.google.cloud.hooks.vertex_ai.custom_job import (  # type: ignore[import-not-found, unused-ignore]
        CustomJobAsyncHook,
    )
    from airflow.providers.google.cloud.triggers.vertex_ai import (  # type: ignore[import-not-found, unused-ignore]
        CustomJobTrigger,
    )
    from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
    from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
        JobServiceGrpcAsyncIOTransport,
    )

    class LocalHook(CustomJobAsyncHook):  # type: ignore[misc, unused-ignore]
        async def get_job_service_client(self, region: str | None = None) -> JobServiceAsyncClient:
            channel = grpc.aio.insecure_channel(target)
            return JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))

    _, project, _, region, _, job_id = job_name.split("/")
    trigger = CustomJobTrigger(
        project_id=project, location=region, custom_job_id=job_id, poll_interval=poll_interval
    )
    trigger.async_hook = LocalHook()  # in place of its cached property
    return trigger
