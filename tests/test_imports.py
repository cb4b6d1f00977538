"""A DAG file that uses the provider pays for no Google client while it is parsed."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import airflow_provider.agent_platform as package

_ROOT = Path(package.__file__).parent

# What DAG files import, and what the triggerer imports in its event loop.
_PARTS = ("operators", "sensors", "decorators", "links", "triggers", "hooks")

_HEAVY = ("google", "grpc", "pandas", "numpy", "optuna")

# One after the other in one fresh interpreter: the first that brings something heavy in is the one that is named.
_PROBE = """
import importlib, json, sys
import airflow.sdk
import airflow.triggers.base
brought = {}
for name in sys.argv[1:]:
    before = set(sys.modules)
    importlib.import_module(name)
    brought[name] = sorted(set(sys.modules) - before)
print(json.dumps(brought))
"""


def _public_modules() -> list[str]:
    return [
        f"{package.__name__}.{part}.{module.name}"
        for part in _PARTS
        for module in pkgutil.iter_modules([str(_ROOT / part)])
    ]


def test_importing_the_public_modules_imports_no_google_client() -> None:
    modules = _public_modules()
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *modules], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    brought: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    assert list(brought) == modules
    heavy = {
        module: [name for name in names if name.partition(".")[0] in _HEAVY]
        for module, names in brought.items()
    }
    assert {module: names for module, names in heavy.items() if names} == {}


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
