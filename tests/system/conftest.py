"""Fixtures of the system tests: one running set-up for each kind of database, shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.laptop import DAGS, Laptop
from tests.harness.postgres import PostgresServer, find_binaries

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as a system test, and give it time to boot a set-up."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.system)
            # The first of a session boots everything on its own time.
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server; only a developer's machine may do without one."""
    binaries = find_binaries()
    if binaries is None:
        reason = "no PostgreSQL server programs here (Debian: apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with PostgresServer(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """Airflow in four processes on SQLite, the emulator and a storage emulator."""
    root = tmp_path_factory.mktemp("laptop sqlite")
    with Laptop(root, dags_folder=_all_dags(root)) as laptop:
        yield laptop


@pytest.fixture(scope="session")
def postgres_laptop(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Laptop]:
    """The same on PostgreSQL, also for tests that load all of it at once."""
    root = tmp_path_factory.mktemp("laptop postgres")
    url = postgres_server.create_database("airflow")
    with Laptop(root, dags_folder=_all_dags(root), database_url=url) as laptop:
        yield laptop


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def laptop(request: pytest.FixtureRequest) -> Laptop:
    """The whole set-up, once on SQLite and once on PostgreSQL."""
    found: Laptop = request.getfixturevalue(f"{request.param}_laptop")
    return found


def _all_dags(root: Path) -> Path:
    """Return one folder with the examples and the DAGs that only tests run."""
    folder = root / "dags"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "examples").symlink_to(DAGS)
    (folder / "tests").symlink_to(_HERE / "dags")
    return folder


@pytest.fixture(autouse=True)
def _clean_emulator(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forget the jobs and faults of one test before the next."""
    yield
    for name in ("sqlite_laptop", "postgres_laptop", "laptop"):
        if name in request.fixturenames:
            request.getfixturevalue(name).services.api.reset()
