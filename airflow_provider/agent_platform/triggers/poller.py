"""One loop that reads the state of all jobs waited for in one place, however many they are.

In: subscriptions by job name. Out: each waiter is woken when its own job changed, and at no other time. Polls
are ``List`` of the jobs that have not ended, a hundred a page and few fields; ``Get`` for a handful of jobs
and for those that left the list. The loop fails nobody because a read failed; what it does about failed reads
is in :mod:`.trouble`.

Its lists: :mod:`.lists`. Who shares a loop: :mod:`.poller_registry`. When the next poll is: :mod:`.pace`. How many calls:
:mod:`.call_budget`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import tenacity

from airflow_provider.agent_platform.policy import states
from airflow_provider.agent_platform.triggers import lists, metrics, pace
from airflow_provider.agent_platform.triggers.call_budget import CALLS_PER_MINUTE, WINDOW_SECONDS, CallBudgets
from airflow_provider.agent_platform.triggers.calls import CALL_SECONDS, Calls
from airflow_provider.agent_platform.triggers.lists import ACTIVE_FILTER
from airflow_provider.agent_platform.triggers.reader import JobReader, PollKey
from airflow_provider.agent_platform.triggers.renewable_reader import RenewableReader
from airflow_provider.agent_platform.triggers.subscription import Entry, JobGoneError, Subscription
from airflow_provider.agent_platform.triggers.trouble import (
    Outage,
    PollRefusedError,
    is_gone,
)
from airflow_provider.agent_platform.triggers.view import JobView

log = logging.getLogger(__name__)

GET_AT_MOST: Final = 3
"""Up to so many waiters are read one by one: a list page costs as much as one call, but shows all other jobs
of the project too, and one project may have thousands. From four on the shared list is cheaper in calls."""

COUNT_AGAIN_SECONDS: Final = 600.0
COUNT_AGAIN_PER_PAGE: Final = 6.0
"""Waiters that are fewer than the pages of a list are read one by one too; the pages are counted again after this
time, or so rarely that it takes ten calls a minute: other people's jobs end as well."""

LIST_AGAIN_PER_PAGE: Final = WINDOW_SECONDS / CALLS_PER_MINUTE
"""Seconds from the begin of a list to the next one while waiters keep coming: no sooner than its pages may be asked for
again. Else the first lists of a triggerer that starts with thousands of jobs use up the calls of a minute, and who came
last waits for the next one."""

BULK_FROM: Final = 20
"""From so many jobs that left the list at once on, the ended ones are listed, a hundred a call."""

GETS_PER_POLL: Final = 60
"""A poll reads at most so many jobs one by one, so that the next list is not kept waiting; the rest
follow."""

GETS_AT_ONCE: Final = 5

MISSES: Final = 2
"""A job counts as gone when so many reads in a row do not find it: one answer may come from a replica that
lags."""

FRESH_PAGES: Final = 5
"""Young jobs get extra polls only while a whole list costs no more than so many calls."""


class Poller:
    """The poll loop of one key. Made by :func:`.poller_registry.poller_for`; stops with its last waiter.

    :param key: what is polled.
    :param make_reader: makes what makes the calls.
    :param budgets: of calls; shared by all loops of a project and region.
    :param stopped: called when the loop has ended.
    :param jitter: answers a random number between 0 and 1.
    """

    def __init__(
        self,
        key: PollKey,
        make_reader: Callable[[], JobReader],
        *,
        budgets: CallBudgets,
        stopped: Callable[[Poller], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.key = key
        self._stopped = stopped
        self._jitter = jitter
        self._loop = asyncio.get_running_loop()
        self._entries: dict[str, Entry] = {}
        self._intervals: Counter[float] = Counter()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        place = f"{key.project}/{key.region}"
        self._outage = Outage(f"{key.job_type}s in {place}", log)
        self._singles = Outage(f"single {key.job_type}s in {place}", log)
        self._silent = 0
        self._unread: list[Entry] = []
        self._holds = 0
        self._due = 0.0
        self._whole_due = 0.0
        self._polled_at = float("-inf")
        self._listed_at = float("-inf")
        self._joined_at = float("-inf")
        self._changed_at = self._loop.time()
        self._tags = {"kind": key.job_type, "region": key.region}
        self._calls = Calls(RenewableReader(make_reader), budgets=budgets, tags=self._tags)
        self._list = lists.ActiveList(self._calls, self._entries, self._publish)
        self._reading = 0
        self._for_ever = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Exception),
            wait=lambda state: self._pause_after(self._silent),
            stop=lambda state: not self._entries,
            sleep=self._back_off,
            reraise=True,
        )

    # --- for waiters ---------------------------------------------------------------------------

    def subscribe(self, name: str, *, interval: float) -> Subscription:
        """Wait for a job from now on. The first reading comes within a second or so.

        :param name: full resource name; its project, region and kind are the key's.
        :param interval: seconds between two readings; the smallest of all waiters counts.
        """
        now = self._loop.time()
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = Entry(name, now)
        subscription = Subscription(entry, interval, self._leave)
        entry.subscriptions.append(subscription)
        self._intervals[interval] += 1
        self._joined_at = now
        if len(self._entries) == 1:
            self._changed.set()  # the loop may be kept for a caller of ``read``, and asleep
        least = min(pace.LEAST_SECONDS, self.interval)
        self._wake_at(max(now + pace.JOIN_SECONDS, self._polled_at + least))
        self._start()
        return subscription

    @property
    def interval(self) -> float:
        """The smallest interval that was asked for."""
        return min(self._intervals, default=30.0)

    @property
    def jobs(self) -> int:
        """How many jobs are waited for."""
        return len(self._entries)

    @contextmanager
    def hold(self) -> Iterator[Poller]:
        """Keep the loop and its connection without waiting for a job, for a caller of ``read`` and
        ``cancel``."""
        self._holds += 1
        self._start()
        try:
            yield self
        finally:
            self._holds -= 1
            self._changed.set()

    def nudge(self) -> None:
        """Poll soon: something was done that changes a state."""
        self._wake_at(self._loop.time() + pace.LEAST_SECONDS)

    async def read(self, name: str) -> JobView:
        """Read one job now, because a decision hangs on it; its waiters learn of it too.

        :raises JobGoneError: it does not exist.
        """
        self._reading += 1
        try:
            # The deadlines of many mapped tasks end in the same second: they share a list that begins after
            # it.
            if self._reading > BULK_FROM and name in self._entries:
                view = await self._list.shown(name)
                if view is not None:
                    return view
            return await self._got(name)
        finally:
            self._reading -= 1

    async def newest(self, filter: str, *, urgent: bool = False) -> JobView | None:
        """Find the newest job that a List filter lets through; ``None`` if there is none.

        :param urgent: a decision hangs on it; else it waits until nobody else searches.
        """
        return await lists.find_newest(self._calls, filter, urgent=urgent)

    async def cancel(self, name: str, *, read: bool = False) -> tuple[bool, JobView | None]:
        """Send one cancel, unless the job is being cancelled or has ended by the time it may be sent. Not
        repeated here.

        :param read: read the job right before; else what the loop knows of it counts.
        :return: whether it was sent, and the last reading.
        :raises JobGoneError: it does not exist.
        """
        # First the slots: in a crowd they are minutes away, and the job goes on meanwhile.
        await self._calls.reserve(2 if read else 1)
        if read:
            view: JobView | None = await self._got(name, reserved=True)
        else:
            view = self._entries[name].view if name in self._entries else None
        if view is not None and (view.ended or view.state == states.JobState.CANCELLING):
            return False, view
        await self._calls.cancel(name)
        return True, view

    # --- the loop ------------------------------------------------------------------------------

    def _leave(self, entry: Entry, subscription: Subscription) -> None:
        entry.subscriptions.remove(subscription)
        self._intervals[subscription.interval] -= 1
        if self._intervals[subscription.interval] <= 0:
            del self._intervals[subscription.interval]
        if not entry.subscriptions:
            self._entries.pop(entry.name, None)
        if not self._entries:
            self._changed.set()

    def _start(self) -> None:
        if self._task is None:
            # An empty context: what the loop logs belongs to no task, though some task's trigger started it.
            self._task = contextvars.Context().run(self._loop.create_task, self._run())

    def _wake_at(self, due: float) -> None:
        if due < self._due or self._task is None:
            self._due = due
            self._changed.set()

    async def _run(self) -> None:
        try:
            while self._entries or self._holds:
                if not self._entries:
                    await self._sleep(CALL_SECONDS)
                    continue
                pause = self._due - self._loop.time()
                if pause > 0:
                    await self._sleep(pause)
                    continue
                # The last error, after its last waiter left: it has been said, and there is nobody to tell.
                with suppress(Exception):
                    await self._for_ever(self._poll_once)
        finally:
            # Not reached with waiters but by a cancel of this task: they must not wait for ever.
            for entry in list(self._entries.values()):
                entry.fail(PollRefusedError(None, "the poll loop was stopped; the job was left as it is"))
            if self._stopped is not None:
                self._stopped(self)
            with suppress(Exception):
                await self._calls.close()

    async def _sleep(self, seconds: float) -> None:
        self._changed.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def _back_off(self, seconds: float) -> None:
        end = self._loop.time() + min(seconds, max(self.interval, 1.0) * 2)
        while self._entries and (pause := end - self._loop.time()) > 0:
            await self._sleep(pause)

    async def _poll_once(self) -> None:
        begun, good, pages = self._loop.time(), self._calls.good, self._list.answered
        due, self._due = self._due, float("inf")  # whoever wants a poll from now on wants another one
        self._polled_at = begun
        try:
            await self._poll(begun)
        except Exception as error:
            partly = self._list.answered > pages
            refused = self._outage.failed(error, self._loop.time(), partly=partly)
            # Only failures without any answer make the pauses longer.
            self._silent = 1 if partly else self._silent + 1
            self._calls.patient = partly
            self._due = due
            if refused is not None:
                await self._fail_all(refused)
            raise
        self._silent = 0
        if self._calls.good > good:
            self._outage.worked()
        metrics.gauge(metrics.POLL_JOBS, len(self._entries), tags=self._tags)
        late = max(0.0, self._loop.time() - min(begun, due))
        metrics.gauge(metrics.POLL_LAG_SECONDS, late, tags=self._tags)
        self._due = min(self._due, self._whole_due)

    def _pause_after(self, failures: int) -> float:
        return pace.seconds_after_failure(failures, interval=self.interval, random=self._jitter())

    def _pause(self, begun: float) -> float:
        youngest = float("inf")
        if self._list.pages <= FRESH_PAGES and begun - self._joined_at < pace.FRESH_SECONDS:
            joined = [e.joined for e in self._entries.values() if e.state != states.JobState.RUNNING]
            youngest = begun - max(joined, default=float("-inf"))
        return pace.seconds_to_next(
            interval=self.interval,
            youngest=youngest,
            quiet_for=begun - self._changed_at,
            all_queued=all(e.state == states.JobState.QUEUED for e in self._entries.values()),
            random=self._jitter(),
        )

    async def _poll(self, begun: float) -> None:
        """Read what is due."""
        if self._few(begun):
            self._unread = []
            await self._read_each([entry for entry in self._entries.values() if not entry.settled])
            self._whole_due = begun + self._pause(begun)
            return
        new = [entry for entry in self._entries.values() if entry.state == -1 and entry.error is None]
        list_again = self._listed_at + self._list.pages * LIST_AGAIN_PER_PAGE
        if begun < self._whole_due and len(new) <= GET_AT_MOST:
            await self._read_unlisted(new)
            return
        if begun < self._whole_due and begun < list_again:
            self._wake_at(list_again)
            await self._read_unlisted()
            return
        self._listed_at = begun
        current = await self._list.read()
        self._whole_due = begun + self._pause(begun)
        self._unread = []
        for entry in self._entries.values():
            if entry.mark < current:
                if not entry.settled:
                    self._unread.append(entry)
            elif entry.misses or entry.outage is not None:
                entry.seen()
        if len(self._unread) >= BULK_FROM:
            try:
                self._unread = await lists.find_ended(self._calls, self._unread, self._publish)
            except Exception as error:  # they are read one by one then
                self._singles.failed(error, self._loop.time())
        await self._read_unlisted()

    def _few(self, begun: float) -> bool:
        """Whether the waiters cost fewer calls one by one than a list, which shows other people's jobs too."""
        waiting, pages = len(self._entries), self._list.pages
        if waiting <= GET_AT_MOST:
            return True
        return waiting < pages and begun - self._list.read_at < max(
            COUNT_AGAIN_SECONDS, COUNT_AGAIN_PER_PAGE * pages
        )

    # --- reading -------------------------------------------------------------------------------

    async def _got(self, name: str, *, reserved: bool = False) -> JobView:
        for miss in range(MISSES):
            try:
                raw = await self._calls.get(name, urgent=True, reserved=reserved and miss == 0)
            except Exception as error:
                if not is_gone(error):
                    raise
                if miss + 1 < MISSES:
                    await asyncio.sleep(pace.LEAST_SECONDS)
                continue
            view = JobView.of(raw)
            entry = self._entries.get(name)
            if entry is not None:
                self._publish(entry, view)
            return view
        raise JobGoneError(f"{name} does not exist (any more)")

    async def _read_unlisted(self, more: Sequence[Entry] = ()) -> None:
        """Read jobs that the list did not show, some now and the rest soon.

        That they cannot be read is their own trouble, while the list works: it fails no poll.
        """
        left = [e for e in dict.fromkeys((*more, *self._unread)) if e.subscriptions and not e.settled]
        self._unread = left[GETS_PER_POLL:]
        pause = pace.LEAST_SECONDS
        try:
            await self._read_each(left[:GETS_PER_POLL])
        except Exception as error:
            self._singles.failed(error, self._loop.time())
            self._unread = left
            pause = self._pause_after(self._singles.failures)
        else:
            if left:
                self._singles.worked()
        if self._unread:
            self._wake_at(self._loop.time() + pause)

    async def _read_each(self, entries: Sequence[Entry]) -> None:
        errors: list[Exception] = []
        for start in range(0, len(entries), GETS_AT_ONCE):
            results = await asyncio.gather(
                *(self._read_one(entry) for entry in entries[start : start + GETS_AT_ONCE]),
                return_exceptions=True,
            )
            for result in results:
                if isinstance(result, Exception):
                    errors.append(result)
                elif isinstance(result, BaseException):
                    raise result
        if errors and len(errors) == len(entries):
            raise errors[0]

    async def _read_one(self, entry: Entry) -> None:
        try:
            raw = await self._calls.get(entry.name)
        except Exception as error:
            if is_gone(error):
                entry.misses += 1
                if entry.misses >= MISSES:
                    entry.fail(JobGoneError(f"{entry.name} does not exist (any more)"))
                return
            # A refusal of this one job, while others can be read, ends the wait for this one alone.
            entry.outage = entry.outage or Outage(entry.name, None)
            refused = entry.outage.failed(error, self._loop.time())
            if refused is not None:
                entry.fail(refused)
            raise
        self._publish(entry, JobView.of(raw))

    def _publish(self, entry: Entry, view: JobView) -> None:
        if entry.publish(view):
            self._changed_at = self._loop.time()

    async def _fail_all(self, error: PollRefusedError) -> None:
        now = self._loop.time()
        for number, entry in enumerate(list(self._entries.values()), start=1):
            # Who came in the middle of the outage has its own time: what it needs may be mended meanwhile.
            if not entry.settled and now - entry.joined >= error.bound:
                entry.fail(error)
            if number % lists.WAKES_AT_ONCE == 0:
                await asyncio.sleep(0)


__all__ = ["ACTIVE_FILTER", "Poller"]
