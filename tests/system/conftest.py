"""Fixtures of the system tests: one running set-up for each kind of database, shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.laptop import Laptop
from tests.harness.postgres import PostgresServer, find_binaries

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder as a system test."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.system)


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


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def laptop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """Airflow in four processes, the emulator and a storage emulator; once on SQLite, once on PostgreSQL."""
    database_url = None
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        database_url = server.create_database("airflow")
    root = tmp_path_factory.mktemp(f"laptop {request.param}")
    with Laptop(root, database_url=database_url) as laptop:
        yield laptop


@pytest.fixture(autouse=True)
def _clean_emulator(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forget the jobs and faults of one test before the next."""
    yield
    if "laptop" in request.fixturenames:
        request.getfixturevalue("laptop").services.api.reset()
