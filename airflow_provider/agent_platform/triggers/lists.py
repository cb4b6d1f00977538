"""The lists of a poll loop: all jobs that have not ended, those that ended together, the newest with some labels.

In: the calls of a loop and its entries. Out: marks on the entries that a list shows, and views. Which list is due, and
what a failed one means, is not here (:mod:`.poller`); but a list that was broken off goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from airflow_provider.agent_platform.policy import states
from airflow_provider.agent_platform.triggers import pace
from airflow_provider.agent_platform.triggers.calls import Calls
from airflow_provider.agent_platform.triggers.subscription import Entry
from airflow_provider.agent_platform.triggers.trouble import judge
from airflow_provider.agent_platform.triggers.view import END_FIELDS, VIEW_FIELDS, JobView

ACTIVE_FILTER: Final = " AND ".join(
    f'state!="{states.state_name(end)}"'
    for end in (
        states.JobState.SUCCEEDED,
        states.JobState.FAILED,
        states.JobState.CANCELLED,
        states.JobState.EXPIRED,
    )
)
"""All but the ends, not a list of the live states: a state that is new to us is then still shown."""

FIND_PAGES: Final = 20
"""At most so many pages are searched for the newest job with some labels; the service answers newest
first."""

GO_ON_SECONDS: Final = 60.0
"""A list whose next page has failed for longer begins anew: what its first pages said is old."""

INVALID_ARGUMENT: Final = 3
"""``google.rpc.Code`` of a page token that is not accepted any more."""

WAKES_AT_ONCE: Final = 20
"""After so many the event loop gets its turn: what the woken do must not add up to a block of 50 ms."""

Publish = Callable[[Entry, JobView], None]


class ActiveList:
    """The list of the jobs that have not ended, one at a time.

    :param calls: of the loop.
    :param entries: of the loop, by job name.
    :param publish: tells an entry what was read.
    """

    def __init__(self, calls: Calls, entries: Mapping[str, Entry], publish: Publish) -> None:
        self._calls = calls
        self._entries = entries
        self._publish = publish
        self._lock = asyncio.Lock()
        self._wave: asyncio.Task[int] | None = None
        self._round = 0
        self._token = ""
        self._done = 0
        self._stuck_since: float | None = None
        self.pages = 1
        """Of the last whole list."""
        self.read_at = float("-inf")
        """When it was read, by the clock of the event loop."""
        self.answered = 0
        """How many pages were ever read."""

    async def read(self) -> int:
        """Read all pages, or those that are left of a list that was broken off; answer the mark that the entries
        shown have now."""
        async with self._lock:
            stuck = self._stuck_since
            if stuck is None or asyncio.get_running_loop().time() - stuck > GO_ON_SECONDS:
                self._begin()
            return await self._go_on()

    async def shown(self, name: str) -> JobView | None:
        """Read one job from a list that begins after this call, shared with all who ask within a moment."""
        if self._wave is None:
            self._wave = contextvars.Context().run(
                asyncio.get_running_loop().create_task, self._read_for_many()
            )
        current = await asyncio.shield(self._wave)
        entry = self._entries.get(name)
        return entry.view if entry is not None and entry.mark >= current else None

    async def _read_for_many(self) -> int:
        await asyncio.sleep(pace.JOIN_SECONDS)
        async with self._lock:
            self._wave = None  # who comes from now on needs a list that begins later
            self._begin()
            return await self._go_on()

    def _begin(self) -> None:
        self._round += 1
        self._token, self._done, self._stuck_since = "", 0, None

    async def _go_on(self) -> int:
        while True:
            try:
                self._token = await self._read_page(self._token)
            except Exception as error:
                if self._token and judge(error)[1] == INVALID_ARGUMENT:
                    self._stuck_since = None
                elif self._stuck_since is None:
                    self._stuck_since = asyncio.get_running_loop().time()
                raise
            self._stuck_since = None
            self._done += 1
            self.answered += 1
            if not self._token:
                break
        self.pages, self.read_at = self._done, asyncio.get_running_loop().time()
        return self._round

    async def _read_page(self, token: str) -> str:
        entries, current = self._entries, self._round
        items, following = await self._calls.page(ACTIVE_FILTER, VIEW_FIELDS, token)
        changed = []
        # Runs once for each waiting job and poll: one name, one look-up, one comparison.
        for raw in items:
            entry = entries.get(raw.name)
            if entry is not None:
                entry.mark = current
                if raw.state != entry.state:
                    changed.append((entry, raw))
        for number, (entry, raw) in enumerate(changed, start=1):
            if number % WAKES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if states.is_end(raw.state) or states.is_end(entry.state):
                entry.mark = 0  # ended, or a list that lags behind its end: Get knows, and has the error
            else:
                self._publish(entry, JobView.of(raw))
        return following


async def find_ended(calls: Calls, missing: Sequence[Entry], publish: Publish) -> list[Entry]:
    """Find many ended jobs with few calls; answer those that are still missing.

    :param calls: of the loop.
    :param missing: entries that the list of the live jobs does not show.
    :param publish: tells an entry what was read.
    """
    created = [e.view.create_time for e in missing if e.view is not None and e.view.create_time is not None]
    if len(created) < len(missing):
        return list(missing)
    oldest = min(created).subtract(seconds=1).in_timezone("UTC").format("YYYY-MM-DDTHH:mm:ss[Z]")
    ended = " OR ".join(f'state="{states.state_name(end)}"' for end in sorted(states.ENDS)[:3])
    wanted = {entry.name: entry for entry in missing}
    token = ""
    # More pages than this would cost as much as reading them one by one.
    for _ in range(max(1, len(missing) // 10)):
        items, token = await calls.page(f'create_time>="{oldest}" AND ({ended})', END_FIELDS, token)
        for number, raw in enumerate(items, start=1):
            if number % WAKES_AT_ONCE == 0:
                await asyncio.sleep(0)
            entry = wanted.pop(raw.name, None)
            if entry is not None:
                publish(entry, JobView.of(raw))
        if not wanted or not token:
            break
    return list(wanted.values())


async def find_newest(calls: Calls, filter: str, *, urgent: bool) -> JobView | None:
    """Find the newest job that a List filter lets through; ``None`` if there is none.

    :param calls: of the loop.
    :param filter: of List.
    :param urgent: a decision hangs on it.
    """
    newest: JobView | None = None
    token = ""
    for _ in range(FIND_PAGES):
        items, token = await calls.search(filter, VIEW_FIELDS, token, urgent=urgent)
        for raw in items:
            view = JobView.of(raw)
            if newest is None or _age(view) > _age(newest):
                newest = view
        if not token:
            break
    return newest


def _age(view: JobView) -> tuple[float, str]:
    return (view.create_time.timestamp() if view.create_time is not None else 0.0, view.name)
