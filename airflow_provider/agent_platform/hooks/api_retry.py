"""Which errors of the API are repeated, and which leave open whether a call took effect.

In: exceptions of the clients, of google-auth and of the network. Out: yes or no, a code and a text,
tenacity's retrying objects. Errors of jobs (their ``error`` field) are not here: they are in
``policy.failures``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import tenacity


def is_transient(exc: BaseException) -> bool:
    """Return whether a *read* (or a cancel) that failed so is worth repeating.

    It says nothing about a job.
    """
    raise NotImplementedError


def is_ambiguous_create(exc: BaseException) -> bool:
    """Return whether a job may exist although its create call failed so.

    Read the ledger before anything else.
    """
    raise NotImplementedError


def is_rate_limited(exc: BaseException) -> bool:
    """Return whether the call was refused for its rate: nothing was stored, the same call may be repeated later.

    A 429 for a *resource* quota ("quota metrics exceed quota limits") is not: that one is a QUOTA failure.
    """
    raise NotImplementedError


def is_gone(exc: BaseException) -> bool:
    """Return whether the job does not exist (404)."""
    raise NotImplementedError


def api_error_parts(exc: BaseException) -> tuple[int, str]:
    """Return gRPC code and text of an error, for ``policy.failures.classify``.

    2 (UNKNOWN) when it has no code.
    """
    raise NotImplementedError


def read_retrying(
    *,
    bound: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tenacity.Retrying:
    """Return a retrying object for reads; the last error is raised as it is.

    :param bound: seconds after which a failing read is not repeated any more.
    :param sleep: injected by tests.
    :param clock: injected by tests; seconds.
    """
    raise NotImplementedError


def async_read_retrying(
    *,
    bound: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tenacity.AsyncRetrying:
    """Return the same for coroutines."""
    raise NotImplementedError
