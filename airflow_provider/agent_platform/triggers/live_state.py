"""The XCom ``training_job``: what the job does now, written while the task is deferred.

In: a view whose state has just changed. Out: one XCom, written in the background and rarely: each write is
work for the triggerer's supervisor, which all triggers share. When many jobs change at once only some are
written; the platform is the truth, this is for people.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from airflow_provider.agent_platform.policy import states
from airflow_provider.agent_platform.triggers import supervisor, words
from airflow_provider.agent_platform.triggers.ownership import LIVE_XCOM_KEY
from airflow_provider.agent_platform.triggers.view import JobView

log = logging.getLogger(__name__)

WRITES_AT_ONCE: Final = 20
"""More than so many unfinished writes: the next ones are left out."""

_WRITING: Final[set[asyncio.Task[None]]] = set()


def live_value(view: JobView) -> dict[str, Any]:
    """Answer the JSON form: name, region, state by name, and since when."""
    begun = words.since(view)
    return {
        "name": view.name,
        "region": view.name.split("/")[3],
        "state": states.state_name(view.state),
        "since": begun.to_iso8601_string() if begun is not None else None,
    }


def publish(ti: Any, view: JobView) -> bool:
    """Write the state in the background; answer whether a write was started."""
    if ti is None or len(_WRITING) >= WRITES_AT_ONCE:
        return False
    task = asyncio.get_running_loop().create_task(_write(ti, live_value(view)))
    _WRITING.add(task)
    task.add_done_callback(_WRITING.discard)
    return True


async def _write(ti: Any, value: dict[str, Any]) -> None:
    try:
        await supervisor.set_xcom(ti, LIVE_XCOM_KEY, value)
    except supervisor.NoSupervisorError:
        pass
    except Exception:
        log.debug("The live state of %s could not be written", value["name"], exc_info=True)
