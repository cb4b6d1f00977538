"""A trigger's log lines, written without holding the event loop.

In: a trigger's log, a level, a text. Out: the line, in the order of the calls of one trigger. Not here: what the lines
say (:mod:`.words`).

In Airflow's triggerer a line is a blocking write to a socket that its supervisor reads when it has time for it. The
first answer that hundreds of waiting jobs get together fills that socket. While the event loop holds at such a write,
it does not read what the supervisor sends it, for example the next triggers to start; when that is more than a socket
takes, the supervisor holds too, and both wait for each other for ever. (Seen when a triggerer started with 1,000
deferred tasks, now and then; with ``[triggerer] max_trigger_to_select_per_loop`` at 500, each time.)
"""

from __future__ import annotations

import asyncio
from typing import Any


async def write(log: Any, level: int, text: str) -> None:
    """Write one line from a thread, and wait for it.

    :param log: of a trigger, or of the standard library.
    :param level: of :mod:`logging`.
    :param text: the finished line.
    """
    in_thread = getattr(log, "alog", None)  # keeps the caller's place in the code
    if in_thread is None:
        await asyncio.to_thread(log.log, level, text)
    else:
        await in_thread(level, text)
