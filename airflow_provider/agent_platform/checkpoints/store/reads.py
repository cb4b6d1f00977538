"""Which storage errors are repeated, how often, and what the others are called in the log.

The storage client's own retries are switched off (``retry=None``): they have no common end, and hide from the
log that anything was repeated.
"""

from __future__ import annotations

from collections.abc import Callable

import tenacity

ATTEMPTS = 5
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
TIMEOUT = (CONNECT_SECONDS, READ_SECONDS)
"""Connect and read deadline of one request, in seconds."""

_TRANSIENT_CODES = frozenset({408, 429, 500, 502, 503, 504})


def is_transient(error: BaseException) -> bool:
    """Say whether a storage call may succeed when it is repeated."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import TransportError
    from requests.exceptions import ChunkedEncodingError, ConnectionError, Timeout

    if isinstance(error, GoogleAPICallError):
        return error.code in _TRANSIENT_CODES
    return isinstance(
        error,
        ConnectionError
        | Timeout
        | ChunkedEncodingError
        | TransportError
        | TimeoutError
        | ConnectionResetError,
    )


def retrying(sleep: Callable[[float], None], seconds_left: float) -> tenacity.Retrying:
    """Return how one storage read is repeated: five times, backing off, and never beyond the seconds left."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_transient),
        stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_before_delay(max(seconds_left, 0.0)),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=15),
        sleep=sleep,
        reraise=True,
    )


def describe(
    error: BaseException, where: str, what: str = "list", permission: str = "storage.objects.list"
) -> str:
    """Return one sentence that says what is wrong and what to do."""
    from google.api_core.exceptions import Forbidden, NotFound, Unauthorized
    from google.auth.exceptions import GoogleAuthError

    first_line = str(error).strip().partition("\n")[0][:300]
    if isinstance(error, Forbidden | Unauthorized):
        return (
            f"no permission to {what} {where}: grant {permission} to the connection's identity ({first_line})"
        )
    if isinstance(error, NotFound):
        return f"{where} does not exist: create the bucket, or correct base_output_directory"
    if isinstance(error, GoogleAuthError):
        return f"no credentials to {what} {where} ({first_line})"
    return f"cannot {what} {where}: {type(error).__name__}: {first_line}"
