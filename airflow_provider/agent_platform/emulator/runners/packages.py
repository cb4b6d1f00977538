"""Installs the packages of a ``python_package_spec`` for one replica.

In: package URIs (``gs://`` of the storage emulator, ``file://`` or an absolute path). Out: a directory for
``PYTHONPATH``. Everything is written below the directory that is given; nothing is installed elsewhere.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

DOWNLOAD_SECONDS = 60
INSTALL_SECONDS = 600


class InstallError(Exception):
    """A package could not be had or installed; the text is what pip, or the storage, said."""


def install(
    uris: Sequence[str], directory: Path, *, environment: Mapping[str, str], storage_host: str | None
) -> Path:
    """Fetch and install.

    :param directory: made afresh.
    :raises InstallError: the worker then exits 1, as the service's container does.
    """
    shutil.rmtree(directory, ignore_errors=True)
    target = directory / "site"
    target.mkdir(parents=True)
    files = [fetch(uri, directory / str(number), storage_host) for number, uri in enumerate(uris)]
    for file in files:
        _pip(file, target, environment)
    return target


def fetch(uri: str, directory: Path, storage_host: str | None) -> Path:
    """A local copy of a package, below ``directory`` whatever its URI says.

    :raises InstallError: it is not there, or the URI is of another kind.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path) if parts.scheme == "file" else parts.path if parts.scheme else uri
    name = Path(path).name
    if not name or name in (".", "..") or "\x00" in uri:
        raise InstallError(f"Package {uri!r}: the URI names no file.")
    directory.mkdir(parents=True, exist_ok=True)
    copy = directory / name
    if parts.scheme == "gs":
        _download(uri, parts.netloc, uri.removeprefix(f"gs://{parts.netloc}/"), copy, storage_host)
    elif parts.scheme in ("", "file") and Path(path).is_absolute():
        try:
            shutil.copyfile(path, copy)
        except OSError as error:
            raise InstallError(f"Package {uri!r}: {error.strerror}.") from error
    else:
        raise InstallError(
            f"Package {uri!r}: expected gs://<bucket>/<object>, file:///<path> or an absolute path."
        )
    return copy


def _download(uri: str, bucket: str, name: str, copy: Path, storage_host: str | None) -> None:
    if not storage_host:
        raise InstallError(f"Package {uri!r}: start the emulator with --storage-host to use gs:// packages.")
    host = storage_host if "://" in storage_host else f"http://{storage_host}"
    url = f"{host.rstrip('/')}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}?alt=media"
    try:
        # No proxy: the storage emulator is on this machine or beside it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=DOWNLOAD_SECONDS) as answer, copy.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise InstallError(f"Package {uri!r}: {error}") from error


def _pip(file: Path, target: Path, environment: Mapping[str, str]) -> None:
    words = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check",
             "--no-warn-script-location", "--quiet", "--target", str(target), "--upgrade"]  # fmt: skip
    attempts = [[*words, str(file)]]
    if file.suffix != ".whl" and importlib.util.find_spec("setuptools"):
        # What is here builds most packages, without an index; the isolated way is for the others.
        attempts.insert(0, [*words, "--no-build-isolation", str(file)])
    said = ""
    for attempt in attempts:
        try:
            done = subprocess.run(  # noqa: S603 - words of our own and a file below our directory
                attempt, env={**environment, "TMPDIR": str(target.parent)}, cwd=target.parent, text=True,
                stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise InstallError(f"pip install {file.name}: no end after {INSTALL_SECONDS} s") from error
        if done.returncode == 0:
            return
        said = said or done.stderr or done.stdout
    raise InstallError(f"pip install {file.name} failed:\n{said.strip()}")
