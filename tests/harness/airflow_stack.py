"""A real Airflow on this machine: api-server, scheduler, dag-processor and triggerers as their own processes.

In: a home directory, a DAGs folder, a database URL and extra environment. Out: running components and a REST
client. Everything listens on the loopback interface only, on free ports. Not here: the emulators beside it
(``services``).
"""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import httpx

from tests.harness.airflow_api import AirflowApi
from tests.harness.environment import LOOPBACK, base_environment
from tests.harness.processes import Component, free_ports, listening_beyond_loopback, stop_all
from tests.harness.waiting import wait_until

# ``standalone`` and the two log servers listen on every interface, and their address cannot be set: so the
# components are started one by one, without log servers. Logs are read from the disk they all share.
_COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}

USER = "admin"

# The scheduler forks a process for each task. What it has imported by then, no task has to import again: of the
# second of CPU that each would cost, a fifth is left.
_LOCAL_SETTINGS = """\
import sys

if "scheduler" in sys.argv:
    import airflow.sdk.execution_time.task_runner
    import google.cloud.aiplatform_v1

    import airflow_provider.agent_platform.operators.conduct
    import airflow_provider.agent_platform.operators.custom_job
"""


class AirflowStack:
    """One Airflow for as long as the ``with`` block runs.

    :param home: becomes ``AIRFLOW_HOME``; made if absent.
    :param dags_folder: the DAGs to run.
    :param database_url: an SQLAlchemy URL; ``None`` for SQLite in the home.
    :param env: more environment for every component (connections, emulator addresses).
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        *,
        database_url: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.port = free_ports(1)[0]
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.password = secrets.token_urlsafe(12)
        self.api = AirflowApi(self.url, USER, self.password)
        self.components: dict[str, Component] = {}
        self.env = {
            **base_environment(home),
            **self._settings(dags_folder, database_url or f"sqlite:///{home}/airflow.db"),
            **(env or {}),
        }

    def __enter__(self) -> AirflowStack:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start all four components; return when all of them are healthy."""
        for name in _COMPONENTS:
            self.component(name).start()
        self.wait_healthy()

    def prepare(self) -> None:
        """Make the home, the local settings, the user's password and the database."""
        config = self.home / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "airflow_local_settings.py").write_text(_LOCAL_SETTINGS)
        passwords = self.home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({USER: self.password}))
        self.cli("db", "migrate")

    def component(self, name: str) -> Component:
        """Return a component by name, not started the first time it is asked for.

        :param name: ``api-server``, ``scheduler``, ``dag-processor``, ``triggerer``; or one of these with a
            suffix after a colon (``triggerer:2``) for a second one of its kind.
        """
        if name not in self.components:
            self.components[name] = Component(
                name,
                [sys.executable, "-m", "airflow", *_COMPONENTS[name.partition(":")[0]]],
                env=self.env,
                log=self.home / "component-logs" / f"{name.replace(':', '-')}.log",
                cwd=self.home,
            )
        return self.components[name]

    def cli(self, *arguments: str, timeout: float = 120.0) -> str:
        """Run an ``airflow`` command and return what it printed on stdout.

        :raises RuntimeError: when it fails, with all that it printed.
        """
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            raise RuntimeError(
                f"airflow {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout

    def check(self) -> None:
        """Raise when a component has died by itself."""
        for component in self.components.values():
            component.check()

    def wait_healthy(self, seconds: float = 90.0) -> None:
        """Wait until the API answers and every component reports a fresh heartbeat."""

        def healthy() -> bool:
            try:
                health = self.api.health()
            except (httpx.TransportError, httpx.HTTPStatusError):
                return False
            parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
            return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

        wait_until(healthy, "Airflow to be healthy", seconds=seconds, every=0.25, watch=self.check)

    def wait_for_dag(self, dag_id: str, seconds: float = 60.0) -> None:
        """Wait until the dag-processor has stored a DAG."""
        try:
            wait_until(lambda: self.api.has_dag(dag_id), f"DAG {dag_id}", seconds=seconds, watch=self.check)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; import errors: {self.api.import_errors()}") from None

    def listening_beyond_loopback(self) -> list[str]:
        """Return the listening sockets of all components that other machines could reach."""
        return listening_beyond_loopback(self.pids())

    def pids(self) -> list[int]:
        """Return the ids of every process of every component."""
        return [pid for component in self.components.values() for pid in component.members()]

    def close(self) -> None:
        """Stop everything, in an order in which each can still say good-bye to the api-server."""
        server = self.components.get("api-server")
        stop_all([each for each in self.components.values() if each is not server], grace=6.0)
        stop_all([server] if server else [], grace=4.0)
        self.api.close()

    def _settings(self, dags_folder: Path, database_url: str) -> dict[str, str]:
        sections: dict[str, dict[str, object]] = {
            "core": {
                "dags_folder": dags_folder,
                "load_examples": False,
                "dags_are_paused_at_creation": False,
                "execution_api_server_url": f"{self.url}/execution/",
                "simple_auth_manager_users": f"{USER}:admin",
                "simple_auth_manager_passwords_file": self.home / "passwords.json",
                "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                "parallelism": 4,
                # The default asks DNS for this machine's full name, which takes seconds where there is no
                # DNS.
                "hostname_callable": "socket.gethostname",
            },
            "database": {"sql_alchemy_conn": database_url},
            "api": {"host": LOOPBACK, "port": self.port, "base_url": self.url, "workers": 1},
            "api_auth": {"jwt_secret": secrets.token_urlsafe(64)},
            # A busy machine may answer late; after five answers that took 5 seconds each, a task without retries fails.
            "workers": {"execution_api_timeout": 30},
            "scheduler": {"scheduler_idle_sleep_time": 0.5},
            "dag_processor": {"refresh_interval": 5, "min_file_process_interval": 5, "parsing_processes": 1},
            "logging": {"base_log_folder": self.home / "logs", "colored_console_log": False},
            "usage_data_collection": {"enabled": False},
        }
        flat = {
            f"AIRFLOW__{section.upper()}__{key.upper()}": str(value)
            for section, options in sections.items()
            for key, value in options.items()
        }
        return {"AIRFLOW_HOME": str(self.home), **flat}
