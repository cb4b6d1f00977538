"""A storage server, empty for each test, with paging, failures and preconditions
(`storage.StorageServer`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.checkpoints.storage import StorageServer


@pytest.fixture(scope="module")
def _running() -> Iterator[StorageServer]:
    with StorageServer() as running:
        yield running


@pytest.fixture
def server(_running: StorageServer) -> StorageServer:
    _running.reset()
    return _running
