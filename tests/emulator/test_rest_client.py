"""The generated client of the API over REST, as a library user has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import BadRequest, MethodNotImplemented, NotFound, ServiceUnavailable
from google.auth.credentials import AnonymousCredentials
from google.cloud.aiplatform_v1 import JobServiceClient
from google.cloud.aiplatform_v1.types import AcceleratorType, CustomJob, JobState, Scheduling

from airflow_provider.agent_platform.emulator import Emulator

PARENT = "projects/my-project/locations/us-central1"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(speed=1000, runner="simulated") as emulator:
        yield emulator


@pytest.fixture
def client(emulator: Emulator) -> Iterator[JobServiceClient]:
    emulator.control.reset()
    made = JobServiceClient(
        transport="rest",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]  # no types there
        client_options=ClientOptions(api_endpoint=emulator.rest_url),
    )
    with made:
        yield made


def job(**changes: Any) -> CustomJob:
    value: dict[str, Any] = {
        "display_name": "digits",
        "job_spec": {
            "worker_pool_specs": [
                {
                    "machine_spec": {
                        "machine_type": "n1-standard-4",
                        "accelerator_type": "NVIDIA_TESLA_T4",
                        "accelerator_count": 1,
                    },
                    "replica_count": 1,
                    "container_spec": {
                        "image_uri": "gcr.io/p/i",
                        "env": [{"name": "EMULATE_RUN_SECONDS", "value": "100000"}],
                    },
                }
            ],
            "scheduling": {"strategy": "SPOT", "timeout": "3600s"},
        },
    }
    value.update(changes)
    return CustomJob(value)


def test_messages_survive_the_way_there_and_back(client: JobServiceClient) -> None:
    made = client.create_custom_job(parent=PARENT, custom_job=job(labels={"a": "b"}))
    found = client.get_custom_job(name=made.name)
    assert found.labels == {"a": "b"}
    assert found.job_spec.scheduling.strategy is Scheduling.Strategy.SPOT
    assert CustomJob.pb(found).job_spec.scheduling.timeout.seconds == 3600
    machine = found.job_spec.worker_pool_specs[0].machine_spec
    assert machine.accelerator_type is AcceleratorType.NVIDIA_TESLA_T4
    assert found.create_time == made.create_time
    client.cancel_custom_job(name=made.name)


def test_the_pager_walks_all_pages_with_filter_and_read_mask(client: JobServiceClient) -> None:
    names = [
        client.create_custom_job(parent=PARENT, custom_job=job(labels={"n": str(number % 2)})).name
        for number in range(6)
    ]
    request = {
        "parent": PARENT,
        "filter": 'labels.n="0" AND NOT state="JOB_STATE_FAILED"',
        "page_size": 2,
        "read_mask": {"paths": ["name", "state", "create_time"]},
    }
    found = list(client.list_custom_jobs(request=request))
    assert [one.name for one in found] == [names[4], names[2], names[0]]
    assert not found[0].display_name
    assert found[0].state in (JobState.JOB_STATE_PENDING, JobState.JOB_STATE_RUNNING)


def test_delete_is_an_operation_with_a_result(client: JobServiceClient) -> None:
    name = client.create_custom_job(parent=PARENT, custom_job=job()).name
    client.cancel_custom_job(name=name)
    while client.get_custom_job(name=name).state != JobState.JOB_STATE_CANCELLED:
        pass
    operation: Any = client.delete_custom_job(name=name)
    operation.result(timeout=10)
    with pytest.raises(NotFound, match="does not exist"):
        client.get_custom_job(name=name)


def test_refusals_are_the_librarys_exceptions(client: JobServiceClient, emulator: Emulator) -> None:
    # The library makes 400 a BadRequest over REST; over gRPC it is the subclass InvalidArgument.
    with pytest.raises(BadRequest, match="List of found errors:"):
        client.create_custom_job(parent=PARENT, custom_job=job(display_name=""))
    with pytest.raises(MethodNotImplemented, match="not emulated"):
        list(client.list_batch_prediction_jobs(parent=PARENT))
    emulator.control.add_fault("rpc_error", match={"method": "GetCustomJob"}, code="UNAVAILABLE")
    with pytest.raises(ServiceUnavailable, match="The service is currently unavailable"):
        client.get_custom_job(name=f"{PARENT}/customJobs/1")
