"""``python_package_spec``: what is installed, from where, and that it stays in its directory."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider.agent_platform.emulator.runners import packages

TASK = "import helper, os, sys\nprint('args', sys.argv[1:])\nprint('from', helper.__file__)\nprint('X', os.environ['X'])\n"


def wheel(directory: Path, *, version: str = "1.0") -> Path:
    """A package, as a wheel made by hand."""
    path = directory / f"trainer-{version}-py3-none-any.whl"
    info = f"trainer-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trainer/__init__.py", "")
        archive.writestr("trainer/task.py", TASK)
        archive.writestr("helper.py", "")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: trainer\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def job(uris: list[str], module: str = "trainer.task") -> dict[str, Any]:
    package = {
        "executor_image_uri": "us-docker.pkg.dev/vertex-ai/training/image",
        "package_uris": uris,
        "python_module": module,
        "args": ["--epochs", "2", "$(X)"],
        "env": [{"name": "X", "value": "1"}],
    }
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "python_package_spec": package,
    }
    return {"display_name": "package", "job_spec": {"worker_pool_specs": [pool]}}


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server that hands out objects as Cloud Storage does: its URL, and where objects lie."""
    root = tmp_path / "objects"
    root.mkdir()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/storage/v1/b/bucket/o/").removesuffix("?alt=media")
            file = root / name
            self.send_response(200 if file.exists() else 404)
            self.end_headers()
            if file.exists():
                self.wfile.write(file.read_bytes())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", root
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_package_of_the_storage_emulator_is_installed_for_its_job_alone(
    fast_cloud: Callable[..., Any], storage: tuple[str, Path], tmp_path: Path
) -> None:
    host, root = storage
    made = wheel(tmp_path)
    made.rename(root / quote(f"some dir/{made.name}", safe=""))
    cloud = fast_cloud(storage_host=host)
    name = cloud.create(job([f"gs://bucket/some dir/{made.name}"]))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED", cloud.lines(name)
    said = cloud.lines(name, "workerpool0-0")
    assert said[0] == "args ['--epochs', '2', '$(X)']"
    assert f"/{name.rpartition('/')[2]}/" in said[1]
    assert importlib.util.find_spec("trainer") is None


def test_a_source_package_is_built_and_installed(cloud: Any, tmp_path: Path) -> None:
    source = tmp_path / "trainer-1.0"
    (source / "trainer").mkdir(parents=True)
    (source / "trainer" / "__init__.py").touch()
    (source / "trainer" / "task.py").write_text("print('built')")
    (source / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='trainer', version='1.0', packages=['trainer'])"
    )
    with tarfile.open(tmp_path / "trainer-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "trainer-1.0")
    name = cloud.create(job([f"file://{tmp_path / 'trainer-1.0.tar.gz'}"]))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED", cloud.lines(name)
    assert "built" in cloud.lines(name, "workerpool0-0")


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("/no/such/trainer-1.0.whl", "No such file"),
        ("gs://bucket/trainer-1.0.whl", "--storage-host"),
    ],
)
def test_a_package_that_cannot_be_had_makes_the_replica_exit_1(uri: str, said: str, cloud: Any) -> None:
    found = cloud.wait(cloud.create(job([uri])))
    assert (found.state.name, found.error.code) == ("JOB_STATE_FAILED", 3)
    assert "exited with a non-zero status of 1." in found.error.message
    assert said in found.error.message


@pytest.mark.parametrize(
    "uri", ["gs://bucket/..", "gs://bucket/a/..", "/", "file:///x/%2e%2e", "gs://bucket/"]
)
def test_an_uri_that_names_no_file_is_refused(uri: str, tmp_path: Path) -> None:
    with pytest.raises(packages.InstallError):
        packages.fetch(uri, tmp_path / "0", "http://127.0.0.1:1")


@pytest.mark.parametrize("uri", ["https://x/p.whl", "trainer", "ftp://x/p.whl", "../trainer-1.0.whl"])
def test_another_kind_of_uri_is_refused(uri: str, tmp_path: Path) -> None:
    with pytest.raises(packages.InstallError, match="expected gs://"):
        packages.fetch(uri, tmp_path / "0", "http://127.0.0.1:1")


def test_a_path_that_climbs_lands_in_the_directory_all_the_same(
    storage: tuple[str, Path], tmp_path: Path
) -> None:
    host, root = storage
    (root / quote("../../evil.whl", safe="")).write_bytes(b"x")
    copy = packages.fetch("gs://bucket/../../evil.whl", tmp_path / "work" / "0", host)
    assert copy == tmp_path / "work" / "0" / "evil.whl"
    (tmp_path / "p.whl").write_bytes(b"y")
    fetch = functools.partial(packages.fetch, directory=tmp_path / "work" / "1", storage_host="")
    assert fetch(f"file://{tmp_path}/%2e/p.whl") == tmp_path / "work" / "1" / "p.whl"


def test_an_archive_that_climbs_does_not_get_out(cloud: Any, tmp_path: Path) -> None:
    path = wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../../escaped.py", "")
    cloud.wait(cloud.create(job([str(path)])))
    root = cloud.emulator.server.runner.root
    assert not [found for found in root.parent.glob("escaped.py")]
