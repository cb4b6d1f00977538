"""Every example parses as Airflow parses it: without errors, and without a Google client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.laptop import DAGS

# Airflow's own look at one file, in a fresh interpreter: nothing of this process helps.
_PROBE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1], safe_mode=False, load_op_links=False)
print(json.dumps({
    "dags": {dag_id: sorted(dag.task_ids) for dag_id, dag in bag.dags.items()},
    "errors": bag.import_errors,
    "heavy": [name for name in sys.modules if name.split(".")[0] in ("grpc", "numpy", "sklearn", "pandas")
              or name.startswith("google.cloud.")],
}))
"""


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: str(path.stem))
def test_an_example_parses_without_a_google_client(path: Path, airflow_database: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["errors"] == {}
    assert found["dags"]
    assert found["heavy"] == []


def test_the_training_code_is_no_dag_file() -> None:
    assert "training/" in (DAGS / ".airflowignore").read_text().splitlines()
