"""What the emulator's tests share: a client of Google's, jobs to submit, and a world that stands still."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from google.cloud import aiplatform_v1
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.emulator.clock import ManualClock
from airflow_provider.agent_platform.emulator.states import ENDS

PARENT = "projects/test-project/locations/us-central1"
PATIENCE = 60.0


def pool(
    command: Sequence[str] = (), *, replicas: int = 1, machine: str = "n1-standard-4", **env: str
) -> dict[str, Any]:
    """A worker pool of a container."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    container = {"image_uri": "gcr.io/p/image", "command": list(command), "env": variables}
    return {"machine_spec": {"machine_type": machine}, "replica_count": replicas, "container_spec": container}


def job(
    *pools: dict[str, Any], name: str = "job", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A custom job."""
    return {
        "display_name": name,
        "labels": labels or {},
        "job_spec": {"worker_pool_specs": list(pools), **spec},
    }


class Cloud:
    """One emulator, seen by Google's own client."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.control = emulator.control
        self.channel = grpc.insecure_channel(emulator.grpc_target)
        self.client = aiplatform_v1.JobServiceClient(transport=JobServiceGrpcTransport(channel=self.channel))

    def create(self, body: dict[str, Any], parent: str = PARENT) -> str:
        """Submit; the job's name."""
        return str(
            self.client.create_custom_job(parent=parent, custom_job=aiplatform_v1.CustomJob(body)).name
        )

    def get(self, name: str) -> Any:
        """The job."""
        return self.client.get_custom_job(name=name)

    def events(self, name: str, kind: str | None = None) -> list[dict[str, Any]]:
        """The job's story, or its events of one kind."""
        return [event for event in self.control.events(name) if kind in (None, event["kind"])]

    def states(self, name: str) -> list[str]:
        """The states it went through."""
        return [event["state"].removeprefix("JOB_STATE_") for event in self.events(name, "state")]

    def runs(self, name: str) -> int:
        """How many runs it had."""
        return len(self.events(name, "run"))

    def wait(self, name: str, done: Callable[[Any], bool] | None = None) -> Any:
        """Wait for a job that real processes drive: for its end with its error, or for something else."""
        done = done or (lambda found: found.state in ENDS and (found.state == 4 or bool(found.error.code)))
        deadline = time.monotonic() + PATIENCE
        while not done(found := self.get(name)):
            assert time.monotonic() < deadline, f"still {found.state!r}: {self.events(name)}"
            time.sleep(0.02)
        return found

    def wait_event(self, name: str, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until an event has happened so often."""
        deadline = time.monotonic() + PATIENCE
        while len(found := self.events(name, kind)) < count:
            assert time.monotonic() < deadline, f"no {kind}: {self.events(name)}"
            time.sleep(0.02)
        return found

    def lines(self, name: str, task: str | None = None) -> list[str]:
        """What a job logged."""
        entries = self.emulator.server.engine.logs.entries(name.rpartition("/")[2])
        return [entry.message for entry in entries if task in (None, entry.task_name)]

    def rest(
        self, verb: str, path: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """One REST call, just as it is; its status and its JSON."""
        address = urlsplit(self.emulator.rest_url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
        connection.request(verb, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, json.loads(data) if data else None

    def raw(self, method: str, data: bytes) -> grpc.RpcError:
        """Send bytes as the request of a gRPC method; the error it is answered with."""
        call = self.channel.unary_unary(f"/google.cloud.aiplatform.v1.JobService/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(data, timeout=30)
        return caught.value

    def close(self) -> None:
        """Close the client."""
        self.channel.close()


class Still(Cloud):
    """An emulator whose clock stands until a test moves it, with workers that are timers."""

    def __init__(self, emulator: Emulator, clock: ManualClock) -> None:
        super().__init__(emulator)
        self.clock = clock

    def advance(self, seconds: float) -> None:
        """Let seconds of the platform pass."""
        self.clock.advance(seconds)

    def run(self, body: dict[str, Any], seconds: float = 3600) -> Any:
        """Submit, let time pass, and read the job."""
        name = self.create(body)
        self.advance(seconds)
        return self.get(name)


@pytest.fixture(scope="session")
def make_job() -> Callable[..., dict[str, Any]]:
    """Makes a custom job."""
    return job


@pytest.fixture(scope="session")
def make_pool() -> Callable[..., dict[str, Any]]:
    """Makes a worker pool."""
    return pool


@pytest.fixture(scope="session")
def parent() -> str:
    """The parent that jobs are created in."""
    return PARENT


@pytest.fixture
def still_cloud(request: pytest.FixtureRequest) -> Iterator[Callable[..., Still]]:
    """Makes emulators that stand still, with the switches that a test wants."""
    made: list[Still] = []

    def make(**settings: Any) -> Still:
        clock = ManualClock()
        emulator = Emulator(clock=clock, **{"runner": "simulated", **settings}).start()
        made.append(Still(emulator, clock))
        return made[-1]

    yield make
    for one in made:
        one.close()
        one.emulator.stop()


@pytest.fixture(scope="module")
def _shared_still() -> Iterator[Still]:
    clock = ManualClock()
    with Emulator(clock=clock, runner="simulated") as emulator:
        shared = Still(emulator, clock)
        yield shared
        shared.close()


@pytest.fixture
def still(_shared_still: Still) -> Still:
    """An emulator with default switches that stands still; empty at the start of each test."""
    _shared_still.control.reset()
    return _shared_still


@pytest.fixture
def served(still: Still) -> Iterator[Still]:
    """An emulator whose other client must not notice anything: its job ends as if it were alone."""
    name = still.create(job(pool(EMULATE_RUN_SECONDS="60")))
    yield still
    still.advance(3600)
    assert still.get(name).state.name == "JOB_STATE_SUCCEEDED"
    assert still.control.calls()["GetCustomJob"] >= 1


@pytest.fixture(scope="module")
def _shared_cloud() -> Iterator[Cloud]:
    with Emulator(speed=100) as emulator:
        shared = Cloud(emulator)
        yield shared
        shared.close()


@pytest.fixture
def cloud(_shared_cloud: Cloud) -> Cloud:
    """An emulator with real processes, 100 times as fast; empty at the start of each test."""
    _shared_cloud.control.reset()
    return _shared_cloud


@pytest.fixture
def fast_cloud() -> Iterator[Callable[..., Cloud]]:
    """Makes emulators with real processes and settings of the test's own."""
    made: list[Cloud] = []

    def make(**settings: Any) -> Cloud:
        emulator = Emulator(**{"speed": 100, **settings}).start()
        made.append(Cloud(emulator))
        return made[-1]

    yield make
    for one in made:
        one.close()
        one.emulator.stop()
