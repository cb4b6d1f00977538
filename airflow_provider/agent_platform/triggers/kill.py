"""Cancel the job of a killed task, once, from a task of the event loop that nothing else can cancel.

In: a trigger that was cancelled or asked to kill. Out: at most one cancel that the service took. Airflow 3.3
cancels ``on_kill`` itself after about a second and sometimes never calls it, so the work is started from
``run()`` when its ``CancelledError`` arrives, and only found again by ``on_kill``. Nothing here runs on
shutdown: the loop ends it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import tenacity

from airflow_provider.agent_platform.triggers import ownership, supervisor, trouble
from airflow_provider.agent_platform.triggers.ownership import OWNER_XCOM_KEY, Owner, Verdict, verdict
from airflow_provider.agent_platform.triggers.poller import Poller
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import HookReader, PollKey, ReaderFactory
from airflow_provider.agent_platform.triggers.subscription import JobGoneError
from airflow_provider.agent_platform.triggers.words import short_state

log = logging.getLogger(__name__)

ASK_EVERY: Final = 2.0
ASK_FOR: Final = 20.0
"""Seconds a question is repeated for while the answer may still change: a clear needs a second or two, on a
busy machine some more, until its new try has taken over."""

FIRST_ANSWER: Final = 120.0
"""Seconds in which Airflow must have answered at all. The first question in a triggerer builds an
application."""

CANCEL_FOR: Final = 300.0
"""Seconds a cancel that fails is repeated for."""

_RUNNING: Final[set[asyncio.Task[Any]]] = set()
"""Strong references: an event loop holds its tasks only weakly."""


def start(
    *,
    ti: Any,
    key: PollKey,
    job_name: str,
    try_number: int,
    reader_factory: ReaderFactory = HookReader,
) -> asyncio.Task[bool]:
    """Start the check and the cancel; answers at once.

    :param ti: the trigger's task instance.
    :param key: where the job is.
    :param job_name: the job.
    :param try_number: the try that deferred.
    :return: the task; its result is whether a cancel was sent.
    """
    work = kill(ti=ti, key=key, job_name=job_name, try_number=try_number, reader_factory=reader_factory)
    task = asyncio.get_running_loop().create_task(work, name=f"kill {job_name}")
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)
    return task


async def kill(
    *, ti: Any, key: PollKey, job_name: str, try_number: int, reader_factory: ReaderFactory = HookReader
) -> bool:
    """Ask who owns the job; cancel it if nobody does any more. Never raises but ``CancelledError``."""
    try:
        answer, why = await _settle(ti, job_name, try_number)
    except Exception as error:
        log.warning(
            "%s: the trigger was cancelled and Airflow could not be asked why (%s). The job is left as it is: "
            "the next try adopts it, or cancel it by hand.",
            job_name,
            trouble.brief(error),
        )
        return False
    if answer is not Verdict.CANCEL:
        log.info("%s: the trigger was cancelled; the job is kept: %s", job_name, why)
        return False
    poller = poller_for(key, reader_factory=reader_factory)
    with poller.hold():
        try:
            return await _cancel(poller, job_name, why)
        except JobGoneError:
            log.info("%s: %s; the job does not exist any more", job_name, why)
        except Exception as error:
            log.error(
                "%s: %s, but the job could not be cancelled within %d s: %s. Cancel it by hand.",
                job_name,
                why,
                int(CANCEL_FOR),
                trouble.brief(error),
            )
        return False


async def _settle(ti: Any, job_name: str, try_number: int) -> tuple[Verdict, str]:
    loop = asyncio.get_running_loop()
    # From the first answer on: on a busy machine that alone can take half a minute.
    end = loop.time() + FIRST_ANSWER
    answered = False

    async def ask() -> tuple[Verdict, str]:
        nonlocal end, answered
        task = await supervisor.task_state(ti)
        owner = None
        if task.exists and ownership.STATES.get(task.state) is ownership.Part.AT_WORK:
            owner = Owner.parse(await supervisor.get_xcom(ti, OWNER_XCOM_KEY))
        if not answered:
            answered, end = True, loop.time() + ASK_FOR
        last = loop.time() >= end - ASK_EVERY
        return verdict(task, owner, try_number=try_number, job_name=job_name, last=last)

    asking = tenacity.AsyncRetrying(
        # An error may be a database that is busy for a moment; it is asked again as long as an open question
        # is.
        retry=tenacity.retry_if_exception(
            lambda error: trouble.repeatable(error, supervisor.NoSupervisorError)
        )
        | tenacity.retry_if_result(lambda answer: answer[0] is Verdict.ASK_AGAIN),
        wait=tenacity.wait_fixed(ASK_EVERY),
        stop=lambda state: loop.time() >= end,
        sleep=asyncio.sleep,
        reraise=True,
    )
    answer: tuple[Verdict, str] = await asking(ask)
    return answer


async def _cancel(poller: Poller, job_name: str, why: str) -> bool:
    loop = asyncio.get_running_loop()
    end = loop.time() + CANCEL_FOR
    trying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(lambda error: trouble.repeatable(error, JobGoneError)),
        wait=tenacity.wait_exponential_jitter(initial=1, max=20, jitter=1),
        stop=lambda state: loop.time() >= end,
        sleep=asyncio.sleep,
        reraise=True,
    )

    async def once() -> bool:
        # Read before each cancel: one whose answer was lost is not sent again, and nobody's cancel is
        # doubled.
        sent, view = await poller.cancel(job_name, read=True)
        state = short_state(view.state) if view is not None else "not read"
        if sent:
            log.info("%s: %s; the job was %s and is being cancelled", job_name, why, state)
        else:
            log.info("%s: %s; the job is %s already", job_name, why, state)
        return sent

    sent: bool = await trying(once)
    return sent
