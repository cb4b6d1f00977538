"""The snippets of docs/checkpoints.md: each runs, is ended by SIGTERM, leaves a complete checkpoint and
resumes from it.

Those of a framework run where it is installed: in this environment, or in the one whose Python is named by
``CHECKPOINT_FRAMEWORKS_PYTHON``. Without one they are compiled and read, and the run is skipped.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, scan

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "checkpoints.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", DOCS, flags=re.DOTALL))
MODULES = {"plain": "pickle", "torch_distributed": "torch", "orbax": "orbax.checkpoint"}
PYTHON = os.environ.get("CHECKPOINT_FRAMEWORKS_PYTHON", sys.executable)


def start(
    name: str, directory: Path, *, steps: int, found: CheckpointScan | None = None
) -> subprocess.Popen[str]:
    script = directory / "train.py"
    script.write_text(SNIPPETS[name])
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "dags" / "training"),
        "AIP_CHECKPOINT_DIR": f"{directory}/base/checkpoints/",
        "STEPS": str(steps),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **dict.fromkeys(("RANK", "LOCAL_RANK"), "0"),
        "WORLD_SIZE": "1",
    }
    if found and found.newest:
        environment["AIRFLOW_RESUME_FROM"] = found.newest.uri
        environment["AIRFLOW_RESUME_STEP"] = str(found.newest.step)
    python = sys.executable if name == "plain" else PYTHON
    with (directory / "stderr").open("w") as errors:
        return subprocess.Popen(
            [python, str(script)],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Leave no process of the group behind, whatever happens."""
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def is_installed(name: str) -> bool:
    if name == "plain":
        return True
    code = (
        f"import importlib.util, sys; sys.exit(importlib.util.find_spec({MODULES.get(name, name)!r}) is None)"
    )
    return subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_compiles_and_honours_both(name: str) -> None:
    compile(SNIPPETS[name], name, "exec")
    assert "AIRFLOW_RESUME_FROM" in SNIPPETS[name] or "resume_from()" in SNIPPETS[name]
    assert "stop = Stop()" in SNIPPETS[name]
    assert "raise SystemExit(stop.exit_code)" in SNIPPETS[name]


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_stops_in_time_and_resumes(name: str, tmp_path: Path) -> None:
    if not is_installed(name):
        pytest.skip(
            f"{name} is not installed (CHECKPOINT_FRAMEWORKS_PYTHON names an environment that has it)"
        )
    base = str(tmp_path / "base")
    with ended(start(name, tmp_path, steps=10**6)) as first:
        deadline = time.monotonic() + 240
        while scan(base).newest is None:
            assert first.poll() is None, (tmp_path / "stderr").read_text()[-3000:]
            assert time.monotonic() < deadline, "no checkpoint came"
            time.sleep(0.2)
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=120)
    assert first.returncode == 143, (tmp_path / "stderr").read_text()[-3000:]
    found = scan(base)
    assert found.known, found.problem
    assert found.step
    assert found.incomplete_newer == ()

    with ended(start(name, tmp_path, steps=found.step + 30, found=found)) as second:
        output, _ = second.communicate(timeout=240)
    assert second.returncode == 0, (tmp_path / "stderr").read_text()[-3000:]
    assert f"resumed at {found.step}\n" in output


def test_the_layouts_of_the_documentation_are_the_ones_there_are() -> None:
    table = DOCS.partition("## What is recognised")[2].partition("Layouts may be mixed")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "layout" not in line]
    assert len(rows) == 11


def test_the_recogniser_of_the_documentation_works() -> None:
    from airflow_provider.agent_platform.checkpoints.recognisers import StoredObject, recognise

    code = re.search(r"```python\n(from airflow_provider.*?def recognise.*?)```", DOCS, flags=re.DOTALL)
    assert code
    namespace: dict[str, object] = {}
    exec(compile(code.group(1), "docs", "exec"), namespace)
    names = ("s5/weights.bin", "s5/done.txt", "s6/weights.bin")
    seen = recognise([StoredObject(name, 1, 1.0) for name in names], recognisers=[namespace["recognise"]])  # type: ignore[list-item]
    assert [(item.step, item.complete) for item in seen] == [(5, True), (6, False)]
