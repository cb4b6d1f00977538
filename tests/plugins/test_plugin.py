"""Airflow loads the plugin everywhere; its listener is in the api-server alone."""

from __future__ import annotations

import subprocess
import sys

_LISTENERS = """
import sys
{before}
from airflow.listeners.listener import get_listener_manager
names = [getattr(each, "__name__", "") for each in get_listener_manager().pm.get_plugins()]
print([name for name in names if "agent_platform" in name])
"""


def listeners(before: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", _LISTENERS.format(before=before)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_the_api_server_has_our_listener(airflow_database: object) -> None:
    assert (
        listeners("import airflow.api_fastapi.main")
        == "['airflow_provider.agent_platform.plugins.ended_tasks']"
    )


def test_no_other_component_has_it_since_it_would_break_dags_that_end_from_their_trigger() -> None:
    assert listeners() == "[]"


def test_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, airflow.sdk.plugins_manager\n"
        "known = set(sys.modules)\n"
        "import airflow_provider.agent_platform.plugins.plugin\n"
        "print(sorted(set(sys.modules) - known))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    loaded = done.stdout.splitlines()[-1]
    assert "plugins.plugin" in loaded
    assert "orphans" not in loaded
    assert "triggers" not in loaded
