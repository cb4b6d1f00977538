"""Airflow finds this package, and shows it, as any other provider."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

DISTRIBUTION = "airflow-provider-agent-platform"


def _airflow(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_airflow_lists_the_provider_with_its_version() -> None:
    rows = [
        line
        for line in _airflow("providers", "list", "--output", "plain").splitlines()
        if DISTRIBUTION in line
    ]
    assert len(rows) == 1
    assert version(DISTRIBUTION) in rows[0]


def test_airflow_shows_the_provider() -> None:
    shown = _airflow("providers", "get", DISTRIBUTION, "--full", "--output", "yaml")
    assert DISTRIBUTION in shown
    assert "training" in shown.lower()
