"""Jobs in memory, and the interface that every store has.

In: rows, and small named JSON documents (quotas, faults). Out: the same again. Not thread-safe: the engine's
lock guards every call.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider.agent_platform.emulator.store.index import Index
from airflow_provider.agent_platform.emulator.store.row import Row

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.filters import Predicate


Stop = Callable[[list[Row]], bool]


class MemoryStore:
    """Everything is gone with the process."""

    durable = False
    """Whether anything is still there after a restart."""

    def __init__(self) -> None:
        self._sequence = 0
        self._rows: dict[str, Row] = {}
        self._index = Index()
        self._documents: dict[str, Any] = {}
        # Fields as JSON text: most events of most jobs are alike, and then share one string.
        self._events: dict[str, list[tuple[float, str, str]]] = {}

    def next_sequence(self) -> int:
        """A number above that of every row there is."""
        self._sequence += 1
        return self._sequence

    def add(self, row: Row) -> None:
        """Keep a new job."""
        self._rows[row.id] = row
        self._index.add(row)

    def save(self, row: Row, old_state: int) -> None:
        """Keep what has changed in a job.

        :param old_state: its state before the change.
        """
        if row.state != old_state:
            self._index.move(row, old_state)

    def get(self, job_id: str) -> Row | None:
        """A job by its bare id."""
        return self._rows.get(job_id)

    def delete(self, row: Row) -> None:
        """Forget a job and its events."""
        del self._rows[row.id]
        self._index.remove(row)
        self._events.pop(row.id, None)

    def find(
        self, kind: str, project: str, region: str, predicate: Predicate, before: int | None = None
    ) -> Iterator[Row]:
        """Jobs of one parent that pass a filter, newest first; ``before`` is the last sequence seen."""
        return (
            row for row in self._index.find((kind, project, region), predicate, before) if row is not None
        )

    def search(
        self, kind: str, project: str, region: str, predicate: Predicate, before: int | None, stop: Stop
    ) -> tuple[list[Row], int | None]:
        """A part of what :meth:`find` finds: until ``stop`` says so, given the rows so far, asked now and then.

        :return: the rows, and ``before`` for the next part; None when there is no more.
        """
        found: list[Row] = []
        for row in self._index.find((kind, project, region), predicate, before):
            if row is not None:
                found.append(row)
            if stop(found):
                return found, self._index.looked_at
        return found, None

    def rows(self) -> list[Row]:
        """All jobs, oldest first."""
        return sorted(self._rows.values(), key=lambda row: row.sequence)

    def __len__(self) -> int:
        return len(self._rows)

    def add_event(self, job_id: str, time: float, kind: str, fields: Mapping[str, Any]) -> None:
        """Append to a job's story."""
        self._events.setdefault(job_id, []).append((time, kind, sys.intern(json.dumps(fields))))

    def events(self, job_id: str) -> list[tuple[float, str, Mapping[str, Any]]]:
        """A job's story, in order."""
        return [(time, kind, json.loads(fields)) for time, kind, fields in self._events.get(job_id, ())]

    def document(self, name: str) -> Any:
        """A JSON document kept under a name, or None."""
        return self._documents.get(name)

    def set_document(self, name: str, value: Any) -> None:
        """Keep a JSON document."""
        self._documents[name] = value

    def clear(self) -> None:
        """Forget everything but the sequence: ids and page tokens are never used twice."""
        sequence = self._sequence
        MemoryStore.__init__(self)
        self._sequence = sequence

    def close(self) -> None:
        """Release files."""
