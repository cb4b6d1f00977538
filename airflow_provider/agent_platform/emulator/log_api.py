"""Cloud Logging's entries:list and entries:tail, over the jobs' log store.

In: resource names, a query, an order, a page. Out: entries in their JSON form. Which wire asked is not
known here: ``rest_logging`` and ``wire_logging_grpc`` do that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider.agent_platform.emulator import log_filters
from airflow_provider.agent_platform.emulator.errors import invalid_argument
from airflow_provider.agent_platform.emulator.log_view import entry_json
from airflow_provider.agent_platform.emulator.resources import project_number

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.logs import LogEntry, LogStore

DEFAULT_PAGE = 50
MAX_PAGE = 1000
MAX_RESOURCES = 100
TAIL_BATCH = 500

_PROJECT = re.compile(r"projects/([^/]+)(/.*)?")
_ORDER = re.compile(r"\s*timestamp(\s+(asc|desc))?\s*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of entries."""

    entries: list[dict[str, Any]]
    next_page_token: str


class LogApi:
    """The calls of the logging service that are emulated."""

    def __init__(self, store: LogStore) -> None:
        self._store = store

    def list_entries(
        self,
        *,
        resource_names: Sequence[str],
        filter: str = "",
        order_by: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> Page:
        """A page of the entries that a query asks for.

        :param resource_names: ``projects/<id or number>``, also with ``/locations/...`` behind it.
        :param order_by: ``timestamp asc`` (the default) or ``timestamp desc``.
        :param page_size: 0 for 50; at most 1000.
        :raises ApiError: INVALID_ARGUMENT.
        """
        projects = _projects(resource_names)
        query = log_filters.parse(filter)
        newest_first = _newest_first(order_by)
        if page_size < 0:
            raise invalid_argument(f"page_size must not be negative, found {page_size}.")
        size = min(page_size or DEFAULT_PAGE, MAX_PAGE)
        asked = _digest(*sorted(projects.values()), filter, str(newest_first))
        after = _read_token(page_token, asked) if page_token else None

        page: list[dict[str, Any]] = []
        last: LogEntry | None = None
        for entry in self._ordered(query, newest_first, after):
            project = projects.get(entry.project)
            if project is None:
                continue
            view = entry_json(entry, project)
            if not query.matches(view):
                continue
            if len(page) == size and last is not None:
                return Page(entries=page, next_page_token=_write_token(last, asked))
            page.append(view)
            last = entry
        return Page(entries=page, next_page_token="")

    def tail_entries(
        self,
        *,
        resource_names: Sequence[str],
        filter: str = "",
        active: Callable[[], bool],
        wait_seconds: float = 0.5,
    ) -> Iterator[list[dict[str, Any]]]:
        """Entries as they come, from now on, in batches, until nobody listens any more.

        :param active: whether somebody still listens; asked at least every ``wait_seconds``.
        :raises ApiError: INVALID_ARGUMENT.
        """
        projects = _projects(resource_names)
        query = log_filters.parse(filter)
        generation = self._store.generation
        seen = max((entry.number for entry in self._store.entries()), default=0)
        pending = False
        while active():
            if not pending:
                generation = self._store.wait(generation, wait_seconds)
            new = self._store.entries(after=seen)
            batch = new[:TAIL_BATCH]
            pending = len(new) > len(batch)
            if batch:
                seen = batch[-1].number
            views = [
                entry_json(entry, projects[entry.project]) for entry in batch if entry.project in projects
            ]
            found = [view for view in views if query.matches(view)]
            if found:
                yield found

    def _ordered(
        self, query: log_filters.Query, newest_first: bool, after: tuple[float, int] | None
    ) -> Iterator[LogEntry]:
        if query.job_ids is None:
            found = self._store.entries()
        else:
            found = [entry for job_id in query.job_ids for entry in self._store.entries(job_id)]
        found.sort(key=_position, reverse=newest_first)
        for entry in found:
            if after is None or (_position(entry) < after if newest_first else _position(entry) > after):
                yield entry


def _position(entry: LogEntry) -> tuple[float, int]:
    return (entry.time, entry.number)


def _projects(resource_names: Sequence[str]) -> dict[str, str]:
    """Project number -> the project as the caller wrote it."""
    if not resource_names:
        raise invalid_argument("resource_names must name at least one resource, e.g. projects/my-project.")
    if len(resource_names) > MAX_RESOURCES:
        raise invalid_argument(
            f"resource_names may name at most {MAX_RESOURCES} resources, found {len(resource_names)}."
        )
    projects = {}
    for name in resource_names:
        match = _PROJECT.fullmatch(name)
        if match is None:
            raise invalid_argument(f"Resource name {name[:200]!r} must begin with projects/<project>.")
        projects[project_number(match[1])] = match[1]
    return projects


def _newest_first(order_by: str) -> bool:
    if not order_by.strip():
        return False
    match = _ORDER.fullmatch(order_by)
    if match is None:
        raise invalid_argument(f"order_by {order_by[:100]!r} must be 'timestamp asc' or 'timestamp desc'.")
    return (match[2] or "asc").lower() == "desc"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _write_token(entry: LogEntry, asked: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([entry.time, entry.number, asked]).encode()).decode()


def _read_token(token: str, asked: str) -> tuple[float, int]:
    try:
        time, number, of = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise invalid_argument("page_token is not one that this service gave.") from None
    if of != asked or not isinstance(time, float) or not isinstance(number, int):
        raise invalid_argument(
            "page_token belongs to another request: change nothing but page_size in between."
        )
    return time, number
