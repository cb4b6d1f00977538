"""Who shares a poll loop: one for each event loop and key, made when the first waiter comes.

In: a key. Out: its poller. Event loops are held weakly: a loop that went away, as those of ``dag.test()`` do,
takes its pollers with it.
"""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, field

from airflow_provider.agent_platform.triggers.call_budget import CallBudgets
from airflow_provider.agent_platform.triggers.poller import Poller
from airflow_provider.agent_platform.triggers.reader import HookReader, PollKey, ReaderFactory


@dataclass
class _Home:
    """What one event loop has."""

    pollers: weakref.WeakValueDictionary[PollKey, Poller] = field(default_factory=weakref.WeakValueDictionary)
    budgets: dict[tuple[str, str], CallBudgets] = field(default_factory=dict)


_HOMES: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Home] = weakref.WeakKeyDictionary()


def poller_for(key: PollKey, *, reader_factory: ReaderFactory = HookReader) -> Poller:
    """Answer the running event loop's poller for a key. Subscribe before the next ``await``, or it may have
    stopped."""
    home = _home()
    poller = home.pollers.get(key)
    if poller is None:

        def stopped(ended: Poller) -> None:
            if home.pollers.get(key) is ended:
                del home.pollers[key]

        poller = home.pollers[key] = Poller(
            key,
            lambda: reader_factory(key),
            budgets=budgets_for(key.project, key.region),
            stopped=stopped,
        )
    return poller


def budgets_for(project: str, region: str) -> CallBudgets:
    """Answer the running event loop's call budgets of one project and region, whatever connection or kind of
    job."""
    return _home().budgets.setdefault((project, region), CallBudgets())


def pollers() -> tuple[Poller, ...]:
    """Answer the pollers of the running event loop: for tests and figures."""
    return tuple(_home().pollers.values())


def _home() -> _Home:
    loop = asyncio.get_running_loop()
    home = _HOMES.get(loop)
    if home is None:
        home = _HOMES[loop] = _Home()
    return home
