"""What a worker spends until a task is deferred, beside the least code that creates a job with Google's client.

Every figure is processor time of all threads of a fresh process, the best of some; what every task process of Airflow has
imported before (``airflow.sdk``, its task runner, the DAG's own operators) is not counted. Anchor: import the client, connect, create one job. Ours: ``execute()`` of the operator up to its
deferral, with all that it imports; it reads the ledger, creates the job and reads the ledger again. With an output
directory it looks for checkpoints too, which takes a client of Cloud Storage. The service is the emulator and the storage
a server in this process: only the client's side is counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 5
PROJECT = "project"
REGION = "us-central1"
CONNECTION = json.dumps(
    {"conn_type": "google_cloud_platform", "extra": {"project": PROJECT, "region": REGION}}
)

_ROOT = Path(__file__).resolve().parents[2]


def main() -> dict[str, float]:
    """Measure everything, in turns; answer the figures."""
    from airflow_provider.agent_platform.emulator import Emulator
    from tests.checkpoints.storage import BUCKET, StorageServer

    seconds: dict[str, list[float]] = {}
    with Emulator(runner="simulated") as emulator, StorageServer() as storage:
        for number in range(ROUNDS):
            for name, arguments in {
                "bare_create": ("anchor", ""),
                "ours": ("ours", ""),
                "ours_with_output_directory": ("ours", f"gs://{BUCKET}/run-{number}"),
            }.items():
                found = _child(emulator.grpc_target, storage.url, *arguments)
                seconds.setdefault(name, []).append(found)
    best = {name: min(each) for name, each in seconds.items()}
    figures = {f"{name}_cpu_s": value for name, value in best.items()}
    for name in best:
        if name != "bare_create":
            figures[f"{name}_ratio"] = best[name] / best["bare_create"]
    return figures


def _child(target: str, storage: str, what: str, directory: str) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bench_worker", what, directory],
        cwd=_ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
            "AGENT_PLATFORM_EMULATOR_HOST": target,
            "STORAGE_EMULATOR_HOST": storage,
            "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": CONNECTION,
        },
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def _as_in_a_task_process() -> None:
    """Import what a worker has before it starts a task."""
    import airflow.sdk
    import airflow.sdk.execution_time.supervisor
    import airflow.sdk.execution_time.task_runner  # noqa: F401


def _anchor() -> float:
    _as_in_a_task_process()
    begun = time.process_time()
    import grpc
    from google.cloud.aiplatform_v1 import JobServiceClient
    from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

    channel = grpc.insecure_channel(os.environ["AGENT_PLATFORM_EMULATOR_HOST"])
    client = JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "image", "args": ["--epochs", "20"]},
    }
    job = {"display_name": "train", "job_spec": {"worker_pool_specs": [pool]}}
    parent = f"projects/{PROJECT}/locations/{REGION}"
    client.create_custom_job(request={"parent": parent, "custom_job": job})
    return time.process_time() - begun


def _ours(directory: str) -> float:
    _as_in_a_task_process()
    from airflow.sdk import DAG
    from airflow.sdk.exceptions import TaskDeferred

    from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator
    from tests.operators.context import context_of

    with DAG("bench", schedule=None):
        operator = ContainerTrainingOperator(
            task_id="train",
            image="image",
            args=["--epochs", "20"],
            machine_type="n1-standard-4",
            base_output_directory=directory or None,
        )
    context = context_of(operator, run_id=f"run-{os.getpid()}-{time.time()}")
    begun = time.process_time()
    try:
        operator.execute(context)
    except TaskDeferred:
        return time.process_time() - begun
    raise AssertionError("the task was not deferred")


if __name__ == "__main__":
    if sys.argv[1:2] == ["anchor"]:
        print(json.dumps(_anchor()))
    elif sys.argv[1:2] == ["ours"]:
        print(json.dumps(_ours(sys.argv[2])))
    else:
        print(json.dumps(main(), indent=2))
