"""Google's own Python SDK, unchanged, over REST and over gRPC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.emulator import Emulator
from tests.emulator.clients.tls_front import tls_front

SCRIPT = Path(__file__).with_name("sdk_jobs.py")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(speed=200) as emulator:
        yield emulator


@pytest.fixture(params=["rest", "grpc"])
def run(request: pytest.FixtureRequest, emulator: Emulator, tmp_path: Path) -> Iterator[Any]:
    """Runs the script over one transport and answers what it printed."""
    emulator.control.reset()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def script(endpoint: str, *options: str) -> Any:
        command = [
            sys.executable,
            str(SCRIPT),
            "--transport",
            request.param,
            "--endpoint",
            endpoint,
            *options,
        ]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    if request.param == "rest":
        yield lambda *options: script(emulator.rest_url, *options)
    else:
        with tls_front(emulator.grpc_target, tmp_path) as (address, certificate):
            environment["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(certificate)
            yield lambda *options: script(address, *options)


def test_the_sdk_runs_fails_cancels_and_deletes_custom_jobs(run: Any) -> None:
    seen = run()
    assert seen["job"]["state"] == "JOB_STATE_SUCCEEDED"
    assert seen["job"]["listed"] == [seen["job"]["name"]]
    assert "The replica workerpool0-0 exited with a non-zero status of 3." in seen["failing"]
    assert "code: 3" in seen["failing"]
    assert seen["cancelled"]["state"] == "JOB_STATE_CANCELLED"
    assert "code: 1" in seen["cancelled"]["message"]
    assert seen["cancelled"]["left"] == []


def test_the_sdk_runs_a_tuning_job(run: Any) -> None:
    seen = run("--tuning")["tuning"]
    assert seen["state"] == "JOB_STATE_SUCCEEDED"
    assert [trial["id"] for trial in seen["trials"]] == ["1", "2", "3", "4"]
    assert {trial["state"] for trial in seen["trials"]} == {"SUCCEEDED"}
    for trial in seen["trials"]:
        assert trial["loss"] == pytest.approx((trial["x"] - 2) ** 2)
