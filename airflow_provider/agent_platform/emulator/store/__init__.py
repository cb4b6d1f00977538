"""Where jobs are kept: one interface, in memory or in SQLite."""

from __future__ import annotations

from airflow_provider.agent_platform.emulator.store.memory import MemoryStore
from airflow_provider.agent_platform.emulator.store.row import Row
from airflow_provider.agent_platform.emulator.store.sqlite import SqliteStore, StoreError

__all__ = ["MemoryStore", "Row", "SqliteStore", "StoreError", "open_store"]


def open_store(db: str) -> MemoryStore:
    """The store for ``--db``.

    :param db: ``:memory:`` or the path of a SQLite file, made when absent.
    :raises StoreError: the file is no database of ours, of a newer format, or in use.
    """
    return MemoryStore() if db == ":memory:" else SqliteStore(db)
