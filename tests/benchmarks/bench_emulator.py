"""What the emulator bears: creates a second, lists among very many jobs, memory, idleness, and what it gives back.

The emulator is a process of its own, as ``agent-platform-emulator`` starts it; this process is its one client,
over gRPC with bare protobuf messages and some calls in flight. With the ``simulated`` runner every job goes
through its whole life while the next ones are created. Lists are timed one after another, as the caller sees
them. The last part runs real processes and looks at what of them is left.

``BENCH_EMULATOR_JOBS`` (100000), ``BENCH_EMULATOR_CALLS`` (300), ``BENCH_EMULATOR_PROCESSES`` (1000) and
``BENCH_EMULATOR_IDLE_SECONDS`` (20) make a shorter run.
"""

from __future__ import annotations

import collections
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
from google.cloud.aiplatform_v1 import types

from airflow_provider.agent_platform.emulator.client import Control

PARENT = "projects/123456789012/locations/us-central1"
METHODS = "/google.cloud.aiplatform.v1.JobService"
IN_FLIGHT = 16
LIVE = 1_000
"""Jobs that wait for quota while the emulator is idle, and stay among the ended ones for the lists."""
PATIENCE = 600.0

FILTERS = {
    "state_few": 'state="JOB_STATE_QUEUED"',
    "state_most": 'state="JOB_STATE_SUCCEEDED"',
    "state_oldest": 'state="JOB_STATE_FAILED"',
    "state_not": 'state!="JOB_STATE_SUCCEEDED"',
    "state_both": 'state="JOB_STATE_SUCCEEDED" OR state="JOB_STATE_FAILED"',
    "label_percent": 'labels.team="t7"',
    "label_half": 'labels.half="1"',
    "label_one": 'labels.run="r77"',
    "label_state": 'labels.team="t7" AND state!="JOB_STATE_SUCCEEDED"',
}
"""Shapes of matching sets: few, nearly all, only the oldest, none after a long look."""


def main() -> dict[str, float]:
    """Measure everything; answer the figures."""
    jobs, calls = _size("JOBS", 100_000), _size("CALLS", 300)
    figures: dict[str, float] = {"jobs": jobs, "load_at_start": os.getloadavg()[0]}
    with _emulator("--runner", "simulated", "--speed", "1000") as emulator:
        emulator.create(20)  # connections, threads and imports are no part of the first figure
        emulator.settle()
        empty = emulator.memory()
        figures.update(_creates(emulator, jobs))
        emulator.settle()
        figures["ended_jobs_mb"] = emulator.memory() - empty
        figures["load_after_creates"] = os.getloadavg()[0]
        emulator.control.set_quotas({"us-central1": {"custom_model_training_cpus": 0}})
        emulator.create(LIVE, first=jobs)
        figures.update(_lists(emulator, calls))
        figures["load_after_lists"] = os.getloadavg()[0]
    with _emulator("--runner", "simulated") as emulator:
        emulator.control.set_quotas({"us-central1": {"custom_model_training_cpus": 0}})
        emulator.create(LIVE)
        figures["idle_percent_of_a_core"] = emulator.idle_percent(_size("IDLE_SECONDS", 20))
    with _emulator("--runner", "process", "--speed", "100") as emulator:
        figures.update(_processes(emulator, _size("PROCESSES", 1_000)))
    figures["load_at_end"] = os.getloadavg()[0]
    return figures


def _size(name: str, default: int) -> int:
    return int(os.environ.get(f"BENCH_EMULATOR_{name}") or default)


# --- the emulator and its client -----------------------------------------------------------------------------


class _Emulator:
    """A running emulator, and calls to it."""

    def __init__(self, pid: int, target: str, rest: str, directory: Path) -> None:
        self.process = psutil.Process(pid)
        self.control = Control(rest)
        self.directory = directory
        self._channel = grpc.insecure_channel(target, [("grpc.max_receive_message_length", -1)])
        self._create = self._method("CreateCustomJob", types.CustomJob)
        self._list = self._method("ListCustomJobs", types.ListCustomJobsResponse)

    def _method(self, name: str, response: Any) -> Any:
        return self._channel.unary_unary(
            f"{METHODS}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.pb().FromString,
        )

    def create(
        self, count: int, first: int = 0, command: str = "", in_flight: int = IN_FLIGHT
    ) -> list[float]:
        """Create jobs, some calls at once; the time of each answer."""
        answered, under_way = [], collections.deque[Any]()
        for number in range(first, first + count):
            if len(under_way) == in_flight:
                under_way.popleft().result(60)
                answered.append(time.perf_counter())
            under_way.append(self._create.future(_request(number, command)))
        for call in under_way:
            call.result(60)
            answered.append(time.perf_counter())
        return answered

    def list(self, filter: str, size: int = 100, token: str = "") -> Any:
        """One page."""
        request = types.ListCustomJobsRequest.pb()
        return self._list(request(parent=PARENT, filter=filter, page_size=size, page_token=token), timeout=60)

    def settle(self) -> None:
        """Wait until every job has ended, with its error."""
        end = time.monotonic() + PATIENCE
        live = " AND ".join(f'state!="JOB_STATE_{state}"' for state in ("SUCCEEDED", "FAILED"))
        while self.list(live, 1).custom_jobs:
            if time.monotonic() > end:
                raise RuntimeError("the jobs did not end")
            time.sleep(0.05)
        time.sleep(0.5)

    def memory(self) -> float:
        """Resident megabytes of the emulator's own process."""
        return float(self.process.memory_info().rss) / 1e6

    def idle_percent(self, seconds: float) -> float:
        """Percent of a core that it uses while nobody asks for anything."""
        time.sleep(2)
        before, begun = sum(self.process.cpu_times()[:2]), time.monotonic()
        time.sleep(seconds)
        used = sum(self.process.cpu_times()[:2]) - before
        return float(100 * used / (time.monotonic() - begun))

    def held(self) -> dict[str, int]:
        """What it holds of the machine: processes, descriptors, threads, files."""
        return {
            "processes": len(self.process.children(recursive=True)),
            "descriptors": self.process.num_fds(),
            "threads": self.process.num_threads(),
            "files": sum(1 for _ in self.directory.rglob("*")),
        }

    def close(self) -> None:
        """Close the client."""
        self._channel.close()


@contextlib.contextmanager
def _emulator(*flags: str) -> Iterator[_Emulator]:
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "airflow_provider.agent_platform.emulator.cli",
                "--port", "0", "--rest-port", "0", *flags,
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": directory},
        )  # fmt: skip
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            emulator = _Emulator(process.pid, words[-3].rstrip(","), words[-1], Path(directory))
            yield emulator
            emulator.close()
        finally:
            process.terminate()
            process.wait(60)


def _request(number: int, command: str) -> Any:
    """A job as people send them: labels, some variables. A tenth of the oldest tenth fails."""
    request = types.CreateCustomJobRequest.pb()(parent=PARENT)
    job = request.custom_job
    job.display_name = f"train-{number % 1000}"
    job.labels.update({"team": f"t{number % 100}", "half": str(number % 2), "run": f"r{number}"})
    pool = job.job_spec.worker_pool_specs.add(replica_count=1)
    pool.machine_spec.machine_type = "n1-standard-4"
    pool.container_spec.image_uri = "europe-docker.pkg.dev/my-project/training/image:latest"
    pool.container_spec.command.extend([command] if command else ["python", "-m", "trainer.task"])
    pool.container_spec.args.extend(["--epochs=10", "--learning-rate=0.001", f"--seed={number}"])
    fails = not command and number % 100 == 1 and number < 10_000
    pool.container_spec.env.add(name="EMULATE_EXIT_CODE", value="3" if fails else "0")
    return request


# --- what is measured ------------------------------------------------------------------------------------------


def _creates(emulator: _Emulator, jobs: int) -> dict[str, float]:
    begun = time.perf_counter()
    cpu = sum(emulator.process.cpu_times()[:2])
    answered = emulator.create(jobs)
    seconds = time.perf_counter() - begun
    windows = collections.Counter(int((moment - begun) / 2) for moment in answered)
    whole = [count / 2 for window, count in windows.items() if window < int(seconds / 2)]
    return {
        "creates_per_s": jobs / seconds,
        "creates_per_s_slowest_2s": min(whole, default=jobs / seconds),
        "create_cpu_us": 1e6 * (sum(emulator.process.cpu_times()[:2]) - cpu) / jobs,
    }


def _lists(emulator: _Emulator, calls: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, text in FILTERS.items():
        emulator.list(text)
        times = sorted(_timed(emulator, text) for _ in range(calls))
        figures[f"list_{name}_p50_ms"] = statistics.median(times)
        figures[f"list_{name}_p99_ms"] = times[int(0.99 * (len(times) - 1))]
    figures["list_page_10_000_back_p50_ms"] = _deep_page(emulator, calls)
    return figures


def _timed(emulator: _Emulator, text: str, token: str = "") -> float:
    begun = time.perf_counter()
    emulator.list(text, 100, token)
    return 1000 * (time.perf_counter() - begun)


def _deep_page(emulator: _Emulator, calls: int) -> float:
    """A page far from the newest job: what following page tokens to the end asks for."""
    text, token = FILTERS["state_most"], ""
    for _ in range(100):
        token = emulator.list(text, 100, token).next_page_token or token
    return statistics.median(_timed(emulator, text, token) for _ in range(calls))


def _processes(emulator: _Emulator, count: int) -> dict[str, float]:
    emulator.create(200, command="true")  # until all threads of the pools are there
    emulator.settle()
    before = _least(emulator)
    begun = time.perf_counter()
    emulator.create(count, command="true")
    emulator.settle()
    seconds = time.perf_counter() - begun
    after = _least(emulator)
    ended = {state: 0 for state in ("SUCCEEDED", "FAILED")}
    for state in ended:
        token = ""
        while True:
            page = emulator.list(f'state="JOB_STATE_{state}"', 100, token)
            ended[state] += len(page.custom_jobs)
            token = page.next_page_token
            if not token:
                break
    figures: dict[str, float] = {
        "process_jobs_per_s": count / seconds,
        "process_jobs_failed": ended["FAILED"],
    }
    for name, value in after.items():
        figures[f"process_{name}_before"] = before[name]
        figures[f"process_{name}_after"] = value
    return figures


def _least(emulator: _Emulator) -> dict[str, int]:
    """What is held once the last files are removed: the least of some looks."""
    looks = []
    for _ in range(20):
        looks.append(emulator.held())
        time.sleep(0.25)
    return {name: min(look[name] for look in looks) for name in looks[0]}


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:<36}{value:>14,.3f}")
