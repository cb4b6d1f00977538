"""Jobs in a SQLite file: a :class:`MemoryStore` whose every change is written through.

Reads are served from memory. A write is committed before the call that made it is answered, so that a kill -9
loses nothing that a client was told; ``synchronous=OFF`` gives up only what a crash of the machine would lose.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider.agent_platform.emulator.store.memory import MemoryStore
from airflow_provider.agent_platform.emulator.store.row import Row

FORMAT = 1
"""``PRAGMA user_version`` of the files this version writes. Raise it with every change of the schema."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, kind TEXT NOT NULL, project TEXT NOT NULL,
    region TEXT NOT NULL, display_name TEXT NOT NULL, state INTEGER NOT NULL, created_ns INTEGER NOT NULL,
    labels TEXT NOT NULL, payload BLOB NOT NULL, life TEXT, launch TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    job TEXT NOT NULL, number INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL, fields TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
COLUMNS = (
    "id, sequence, kind, project, region, display_name, state, created_ns, labels, payload, life, launch"
)


class StoreError(Exception):
    """The database cannot be used; the text says why and what to do."""


class SqliteStore(MemoryStore):
    """Jobs survive the process."""

    durable = True

    def __init__(self, path: str) -> None:
        """Open or make the file.

        :raises StoreError: no database of ours, a newer format, used by another emulator, not writable.
        """
        super().__init__()
        try:
            self._connection = _open(path)
        except sqlite3.Error as error:
            raise StoreError(_explain(path, error)) from error
        try:
            self._load()
        except BaseException:
            self._connection.close()
            raise

    def _load(self) -> None:
        for values in self._connection.execute(f"SELECT {COLUMNS} FROM jobs ORDER BY sequence"):  # noqa: S608 - a constant
            row = _row(values)
            super().add(row)
        for job, time, kind, fields in self._connection.execute(
            "SELECT job, time, kind, fields FROM events ORDER BY job, number"
        ):
            super().add_event(job, time, kind, json.loads(fields))  # shares equal texts again
        for name, value in self._connection.execute("SELECT name, value FROM documents"):
            super().set_document(name, json.loads(value))
        self._sequence = max([row.sequence for row in self.rows()] + [self.document("sequence") or 0])

    def add(self, row: Row) -> None:
        """Keep a new job."""
        self._write(row)
        super().add(row)

    def save(self, row: Row, old_state: int) -> None:
        """Keep what has changed in a job."""
        self._write(row)
        super().save(row, old_state)

    def _write(self, row: Row) -> None:
        marks = ", ".join("?" * len(COLUMNS.split(",")))
        self._connection.execute(
            f"INSERT OR REPLACE INTO jobs ({COLUMNS}) VALUES ({marks})",  # noqa: S608 - constants
            (
                row.id, row.sequence, row.kind, row.project, row.region, row.display_name, row.state,
                row.created_ns, json.dumps(dict(row.labels)), row.payload, _json(row.life), _json(row.launch),
            ),
        )  # fmt: skip

    def delete(self, row: Row) -> None:
        """Forget a job and its events."""
        self.set_document("sequence", self._sequence)
        self._connection.execute("DELETE FROM jobs WHERE id = ?", (row.id,))
        self._connection.execute("DELETE FROM events WHERE job = ?", (row.id,))
        super().delete(row)

    def add_event(self, job_id: str, time: float, kind: str, fields: Mapping[str, Any]) -> None:
        """Append to a job's story."""
        number = len(self._events.get(job_id, ()))
        self._connection.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
            (job_id, number, time, kind, json.dumps(dict(fields))),
        )
        super().add_event(job_id, time, kind, fields)

    def set_document(self, name: str, value: Any) -> None:
        """Keep a JSON document."""
        self._connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", (name, json.dumps(value)))
        super().set_document(name, value)

    def clear(self) -> None:
        """Forget everything but the sequence."""
        for table in ("jobs", "events", "documents"):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - constants
        super().clear()
        self.set_document("sequence", self._sequence)

    def close(self) -> None:
        """Release the file."""
        self._connection.close()


def _open(path: str) -> sqlite3.Connection:
    if not Path(path).absolute().parent.is_dir():
        raise StoreError(f"--db {path}: the directory does not exist; make it first")
    # One process writes and one lock guards it, so that threads may share the connection.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found > FORMAT:
            raise StoreError(
                f"--db {path}: format {found} is newer than this emulator's ({FORMAT}); "
                "use the newer emulator, or another file"
            )
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if found == 0 and tables:
            raise StoreError(f"--db {path}: a SQLite database, but not the emulator's; use another file")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        # The first write takes the exclusive lock that a second emulator will meet.
        connection.executescript(SCHEMA + f"PRAGMA user_version = {FORMAT};")
        return connection
    except BaseException:
        connection.close()
        raise


def _explain(path: str, error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return f"--db {path}: in use by another emulator; stop that one, or use another file"
    if "not a database" in str(error):
        return f"--db {path}: not a SQLite database; use another file"
    return f"--db {path}: {error}"


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(dict(value))


def _row(values: tuple[Any, ...]) -> Row:
    fields = dict(zip([column.strip() for column in COLUMNS.split(",")], values, strict=True))
    fields["labels"] = json.loads(fields["labels"])
    for name in ("life", "launch"):
        fields[name] = json.loads(fields[name]) if fields[name] else None
    return Row(**fields)
