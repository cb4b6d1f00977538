"""Checkpoints that a preempted training can trust: write elsewhere first, upload, the marker last.

Copy this file beside your training code: it needs Python 3.9 and nothing else, and google-cloud-storage only
for ``gs://`` directories. It writes the plain layout that the provider recognises::

    <AIP_CHECKPOINT_DIR>/checkpoint-<step>/<your files>
    <AIP_CHECKPOINT_DIR>/checkpoint-<step>/_SUCCESS      written last

In a training loop::

    from checkpoint_io import Stop, resume_from, save

    stop = Stop()                                  # SIGTERM: the machine is about to be taken away
    with resume_from() as (directory, step):       # AIRFLOW_RESUME_FROM, fetched; (None, 0) for a fresh start
        if directory:
            load(directory / "model.pkl")
    while step < steps:
        train_one(step)
        step += 1
        if step % 100 == 0 or stop:
            save(step, lambda directory: dump(directory / "model.pkl"))
        if stop:
            raise SystemExit(stop.exit_code)

Only one process of a job should save: the one with ``RANK`` 0.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

MARKER = "_SUCCESS"


class Stop:
    """Becomes true when the platform sends SIGTERM: save now, there are about 30 seconds.

    Create it in the main thread. A second SIGTERM ends the process at once.
    """

    exit_code = 128 + signal.SIGTERM

    def __init__(self) -> None:
        self.requested = False
        signal.signal(signal.SIGTERM, self._request)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def __bool__(self) -> bool:
        return self.requested


def checkpoint_dir() -> str:
    """Return ``AIP_CHECKPOINT_DIR`` without a trailing slash.

    :raises RuntimeError: it is not set, which is so when the job has no ``base_output_directory``.
    """
    directory = os.environ.get("AIP_CHECKPOINT_DIR", "").rstrip("/")
    if not directory:
        raise RuntimeError("AIP_CHECKPOINT_DIR is not set: give the job a base_output_directory")
    return directory


def mounted(uri: str) -> str:
    """Return where a worker sees a ``gs://`` URI as files: ``/gcs/<bucket>/...``. A local path stays as it
    is."""
    return f"/gcs/{uri[len('gs://') :]}" if uri.startswith("gs://") else uri


@contextmanager
def resume_from() -> Iterator[tuple[Path | None, int]]:
    """Give a local directory with the files of the checkpoint to resume from, and its step; (None, 0) for a
    fresh start.

    Reads ``AIRFLOW_RESUME_FROM`` and ``AIRFLOW_RESUME_STEP``, which are set when the job is submitted. A
    worker that the platform restarts inside the same job may have saved more since: the marker carries the
    job's id, so that the newest checkpoint of this very job is taken when it is further. One of another job
    never is.
    """
    uri = os.environ.get("AIRFLOW_RESUME_FROM", "").rstrip("/")
    step = _step(uri) if uri else 0
    job = os.environ.get("CLOUD_ML_JOB_ID")
    if job and os.environ.get("AIP_CHECKPOINT_DIR"):
        for newer in sorted(complete(checkpoint_dir()), key=_step, reverse=True):
            if _step(newer) <= step:
                break
            if _read(f"{newer}/{MARKER}") == job:
                uri, step = newer, _step(newer)
                break
    if not uri:
        yield None, 0
        return
    if not uri.startswith("gs://"):
        yield Path(uri), step
        return
    with tempfile.TemporaryDirectory(prefix="resume-") as local:
        _download(uri, Path(local))
        yield Path(local), step


def save(step: int, write: Callable[[Path], object]) -> str:
    """Save the checkpoint of a step and return its address.

    :param write: writes all files of the checkpoint into the directory that it is given.
    """
    target = f"{checkpoint_dir()}/checkpoint-{step}"
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as local:
        write(Path(local))
        if target.startswith("gs://"):
            _upload(Path(local), target)
        else:
            _copy(Path(local), Path(target))
    return target


def complete(directory: str) -> list[str]:
    """Return the addresses of all complete checkpoints below a directory."""
    return [marker.rpartition("/")[0] for marker in _markers(directory.rstrip("/"))]


def _step(uri: str) -> int:
    found = re.search(r"-(\d+)$", uri)
    if found:
        return int(found.group(1))
    return int(os.environ.get("AIRFLOW_RESUME_STEP") or 0)


def _markers(directory: str) -> list[str]:
    if directory.startswith("gs://"):
        bucket, prefix = _bucket(directory)
        names = (
            f"gs://{bucket.name}/{blob.name}" for blob in bucket.list_blobs(prefix=f"{prefix}/checkpoint-")
        )
    else:
        names = (str(path) for path in Path(directory).glob(f"checkpoint-*/{MARKER}"))
    return [name for name in names if re.search(rf"/checkpoint-\d+/{MARKER}$", name)]


def _upload(local: Path, target: str) -> None:
    bucket, prefix = _bucket(target)
    # A marker of an earlier training with the same step must not vouch for files that are being replaced.
    marker = bucket.blob(f"{prefix}/{MARKER}")
    if marker.exists():
        marker.delete()
    for path in sorted(item for item in local.rglob("*") if item.is_file()):
        bucket.blob(f"{prefix}/{path.relative_to(local).as_posix()}").upload_from_filename(str(path))
    marker.upload_from_string(_job())


def _copy(local: Path, target: Path) -> None:
    """Copy under a temporary name first: a mounted or shared directory shows half-written files."""
    marker = target / MARKER
    marker.unlink(missing_ok=True)
    for path in sorted(item for item in local.rglob("*") if item.is_file()):
        final = target / path.relative_to(local)
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.with_name(f"{final.name}.tmp")
        shutil.copyfile(path, partial)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(final)
    target.mkdir(parents=True, exist_ok=True)
    partial = target / f"{MARKER}.tmp"
    partial.write_text(_job())
    partial.replace(marker)


def _download(uri: str, local: Path) -> None:
    bucket, prefix = _bucket(uri)
    for blob in bucket.list_blobs(prefix=f"{prefix}/"):
        if blob.name.endswith("/"):
            continue
        path = local / blob.name[len(prefix) + 1 :]
        path.parent.mkdir(parents=True, exist_ok=True)
        blob.download_to_filename(str(path))


def _job() -> str:
    return os.environ.get("CLOUD_ML_JOB_ID", "")


def _read(uri: str) -> str:
    if not uri.startswith("gs://"):
        return Path(uri).read_text()
    bucket, name = _bucket(uri)
    return str(bucket.blob(name).download_as_text())


def _bucket(uri: str) -> tuple[Any, str]:
    from google.cloud import storage

    name, _, prefix = uri[len("gs://") :].partition("/")
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        from google.auth.credentials import AnonymousCredentials

        client = storage.Client(project="emulator", credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    else:
        client = storage.Client()
    return client.bucket(name), prefix
