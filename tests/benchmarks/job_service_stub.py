"""A JobService that costs its callers as little as a server can: answers are serialised once and sent as
they are.

Run as a process of its own, so that its CPU is not counted to whoever polls it. It knows n custom jobs that
are RUNNING for ever, pages of 100, a full and a masked form. It is not the emulator: it has no lifecycle
and checks nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PAGE = 100
PARENT = "projects/123456789012/locations/us-central1"


def job_name(number: int) -> str:
    """Answer the name of the n-th job: ids of 19 digits, as the service makes them."""
    return f"{PARENT}/customJobs/{4_000_000_000_000_000_000 + number}"


def serve(jobs: int) -> None:
    """Serve until stdin ends; the first line on stdout is the port. Each line on stdin is answered with the number of
    calls so far."""
    import grpc
    from google.cloud.aiplatform_v1.types import (
        CustomJob,
        GetCustomJobRequest,
        ListCustomJobsRequest,
        ListCustomJobsResponse,
    )

    full = [_full_job(number) for number in range(jobs)]
    masked = []
    for job in full:
        raw = CustomJob.pb()()
        raw.name, raw.state = job.name, job.state
        for field in ("create_time", "start_time", "update_time"):
            getattr(raw, field).CopyFrom(getattr(job, field))
        masked.append(raw)

    def pages(items: list[object]) -> list[bytes]:
        answers = []
        for start in range(0, max(len(items), 1), PAGE):
            answer = ListCustomJobsResponse.pb()()
            answer.custom_jobs.extend(items[start : start + PAGE])
            if start + PAGE < len(items):
                answer.next_page_token = str(start // PAGE + 1)
            answers.append(answer.SerializeToString())
        return answers

    full_pages, masked_pages = pages(full), pages(masked)
    by_name = {job.name: job.SerializeToString() for job in full}
    list_request, get_request = ListCustomJobsRequest.pb(), GetCustomJobRequest.pb()
    calls: list[None] = []  # its append is atomic

    def list_jobs(request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(None)
        asked = list_request.FromString(request)
        page = int(asked.page_token or 0)
        return (masked_pages if asked.read_mask.paths else full_pages)[page]

    def get_job(request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(None)
        found = by_name.get(get_request.FromString(request).name)
        if found is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "The CustomJob does not exist.")
        return found or b""

    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "google.cloud.aiplatform.v1.JobService",
                {
                    "ListCustomJobs": grpc.unary_unary_rpc_method_handler(list_jobs),
                    "GetCustomJob": grpc.unary_unary_rpc_method_handler(get_job),
                },
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    for _ in sys.stdin:  # until the parent goes away
        print(len(calls), flush=True)
    server.stop(0)


def _full_job(number: int):  # type: ignore[no-untyped-def]
    from google.cloud.aiplatform_v1.types import CustomJob

    raw = CustomJob.pb()()
    raw.name, raw.display_name, raw.state = job_name(number), f"dag.train.{number}", 3
    raw.create_time.seconds = 1_780_000_000
    raw.start_time.seconds = 1_780_000_240
    raw.update_time.seconds = 1_780_000_241
    pool = raw.job_spec.worker_pool_specs.add()
    pool.replica_count = 1
    pool.machine_spec.machine_type = "n1-standard-8"
    pool.container_spec.image_uri = "us-docker.pkg.dev/project/repository/image:tag"
    pool.container_spec.args.extend(["--epochs=10", "--data=gs://bucket/data"])
    for key in ("airflow-ti", "airflow-dag", "airflow-task", "airflow-run", "airflow-epoch", "airflow-try"):
        raw.labels[key] = "0123456789abcdef"
    return raw


@dataclass(frozen=True)
class Stub:
    """The stub in its own process.

    :ivar target: its address.
    """

    target: str
    _process: subprocess.Popen[str]

    def calls(self) -> int:
        """Return how many calls it has got."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextmanager
def running_stub(jobs: int) -> Iterator[Stub]:
    """Run the stub in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "--jobs", str(jobs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Stub(f"127.0.0.1:{int(process.stdout.readline())}", process)
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stdout.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, required=True)
    serve(parser.parse_args().jobs)
