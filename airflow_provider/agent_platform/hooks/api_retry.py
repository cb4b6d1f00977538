"""Which errors of the API are repeated, and which leave open whether a call took effect.

In: exceptions of the clients, of google-auth and of the network. Out: yes or no, a code and a text, the
retrying objects of tenacity. Errors of jobs (their ``error`` field) are not here: they are in
``policy.failures``.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

import tenacity

OK, CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, NOT_FOUND = 0, 1, 2, 4, 5
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = (
    8,
    9,
    10,
    13,
    14,
    16,
)

TRANSIENT_CODES = frozenset({UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, INTERNAL, UNAVAILABLE})
"""Codes of a read that say nothing about the job. UNKNOWN is what a proxy that drops a stream looks like."""
AMBIGUOUS_CODES = frozenset({CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, ABORTED, INTERNAL, UNAVAILABLE})
"""Codes of a create after which the job may be there."""

_HTTP_CODES = {
    400: 3,
    401: 16,
    403: 7,
    404: 5,
    409: 10,
    412: 9,
    429: 8,
    499: 1,
    500: 13,
    501: 12,
    503: 14,
    504: 4,
}
_QUOTA_TEXT = re.compile(r"quota metrics? exceeds? quota limits?", re.IGNORECASE)
_RATE_TEXT = re.compile(
    r"RATE_LIMIT_EXCEEDED|rate limit|too many requests|per (minute|second)|exceeded for quota metric"
    r"|resource has been exhausted",
    re.IGNORECASE,
)
_REVOKED_TEXT = re.compile(r"invalid_grant|invalid_client|unauthorized_client")
"""The token server's own words for a key or account that it will not accept again (RFC 6749, section 5.2)."""
_PLUGIN_TEXT = "metadata from plugin failed"
"""How grpc reports, as UNAVAILABLE, that google-auth got no token."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0


def is_transient(exc: BaseException) -> bool:
    """Return whether a *read* (or a cancel) that failed so is worth repeating; it says nothing about a job.

    :param exc: what the call raised.
    """
    if not isinstance(exc, Exception) or _is_revoked(exc):
        return False
    if _is_from(exc, "google.auth"):
        # No credentials at all will not mend itself; a refresh that failed usually does.
        return type(exc).__name__ not in {"DefaultCredentialsError", "MalformedError", "InvalidValue"}
    code = _code(exc)
    return code in TRANSIENT_CODES if code is not None else isinstance(exc, (OSError, asyncio.TimeoutError))


def is_ambiguous_create(exc: BaseException) -> bool:
    """Return whether a job may exist although its create call failed so: read the ledger before anything else.

    :param exc: what the call raised; also the end of the process' patience (a timeout, an interrupt).
    """
    if _is_from(exc, "google.auth") or _is_revoked(exc):
        return False  # the call was never sent
    code = _code(exc)
    if code is not None:
        return code in AMBIGUOUS_CODES
    return isinstance(
        exc, (OSError, asyncio.TimeoutError, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
    )


def is_rate_limited(exc: BaseException) -> bool:
    """Return whether the call was refused for its rate: nothing was stored, the same call may be repeated later.

    A 429 for a *resource* quota ("quota metrics exceed quota limits") is not: that one is a QUOTA failure.

    :param exc: what the call raised.
    """
    if _code(exc) != RESOURCE_EXHAUSTED or _QUOTA_TEXT.search(str(exc)):
        return False
    reason = getattr(exc, "reason", None)  # of google.rpc.ErrorInfo
    return reason == "RATE_LIMIT_EXCEEDED" or bool(_RATE_TEXT.search(str(exc)))


def is_gone(exc: BaseException) -> bool:
    """Return whether the job does not exist (404).

    :param exc: what the call raised.
    """
    return _code(exc) == NOT_FOUND


def api_error_parts(exc: BaseException) -> tuple[int, str]:
    """Return gRPC code and text of an error, for ``policy.failures.classify``.

    :param exc: what a call raised.
    :returns: the code is 2 (UNKNOWN) when there is none to be found.
    """
    text = str(getattr(exc, "message", "") or "") or _details(exc) or str(exc) or type(exc).__name__
    code = UNAUTHENTICATED if _is_revoked(exc) else _code(exc)
    if code is None:
        if _is_from(exc, "google.auth"):
            code = (
                UNAVAILABLE if type(exc).__name__ in {"TransportError", "TimeoutError"} else UNAUTHENTICATED
            )
        elif isinstance(exc, (asyncio.TimeoutError, TimeoutError)):
            code = DEADLINE_EXCEEDED
        else:
            code = UNAVAILABLE if isinstance(exc, OSError) else UNKNOWN
    return code, text


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
    return tenacity.Retrying(
        sleep=sleep, stop=_stop_after(bound, clock), wait=_WAIT, retry=_WHEN, reraise=True
    )


def async_read_retrying(
    *,
    bound: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tenacity.AsyncRetrying:
    """Return the same for coroutines.

    :param bound: seconds after which a failing read is not repeated any more.
    :param sleep: injected by tests.
    :param clock: injected by tests; seconds.
    """
    return tenacity.AsyncRetrying(
        sleep=sleep, stop=_stop_after(bound, clock), wait=_WAIT, retry=_WHEN, reraise=True
    )


_WAIT = tenacity.wait_random_exponential(multiplier=_FIRST_WAIT, max=_LONGEST_WAIT)
_WHEN = tenacity.retry_if_exception(is_transient)


def _stop_after(bound: float, clock: Callable[[], float]) -> Callable[[tenacity.RetryCallState], bool]:
    # tenacity's own stop_after_delay reads the machine's clock and cannot be given another.
    end = clock() + bound
    return lambda state: clock() >= end


def _is_revoked(exc: BaseException) -> bool:
    text = str(exc)
    from_auth = _is_from(exc, "google.auth") or _PLUGIN_TEXT in text
    return from_auth and _REVOKED_TEXT.search(text) is not None


def _code(exc: BaseException) -> int | None:
    """The gRPC code of an error of google-api-core, by REST or gRPC, or of grpc itself."""
    status = getattr(exc, "grpc_status_code", None)
    if status is None and _is_from(exc, "grpc"):
        status = exc.code() if callable(getattr(exc, "code", None)) else None  # type: ignore[attr-defined]
    value = getattr(status, "value", None)
    if isinstance(value, tuple) and value:
        return int(value[0])
    http = getattr(exc, "code", None) if _is_from(exc, "google.api_core") else None
    return _HTTP_CODES.get(int(http), UNKNOWN) if isinstance(http, int) else None


def _details(exc: BaseException) -> str:
    details = getattr(exc, "details", None)
    return str(details() or "") if _is_from(exc, "grpc") and callable(details) else ""


def _is_from(exc: BaseException, package: str) -> bool:
    # By name: importing the packages to ask isinstance would cost a second where nothing of them is in use.
    return any(f"{kind.__module__}.".startswith(f"{package}.") for kind in type(exc).__mro__)
