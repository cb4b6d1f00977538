"""The jobs' log entries, as Cloud Logging would hold them.

In: lines of the workers and of the service. Out: entries, oldest first; ``log_api`` serves them. Bounded: the
oldest entries go when there are too many, and all of them with the process: only jobs and their events are stored.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
MAX_ENTRIES = 1_000_000
MAX_BYTES = 200_000_000
MAX_DEPTH = 50
"""Deepest nesting of a structured line; protobuf's messages take a little more."""
MAX_LINE = 256 * 1024
"""Longest line in characters; Cloud Logging refuses entries above 256 KB."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry.

    :param number: order of arrival over all jobs, from 1; also the insert id.
    :param time: seconds since the epoch.
    :param visible_at: seconds since the epoch from when a query may show it.
    :param project: the project's number.
    :param kind: collection of the job, e.g. ``customJobs``.
    :param task_name: ``service`` or a replica's name.
    :param text: ``textPayload``; None when ``fields`` holds a ``jsonPayload``.
    """

    number: int
    time: float
    visible_at: float
    project: str
    region: str
    kind: str
    job_id: str
    task_name: str
    severity: str
    text: str | None
    fields: Mapping[str, Any] | None = None
    trial: str = ""

    @property
    def insert_id(self) -> str:
        """Unique, and in order of arrival."""
        return f"{self.number:016x}"

    @property
    def message(self) -> str:
        """The text, or the message of a structured entry."""
        return self.text if self.text is not None else str((self.fields or {}).get("message", ""))


class LogStore:
    """Entries of all jobs. Thread-safe."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._entries: deque[LogEntry] = deque()
        self._by_job: dict[str, deque[LogEntry]] = {}
        self._numbers = itertools.count(1)
        self._bytes = 0
        self._changed = threading.Condition()
        self._generation = 0
        self.copies: dict[str, tuple[str, str, str]] = {}
        """Job -> (its tuning job, that one's kind, trial): what a trial writes is found under both."""

    def write(
        self,
        line: str,
        *,
        project: str,
        region: str,
        job_id: str,
        task_name: str,
        kind: str = "customJobs",
        severity: str = "DEFAULT",
        delay: float = 0.0,
        structured: bool = True,
    ) -> LogEntry:
        """Take in one line.

        :param structured: whether a line that is one JSON object becomes a structured entry.
        :param delay: real seconds until queries show it.
        """
        text: str | None = _text(line[:MAX_LINE])
        fields = _json_object(line) if structured else None
        if fields is not None:
            text = None
            named = str(fields.get("severity", "")).upper()
            severity = named if named in SEVERITIES else severity
        with self._changed:
            now = self._wall()
            entry = LogEntry(
                next(self._numbers),
                now,
                now + delay if delay else now,
                project,
                region,
                kind,
                job_id,
                task_name,
                severity,
                text,
                fields,
            )
            self._keep(entry, len(line))
            if job_id in self.copies and task_name != "service":
                parent, parent_kind, trial = self.copies[job_id]
                number = next(self._numbers)
                copy = replace(entry, number=number, job_id=parent, kind=parent_kind, trial=trial)
                self._keep(copy, len(line))
            while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
                self._forget_oldest()
            self._generation += 1
            self._changed.notify_all()
        return entry

    def _keep(self, entry: LogEntry, size: int) -> None:
        self._entries.append(entry)
        self._by_job.setdefault(entry.job_id, deque()).append(entry)
        self._bytes += size + 200

    def _forget_oldest(self) -> None:
        oldest = self._entries.popleft()
        self._bytes -= _size(oldest) + 200
        of_job = self._by_job.get(oldest.job_id)
        if of_job:
            of_job.popleft()
            if not of_job:
                del self._by_job[oldest.job_id]

    def entries(self, job_id: str | None = None, after: int = 0) -> list[LogEntry]:
        """Visible entries, oldest first.

        :param job_id: only of this job.
        :param after: only with a greater number.
        """
        with self._changed:
            now = self._wall()
            source = self._entries if job_id is None else self._by_job.get(job_id, ())
            return [entry for entry in source if entry.number > after and entry.visible_at <= now]

    def wait(self, generation: int, timeout: float) -> int:
        """Wait until something is written after ``generation``; answers the present one."""
        with self._changed:
            self._changed.wait_for(lambda: self._generation != generation, timeout)
            return self._generation

    @property
    def generation(self) -> int:
        """Grows with every entry."""
        return self._generation

    def clear(self) -> None:
        """Forget everything; numbers go on."""
        with self._changed:
            self._entries.clear()
            self._by_job.clear()
            self._bytes = 0
            self._generation += 1
            self._changed.notify_all()

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self.entries())


def _size(entry: LogEntry) -> int:
    return len(entry.text) if entry.text is not None else len(json.dumps(entry.fields))


def _json_object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
        return _plain(found, 0) if isinstance(found, dict) else None
    except (ValueError, OverflowError, RecursionError):
        return None


def _plain(value: Any, depth: int) -> Any:
    """A value that both wires can send: one line that they cannot would spoil every page that it is on.

    :raises ValueError: it cannot be sent; the line stays a text.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        if not math.isfinite(float(value)):
            raise ValueError("not a number of JSON")
        return value
    if depth == MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {_text(name): _plain(inner, depth + 1) for name, inner in value.items()}
    return [_plain(inner, depth + 1) for inner in value] if isinstance(value, list) else value


def _text(text: str) -> str:
    """Half a surrogate pair is no character, and no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
