"""The helper for training code: the marker last, atomically, and resuming from nothing that is not ours."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.checkpoints.store import scan
from tests.checkpoints.storage import BUCKET, StorageServer

HELPER = Path(__file__).parents[2] / "dags" / "training" / "checkpoint_io.py"


@pytest.fixture(scope="module")
def io() -> Any:
    spec = importlib.util.spec_from_file_location("checkpoint_io", HELPER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["disk", "cloud"])
def base(
    request: pytest.FixtureRequest, tmp_path: Path, server: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    monkeypatch.setenv("CLOUD_ML_JOB_ID", "77")
    where = str(tmp_path) if request.param == "disk" else f"gs://{BUCKET}/a run/ü"
    monkeypatch.setenv("AIP_CHECKPOINT_DIR", f"{where}/checkpoints/")
    return where


def put(io: Any, step: int, text: str = "state") -> str:
    def write(directory: Path) -> None:
        (directory / "deep").mkdir()
        (directory / "deep" / "model.txt").write_text(text)
        (directory / "about.txt").write_text(str(step))

    return str(io.save(step, write))


def read(directory: Path | None) -> str:
    assert directory
    return (directory / "deep" / "model.txt").read_text()


def test_what_is_saved_is_found_by_the_provider(io: Any, base: str, server: StorageServer) -> None:
    assert put(io, 10) == f"{base}/checkpoints/checkpoint-10"
    found = scan(base, server.client)
    assert found.newest
    assert (found.newest.uri, found.step) == (f"{base}/checkpoints/checkpoint-10", 10)


def test_a_fresh_start_has_nothing_to_resume_from(io: Any, base: str) -> None:
    with io.resume_from() as (directory, step):
        assert (directory, step) == (None, 0)


def test_it_resumes_from_what_it_is_given(io: Any, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = put(io, 10, "ten")
    monkeypatch.setenv("AIRFLOW_RESUME_FROM", uri)
    monkeypatch.setenv("AIRFLOW_RESUME_STEP", "10")
    with io.resume_from() as (directory, step):
        assert (read(directory), step) == ("ten", 10)


def test_a_restarted_worker_goes_on_from_its_own_jobs_newest(
    io: Any, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_RESUME_FROM", put(io, 10, "ten"))
    put(io, 100, "a hundred")
    with io.resume_from() as (directory, step):
        assert (read(directory), step) == ("a hundred", 100)


def test_another_jobs_checkpoints_are_not_resumed_from(
    io: Any, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(io, 500, "of an earlier training")
    monkeypatch.setenv("CLOUD_ML_JOB_ID", "78")
    with io.resume_from() as (directory, step):
        assert (directory, step) == (None, 0)


def test_a_half_written_checkpoint_is_not_complete(
    io: Any, base: str, server: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(io, 10)

    def fail(directory: Path) -> None:
        (directory / "a.txt").write_text("x")
        raise RuntimeError("the machine is gone")

    with pytest.raises(RuntimeError):
        io.save(20, fail)
    found = scan(base, server.client)
    assert found.step == 10
    assert found.incomplete_newer == ()


def test_an_upload_that_stops_in_the_middle_leaves_no_marker(
    io: Any, server: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.cloud.storage import Blob

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    monkeypatch.setenv("AIP_CHECKPOINT_DIR", f"gs://{BUCKET}/x/checkpoints/")
    put(io, 10)
    uploads: list[str] = []
    original = Blob.upload_from_filename

    def once(blob: Any, *args: Any, **kwargs: Any) -> None:
        if uploads:
            raise RuntimeError("the machine is gone")
        uploads.append(blob.name)
        original(blob, *args, **kwargs)

    monkeypatch.setattr(Blob, "upload_from_filename", once)
    for step in (20, 10):  # a new one, and the same again over an old one
        with pytest.raises(RuntimeError):
            put(io, step)
        uploads.clear()
    found = scan(f"gs://{BUCKET}/x", server.client)
    assert found.newest is None
    assert [item.step for item in found.incomplete_newer] == [20, 10]


def test_the_same_step_can_be_saved_again(io: Any, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(io, 10, "first")
    monkeypatch.setenv("AIRFLOW_RESUME_FROM", put(io, 10, "second"))
    with io.resume_from() as (directory, _):
        assert read(directory) == "second"


def test_no_directory_is_an_error_that_says_what_to_do(io: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIP_CHECKPOINT_DIR", raising=False)
    with pytest.raises(RuntimeError, match="base_output_directory"):
        put(io, 1)


def test_a_bucket_is_mounted_below_gcs(io: Any) -> None:
    assert io.mounted("gs://bucket/a b/c") == "/gcs/bucket/a b/c"
    assert io.mounted("/tmp/x") == "/tmp/x"


def test_it_needs_nothing_but_python() -> None:
    code = f"import runpy, sys; runpy.run_path({str(HELPER)!r}); sys.exit(any(n.startswith('google.cloud.') for n in sys.modules))"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_the_first_sigterm_asks_and_the_second_ends() -> None:
    code = (
        f"import runpy, os, signal; stop = runpy.run_path({str(HELPER)!r})['Stop'](); assert not stop;"
        "os.kill(os.getpid(), signal.SIGTERM); assert stop and stop.exit_code == 143;"
        "os.kill(os.getpid(), signal.SIGTERM)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ})
    assert done.returncode == -signal.SIGTERM
