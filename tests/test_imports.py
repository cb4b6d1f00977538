"""A DAG file that uses the provider pays for no Google client while it is parsed."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider.agent_platform as package

_ROOT = Path(package.__file__).parent

# What DAG files import, and what the triggerer imports in its event loop.
_PARTS = ("operators", "sensors", "decorators", "links", "triggers")

_HEAVY = ("google", "grpc", "pandas", "numpy", "optuna")

_PROBE = """
import importlib, json, sys
import airflow.sdk
import airflow.triggers.base
before = set(sys.modules)
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def _public_modules() -> list[str]:
    return [
        f"{package.__name__}.{part}.{module.name}"
        for part in _PARTS
        for module in pkgutil.iter_modules([str(_ROOT / part)])
    ]


@pytest.mark.parametrize("module", _public_modules())
def test_importing_a_public_module_imports_no_google_client(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, module], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in imported if name.partition(".")[0] in _HEAVY] == []


def test_airflow_itself_imports_no_google_client_either() -> None:
    """Else the tests above would look at what was there before, and prove nothing."""
    # google.cloud itself is there from the start: an old-style namespace package that a .pth file makes.
    probe = (
        "import sys, airflow.sdk, airflow.triggers.base;"
        "print([name for name in sys.modules if name.startswith(('google.cloud.', 'grpc'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
