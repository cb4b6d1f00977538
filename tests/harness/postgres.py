"""A PostgreSQL server of its own for tests: on a free port of the loopback interface, in a temporary folder.

In: the server programs of this machine. Out: database URLs. Not here: how they get installed (``.ci/run``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.harness.environment import LOOPBACK, base_environment
from tests.harness.processes import Component, free_ports, stop_all

# The server refuses to run as root; Debian's package makes this user.
_SERVER_USER = "postgres"


def find_binaries() -> Path | None:
    """Return the directory of ``initdb`` and ``postgres``, newest version first; ``None`` if absent."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: float(path.parts[-3]) if path.parts[-3].replace(".", "").isdigit() else 0.0,
    )
    if versions:
        return versions[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class PostgresServer:
    """A server for as long as the ``with`` block runs."""

    def __init__(self, binaries: Path) -> None:
        self._bin = binaries
        # Not below pytest's own directories: those are closed to the user the server runs as.
        self._root = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._user = _SERVER_USER if os.geteuid() == 0 else None
        self.port = free_ports(1)[0]
        self._env = base_environment(self._root)
        self.component = Component(
            "postgres",
            [
                str(self._bin / "postgres"),
                *("-D", str(self._root / "data")),
                *("-c", f"listen_addresses={LOOPBACK}"),
                *("-c", f"port={self.port}"),
                *("-c", "unix_socket_directories="),
                *("-c", "max_connections=200"),
                # The data is thrown away: durability would only cost time.
                *("-c", "fsync=off"),
                *("-c", "full_page_writes=off"),
            ],
            env=self._env,
            log=self._root / "postgres.log",
            cwd=self._root,
            user=self._user,
        )

    def __enter__(self) -> PostgresServer:
        try:
            if self._user:
                shutil.chown(self._root, self._user)
            self._run(
                "initdb",
                *("-D", str(self._root / "data"), "-A", "trust", "-U", "airflow"),
                *("--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"),
            )
            self.component.start()
            self._wait()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def create_database(self, name: str) -> str:
        """Create an empty database and return its SQLAlchemy URL."""
        self._run("createdb", "-h", LOOPBACK, "-p", str(self.port), "-U", "airflow", name)
        return f"postgresql+psycopg2://airflow@{LOOPBACK}:{self.port}/{name}"

    def _wait(self, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self.component.check()
            with contextlib.suppress(subprocess.CalledProcessError):
                self._run("pg_isready", "-h", LOOPBACK, "-p", str(self.port), "-U", "airflow")
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL is not ready after {seconds:.0f} s:\n{self.component.tail()}")
            time.sleep(0.1)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            check=True,
            env=self._env,
            cwd=self._root,
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _close(self) -> None:
        # SIGINT is PostgreSQL's fast shutdown: sessions are cut, the data is closed cleanly.
        stop_all([self.component], grace=5.0, number=signal.SIGINT)
        shutil.rmtree(self._root, ignore_errors=True)
