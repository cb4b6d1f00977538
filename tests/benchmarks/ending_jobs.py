"""Jobs on the emulator that end at random moments, and when each of them did.

In: how many, when the first and the last of them shall end. Out: their names, later their ends by the service's own
word. The emulator runs in this process with the simulated runner, at the speed of the real clock. Not here: who
waits for them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import grpc
from google.cloud.aiplatform_v1 import JobServiceClient, types
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

from airflow_provider.agent_platform.emulator import Emulator

PARENT = "projects/project/locations/us-central1"


class EndingJobs:
    """Jobs of one emulator, made by :func:`ending_jobs`.

    :ivar target: the emulator's address.
    :ivar names: of the jobs, in the order of their creation.
    """

    def __init__(self, target: str, client: Any, names: list[str]) -> None:
        self.target = target
        self.names = names
        self._client = client

    def ends(self) -> list[datetime]:
        """Return when the jobs ended, in the order of their names; all of them must have succeeded."""
        found = {}
        for job in self._client.list_custom_jobs(request={"parent": PARENT, "page_size": 100}):
            if job.state != types.JobState.JOB_STATE_SUCCEEDED:
                raise RuntimeError(f"{job.name} is {job.state.name}")
            found[job.name] = job.end_time
        return [found[name] for name in self.names]


@contextmanager
def ending_jobs(count: int, first: float, last: float) -> Iterator[EndingJobs]:
    """Create jobs that end well.

    :param count: how many.
    :param first: seconds from now to the first end.
    :param last: seconds from now to the last end.
    """
    moments = random.Random(1)
    switches = {"provisioning_seconds": 0.0, "shutdown_delay_seconds": 0.0}
    with Emulator(runner="simulated", switches=switches) as emulator:
        channel = grpc.insecure_channel(emulator.grpc_target)
        client = JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))
        names = [
            client.create_custom_job(parent=PARENT, custom_job=_job(moments.uniform(first, last))).name
            for _ in range(count)
        ]
        yield EndingJobs(emulator.grpc_target, client, names)
        channel.close()


def _job(seconds: float) -> Any:
    container = {
        "image_uri": "image",
        "command": ["train"],
        "env": [{"name": "EMULATE_RUN_SECONDS", "value": str(seconds)}],
    }
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": container,
    }
    return {"display_name": "train", "job_spec": {"worker_pool_specs": [pool]}}
