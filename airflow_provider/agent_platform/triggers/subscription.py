"""One waiter's place at a poller, and what the poller knows of one job.

In: readings and errors from the poller. Out: the waiter is woken, and only when its job changed. There is no
polling here, and no clock but the one that ends a wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import pendulum

from airflow_provider.agent_platform.triggers.view import JobView

if TYPE_CHECKING:
    from airflow_provider.agent_platform.triggers.trouble import Outage


class JobGoneError(Exception):
    """This one job does not exist (any more)."""


class Entry:
    """A job that somebody waits for."""

    __slots__ = (
        "error",
        "joined",
        "mark",
        "misses",
        "name",
        "outage",
        "state",
        "subscriptions",
        "version",
        "view",
    )

    def __init__(self, name: str, joined: float) -> None:
        self.name = name
        self.joined = joined
        self.state = -1
        self.mark = 0
        self.misses = 0
        self.version = 0
        self.view: JobView | None = None
        self.error: Exception | None = None
        self.outage: Outage | None = None
        self.subscriptions: list[Subscription] = []

    @property
    def settled(self) -> bool:
        """Whether nothing more can be learned: reading it again would be wasted."""
        if self.error is not None:
            return True
        return self.view is not None and self.view.ended and not self.view.waits_for_error

    def publish(self, view: JobView) -> bool:
        """Take a reading; wake the waiters if it says something new."""
        before = self.view
        self.seen()
        if (
            before is not None
            and before.state == view.state
            and before.error_code == view.error_code
            and before.error_message == view.error_message
        ):
            return False
        self.view, self.state = view, view.state
        self._wake()
        return True

    def seen(self) -> None:
        """The job is there and can be read: failed reads before this one count no more."""
        self.misses, self.outage = 0, None

    def fail(self, error: Exception) -> None:
        """End the wait of all waiters of this job."""
        self.error = error
        self._wake()

    def _wake(self) -> None:
        self.version += 1
        for subscription in self.subscriptions:
            subscription.wake()


class Subscription:
    """One waiter for one job. A context manager: leaving it may stop the poller.

    :param leave: called once, when the waiter goes.
    """

    __slots__ = ("_entry", "_future", "_leave", "_seen", "interval")

    def __init__(self, entry: Entry, interval: float, leave: Callable[[Entry, Subscription], None]) -> None:
        self._entry: Entry | None = entry
        self._leave = leave
        self._seen = 0
        self._future: asyncio.Future[None] | None = None
        self.interval = interval

    async def next(
        self, *, until: pendulum.DateTime | None, now: pendulum.DateTime, longest: float = float("inf")
    ) -> JobView | None:
        """Wait for the next change of the job; the first reading is one.

        :param until: answer ``None`` then, if nothing changed before.
        :param now: the time, by the clock that ``until`` was made with.
        :param longest: with ``until``: seconds after which ``None`` is answered too, by the event loop's clock.
        :raises JobGoneError: the job does not exist.
        :raises PollRefusedError: the service refused to tell for the bounded time.
        """
        entry = self._entry
        if entry is None:
            raise RuntimeError("this subscription has been closed")
        if self._seen == entry.version:
            # A bare future and one timer: a task around it, as wait_for makes, costs 2 KB for each waiting
            # job.
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = None
            if until is not None:
                # Not until - now: pendulum takes as long for that as for all the rest here.
                left = max(0.0, until.timestamp() - now.timestamp())
                timer = loop.call_later(min(left, longest), self.wake)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        if self._seen == entry.version:
            return None
        self._seen = entry.version
        if entry.error is not None:
            raise entry.error
        return entry.view

    def wake(self) -> None:
        """End the current wait."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Stop waiting. May be called more than once."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self._leave(entry, self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
