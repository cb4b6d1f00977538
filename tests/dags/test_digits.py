"""The example's training code: what it prints, where it stops, and that a resumed training is the same training."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.checkpoints.storage import BUCKET, StorageServer
from tests.harness.laptop import DAGS

SCRIPT = DAGS / "training" / "digits.py"
DATA = f"gs://{BUCKET}/data/digits.npz"
STEPS = 40


@pytest.fixture(scope="module")
def storage() -> Iterator[StorageServer]:
    """A bucket with a small data set in it."""
    images, labels = load_digits(return_X_y=True)
    file = io.BytesIO()
    np.savez_compressed(file, train_images=images[:300] / 16, train_labels=labels[:300])
    with StorageServer() as server:
        server.client().bucket(BUCKET).blob("data/digits.npz").upload_from_string(file.getvalue())
        yield server


def _start(
    storage: StorageServer, folder: str, job: str, *arguments: str, **env: str
) -> subprocess.Popen[str]:
    base = f"gs://{BUCKET}/{folder}"
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--data", DATA, "--save-every", "10", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "STORAGE_EMULATOR_HOST": storage.url,
            "AIP_CHECKPOINT_DIR": f"{base}/checkpoints/",
            "AIP_MODEL_DIR": f"{base}/model/",
            "CLOUD_ML_JOB_ID": job,
            **env,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _run(storage: StorageServer, folder: str, job: str, steps: int, **env: str) -> list[str]:
    process = _start(storage, folder, job, "--steps", str(steps), **env)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output.splitlines()


def _losses(lines: list[str]) -> dict[int, str]:
    found = (re.match(r"step (\d+) of \d+, loss (\S+)", line) for line in lines)
    return {int(match.group(1)): match.group(2) for match in found if match}


def test_a_resumed_training_is_the_same_training(storage: StorageServer) -> None:
    whole = _run(storage, "whole", "1", STEPS)
    assert whole[0] == "starting from step 0"
    assert whole[-1] == f"wrote the model to gs://{BUCKET}/whole/model/model.joblib"

    _run(storage, "parts", "1", STEPS // 2)
    rest = _run(
        storage,
        "parts",
        "2",
        STEPS,
        AIRFLOW_RESUME_FROM=f"gs://{BUCKET}/parts/checkpoints/checkpoint-{STEPS // 2}",
        AIRFLOW_RESUME_STEP=str(STEPS // 2),
    )

    assert rest[0] == f"resuming from step {STEPS // 2}"
    assert min(_losses(rest)) > STEPS // 2
    assert _losses(rest).items() <= _losses(whole).items()


def test_another_job_without_a_resume_starts_anew(storage: StorageServer) -> None:
    _run(storage, "anew", "1", 10)
    assert _run(storage, "anew", "2", 10)[0] == "starting from step 0"


def test_the_training_saves_where_it_is_told_to_stop(storage: StorageServer) -> None:
    process = _start(storage, "stopped", "1", "--steps", "100000")
    assert process.stdout is not None
    lines = []
    with process.stdout:
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("step 20 "):
                process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM

    stopped = re.fullmatch(r"told to stop at step (\d+)", lines[-1])
    assert stopped, lines
    names = {blob.name for blob in storage.client().list_blobs(BUCKET, prefix="stopped/checkpoints/")}
    assert f"stopped/checkpoints/checkpoint-{stopped.group(1)}/_SUCCESS" in names
    assert not Path("stopped").exists()
