"""What holds for every test: an Airflow home of its own, and nothing of the developer's environment.

In: nothing. Out: an environment that is set before Airflow is imported for the first time (Airflow reads it
then).
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

_LEAKS = ("AIRFLOW", "AGENT_PLATFORM", "STORAGE_EMULATOR", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "GCP_", "AIP_")


def _isolate() -> Path:
    """Put the whole test process into a temporary Airflow home and take Google's settings away."""
    for name in [name for name in os.environ if name.startswith(_LEAKS)]:
        del os.environ[name]
    home = Path(tempfile.mkdtemp(prefix="airflow-tests-"))
    # The process that made it removes it: a forked child of a test leaves through os._exit and runs no
    # atexit.
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ.update(
        AIRFLOW_HOME=str(home),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__UNIT_TEST_MODE="False",
        AIRFLOW__CORE__HOSTNAME_CALLABLE="socket.gethostname",
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{home}/airflow.db",
        AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
        # No real credentials: an empty configuration folder, and no question to a metadata server.
        CLOUDSDK_CONFIG=str(home / "no-google-config"),
        NO_GCE_CHECK="true",
        NO_PROXY="127.0.0.1,localhost",
        no_proxy="127.0.0.1,localhost",
    )
    return home


AIRFLOW_HOME = _isolate()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the tests out by set-up (``make test``); xdist is imported only where it runs."""
    from tests.scheduling import BySetUp

    return BySetUp(config, log)


@pytest.fixture(scope="session")
def airflow_database() -> Path:
    """Make Airflow's database in this process's home once, for tests that call ``dag.test()`` or the ORM."""
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
    )
    return AIRFLOW_HOME
