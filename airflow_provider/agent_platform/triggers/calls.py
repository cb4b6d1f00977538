"""The calls of one poll loop: within a budget, with a deadline, counted.

In: a reader and budgets. Out: answers, or the last error. Which job a call is for, and what an error
means for it, is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import tenacity

from airflow_provider.agent_platform.triggers import metrics
from airflow_provider.agent_platform.triggers.call_budget import CallBudget, CallBudgets
from airflow_provider.agent_platform.triggers.reader import JobReader
from airflow_provider.agent_platform.triggers.renewable_reader import RenewableReader
from airflow_provider.agent_platform.triggers.trouble import Trouble, is_gone, judge, may_be_the_connection

T = TypeVar("T")

CALL_SECONDS: Final = 20.0
"""Deadline of one call. Without one a half-open connection never answers."""

QUICK_SECONDS: Final = 0.2
"""Pause before a failed call of a poll is made once more."""


class Calls:
    """Makes the calls of one loop.

    :param reader: talks to the service; made anew while the service refuses it.
    :param budgets: of the project and region.
    :param tags: of the metrics.
    """

    def __init__(self, reader: RenewableReader, *, budgets: CallBudgets, tags: dict[str, str]) -> None:
        self._reader = reader
        self._polling, self._urgent, self._searching = budgets.polling, budgets.urgent, budgets.searching
        self._tags = tags
        self._loop = asyncio.get_running_loop()
        self._quick = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=4),
            stop=tenacity.stop_after_attempt(2),
            sleep=asyncio.sleep,
            reraise=True,
        )
        self.good = 0
        """How many were answered."""
        self.patient = True
        """Whether a failed read is repeated at once. Not during an outage: the next answer ends that."""

    async def page(self, filter: str, fields: Sequence[str], token: str) -> tuple[Any, str]:
        """Read a page of a list that the loop reads by itself."""
        return await self._page(filter, fields, token, self._polling)

    async def search(
        self, filter: str, fields: Sequence[str], token: str, *, urgent: bool = False
    ) -> tuple[Any, str]:
        """Read a page of a list that somebody looks for a job in."""
        return await self._page(filter, fields, token, self._urgent if urgent else self._searching)

    async def get(self, name: str, *, urgent: bool = False, reserved: bool = False) -> Any:
        """Read one job.

        :param reserved: its slot was taken by ``reserve``.
        """
        budget = self._urgent if urgent else self._polling
        return await self._repeated(
            lambda reader: reader.get(name, timeout=CALL_SECONDS), budget, reserved=reserved
        )

    async def cancel(self, name: str) -> None:
        """Cancel one job, in a slot taken by ``reserve``. Never repeated here."""
        await self._once(lambda reader: reader.cancel(name, timeout=CALL_SECONDS), None)

    async def reserve(self, calls: int) -> None:
        """Wait until so many urgent calls may be made, one right after the other."""
        await self._slot(self._urgent, calls)

    async def close(self) -> None:
        """Give the connection back."""
        await self._reader.close()

    async def _page(
        self, filter: str, fields: Sequence[str], token: str, budget: CallBudget
    ) -> tuple[Any, str]:
        try:
            return await self._repeated(
                lambda reader: reader.list_page(
                    filter=filter, fields=fields, page_token=token, timeout=CALL_SECONDS
                ),
                budget,
            )
        except Exception as error:
            if is_gone(error):  # the project or region, for this account
                self._reader.renew()
            raise

    async def _repeated(
        self, call: Callable[[JobReader], Awaitable[T]], budget: CallBudget, *, reserved: bool = False
    ) -> T:
        # One lost page of a hundred must not spoil a whole poll. Tried without tenacity first: it costs more
        # than a page does.
        try:
            return await self._once(call, None if reserved else budget)
        except Exception as error:
            if not self.patient or not _is_transient(error):
                raise
        await asyncio.sleep(QUICK_SECONDS)
        return await self._quick(self._once, call, budget)

    async def _slot(self, budget: CallBudget, calls: int = 1) -> None:
        pause = budget.take(self._loop.time(), calls)
        if pause > 0:
            await asyncio.sleep(pause)

    async def _once(self, call: Callable[[JobReader], Awaitable[T]], budget: CallBudget | None) -> T:
        if budget is not None:
            await self._slot(budget)
        metrics.incr(metrics.POLL_CALLS, tags=self._tags)
        try:
            answer = await asyncio.wait_for(self._reader.call(call), CALL_SECONDS + 5.0)
        except Exception as error:
            metrics.incr(metrics.POLL_ERRORS, tags=self._tags)
            if may_be_the_connection(error):
                self._reader.renew()
            raise
        self.good += 1
        self.patient = True
        return answer


def _is_transient(error: BaseException) -> bool:
    return judge(error)[0] is Trouble.TRANSIENT
