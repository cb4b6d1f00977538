"""Installs the packages of a ``python_package_spec``, then becomes the training program.

Run in the worker's place as ``python -I -S packages.py DIRECTORY STORAGE_HOST URI... -- COMMAND...``, so that a
cancel, the memory limit and the log hold for pip too. In: package URIs (``gs://`` of the storage emulator,
``file://`` or an absolute path). Everything is written below DIRECTORY; nothing is installed elsewhere. What
fails is said on stderr, and the exit code is 1, as in the service's container. Imports nothing of ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

DOWNLOAD_SECONDS = 60


class InstallError(Exception):
    """A package could not be had or installed; the text says which, and why."""


def command(
    directory: Path, storage_host: str | None, uris: tuple[str, ...], program: tuple[str, ...]
) -> list[str]:
    """The words that run this file."""
    return [sys.executable, "-I", "-S", __file__, str(directory), storage_host or "", *uris, "--", *program]


def fetch(uri: str, directory: Path, storage_host: str) -> Path:
    """A local copy of a package, below ``directory`` whatever its URI says.

    :raises InstallError: it is not there, or the URI is of another kind.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path) if parts.scheme == "file" else uri
    name = Path(path).name
    if not name or name in (".", "..") or "\x00" in uri:
        raise InstallError(f"Package {uri!r}: the URI names no file.")
    directory.mkdir(parents=True, exist_ok=True)
    copy = directory / name
    if parts.scheme == "gs":
        _download(uri, copy, storage_host)
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


def _download(uri: str, copy: Path, storage_host: str) -> None:
    if not storage_host:
        raise InstallError(f"Package {uri!r}: start the emulator with --storage-host to use gs:// packages.")
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    url = f"{storage_host}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}?alt=media"
    try:
        # No proxy: the storage emulator is on this machine or beside it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=DOWNLOAD_SECONDS) as answer, copy.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, ValueError) as error:
        raise InstallError(f"Package {uri!r}: {error}") from error


def install(file: Path, target: Path) -> None:
    """``pip install --target``.

    :raises InstallError: pip failed; its own words are on stderr.
    """
    words = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    words += ["--no-warn-script-location", "--quiet", "--upgrade", "--target", str(target)]
    environment = {**os.environ, "TMPDIR": str(target.parent)}
    if file.suffix != ".whl":
        # What is installed here builds most packages, and needs no index; the isolated way is for the others.
        here = subprocess.run(  # noqa: S603 - no shell, and a file below our directory
            [*words, "--no-build-isolation", str(file)], env=environment, check=False, capture_output=True
        )
        if here.returncode == 0:
            return
    done = subprocess.run([*words, str(file)], env=environment, check=False)  # noqa: S603 - as above
    if done.returncode:
        raise InstallError(f"pip install {file.name} failed with exit code {done.returncode}.")


def main(words: list[str]) -> None:
    """Install, then execute the program."""
    directory, storage_host, *rest = words
    border = rest.index("--")
    uris, program = rest[:border], rest[border + 1 :]
    root = Path(directory)
    shutil.rmtree(root, ignore_errors=True)
    target = root / "site"
    target.mkdir(parents=True)
    try:
        for number, uri in enumerate(uris):
            install(fetch(uri, root / str(number), storage_host), target)
    except InstallError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    paths = [str(target), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.execvpe(program[0], program, {**os.environ, "PYTHONPATH": os.pathsep.join(paths)})  # noqa: S606 - no shell


if __name__ == "__main__":
    main(sys.argv[1:])
