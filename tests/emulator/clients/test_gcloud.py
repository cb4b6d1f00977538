"""``gcloud ai custom-jobs`` and ``hp-tuning-jobs`` against the emulator, where gcloud is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.emulator import Emulator

GCLOUD = shutil.which("gcloud")

pytestmark = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed on this machine")

SETTLED_SECONDS = 6
"""gcloud's stream-logs leaves out what is younger than five seconds."""

Gcloud = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(speed=200) as emulator:
        yield emulator


@pytest.fixture
def gcloud(emulator: Emulator, tmp_path: Path) -> Gcloud:
    """Runs ``gcloud ai ...`` with the emulator as its endpoints, without an account."""
    assert GCLOUD is not None
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_PROJECT": "my-project",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"{emulator.rest_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{emulator.rest_url}/",
    }

    def run(*arguments: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [GCLOUD, *arguments]
            if arguments[0] == "logging"
            else [GCLOUD, "ai", *arguments, "--region=us-central1"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode == 0) is ok, done.stderr
        return done

    return run


def write_spec(path: Path, *command: str) -> Path:
    """A CustomJobSpec as a YAML file; JSON is YAML."""
    spec = {
        "workerPoolSpecs": [
            {
                "machineSpec": {"machineType": "n1-standard-4"},
                "replicaCount": 1,
                "containerSpec": {"imageUri": "gcr.io/my-project/trainer", "command": list(command)},
            }
        ]
    }
    path.write_text(json.dumps(spec))
    return path


def create(gcloud: Gcloud, path: Path, *command: str) -> dict[str, Any]:
    config = write_spec(path / "job.yaml", *command)
    done = gcloud(
        "custom-jobs",
        "create",
        "--display-name=from-gcloud",
        f"--config={config}",
        "--labels=from=gcloud",
        "--format=json",
    )
    assert "is submitted successfully" in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def wait_for_end(emulator: Emulator, name: str) -> None:
    import httpx

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if "endTime" in httpx.get(f"{emulator.rest_url}/v1/{name}", trust_env=False).json():
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} did not end")


def test_create_list_describe_and_stream_logs(gcloud: Gcloud, emulator: Emulator, tmp_path: Path) -> None:
    emulator.control.reset()
    code = 'print(\'step 1\'); print(\'{"severity": "ERROR", "message": "loss is NaN"}\')'
    made = create(gcloud, tmp_path, sys.executable, "-c", code)
    assert made["labels"] == {"from": "gcloud"}
    wait_for_end(emulator, made["name"])

    listed = json.loads(gcloud("custom-jobs", "list", "--format=json").stdout)
    assert [job["name"] for job in listed] == [made["name"]]
    described = json.loads(gcloud("custom-jobs", "describe", made["name"], "--format=json").stdout)
    assert described["state"] == "JOB_STATE_SUCCEEDED"

    time.sleep(SETTLED_SECONDS)
    logs = gcloud("custom-jobs", "stream-logs", made["name"], "--polling-interval=1").stdout
    lines = [line.split("\t") for line in logs.splitlines()]
    assert [(line[0], line[2], line[3]) for line in lines] == [
        ("INFO", "service", "Waiting for job to be provisioned."),
        ("INFO", "service", "Job is preparing."),
        ("INFO", "service", "Job is running."),
        ("INFO", "workerpool0-0", "step 1"),
        ("ERROR", "workerpool0-0", "loss is NaN"),
        ("INFO", "service", "Tearing down training program."),
        ("INFO", "service", "Finished tearing down training program."),
        ("INFO", "service", "Job completed successfully."),
    ]
    read = gcloud(
        "logging", "read", 'resource.type="ml_job" AND severity>=ERROR', "--format=value(jsonPayload.message)"
    )
    assert read.stdout.strip() == "loss is NaN"
    only = gcloud(
        "custom-jobs", "stream-logs", made["name"], "--polling-interval=1", "--task-name=workerpool0-0"
    ).stdout
    assert [line.split("\t")[3] for line in only.splitlines()] == ["step 1", "loss is NaN"]


def test_cancel(gcloud: Gcloud, emulator: Emulator, tmp_path: Path) -> None:
    made = create(gcloud, tmp_path, sys.executable, "-c", "import time; time.sleep(600)")
    assert "has been sent" in gcloud("custom-jobs", "cancel", made["name"]).stderr
    wait_for_end(emulator, made["name"])
    described = json.loads(gcloud("custom-jobs", "describe", made["name"], "--format=json").stdout)
    assert described["state"] == "JOB_STATE_CANCELLED"
    assert described["error"]["code"] == 1


def test_a_refused_spec_reads_as_the_service_words_it(gcloud: Gcloud, tmp_path: Path) -> None:
    done = gcloud(
        "custom-jobs",
        "create",
        "--display-name=x",
        "--worker-pool-spec=machine-type=n1-standard-1,replica-count=1,container-image-uri=gcr.io/p/i",
        ok=False,
    )
    assert "INVALID_ARGUMENT: List of found errors:\t1.Field: job_spec.worker_pool_specs[0]" in done.stderr
    assert "Machine type n1-standard-1 is not supported." in done.stderr


def test_a_job_that_is_not_there_is_not_found(gcloud: Gcloud) -> None:
    done = gcloud("custom-jobs", "describe", "1234567890123456789", ok=False)
    assert "NOT_FOUND" in done.stderr


def test_hp_tuning_jobs(gcloud: Gcloud, emulator: Emulator, tmp_path: Path) -> None:
    emulator.control.reset()
    report = (
        "import json, os, sys; "
        "print('trial with', *sys.argv[1:]); "
        "open(os.environ['CLOUD_ML_HP_METRIC_FILE'], 'w').write("
        "json.dumps({'timestamp': 1.0, 'trial': '1', 'loss': '0.5', 'global_step': '1', 'checkpoint_path': ''}))"
    )
    spec = json.loads(write_spec(tmp_path / "job.yaml", sys.executable, "-c", report).read_text())
    config = tmp_path / "tuning.yaml"
    config.write_text(
        json.dumps(
            {
                "studySpec": {
                    "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
                    "parameters": [{"parameterId": "n", "integerValueSpec": {"minValue": 1, "maxValue": 2}}],
                },
                "trialJobSpec": spec,
            }
        )
    )
    done = gcloud(
        "hp-tuning-jobs",
        "create",
        "--display-name=tuning",
        f"--config={config}",
        "--max-trial-count=2",
        "--parallel-trial-count=1",
        "--algorithm=grid-search",
        "--format=json",
    )
    made = json.loads(done.stdout)
    wait_for_end(emulator, made["name"])
    described = json.loads(gcloud("hp-tuning-jobs", "describe", made["name"], "--format=json").stdout)
    assert described["state"] == "JOB_STATE_SUCCEEDED"
    assert [trial["finalMeasurement"]["metrics"] for trial in described["trials"]] == [
        [{"metricId": "loss", "value": 0.5}]
    ] * 2
    listed = json.loads(gcloud("hp-tuning-jobs", "list", "--format=json").stdout)
    assert [job["name"] for job in listed] == [made["name"]]
    time.sleep(SETTLED_SECONDS)
    logs = gcloud("hp-tuning-jobs", "stream-logs", made["name"], "--polling-interval=1").stdout
    assert [line.split("\t")[3] for line in logs.splitlines() if "workerpool0-0" in line] == [
        "trial with --n=1",
        "trial with --n=2",
    ]
    gcloud("hp-tuning-jobs", "cancel", made["name"])
