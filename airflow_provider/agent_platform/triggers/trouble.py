"""What a failed read means for a wait: nothing, unless the service refuses it for a bounded time.

In: exceptions of reads, the time. Out: one line when an outage starts and one when it ends, and after a bound
the error to give up with. None of these errors says anything about a job; that is why only refusals are ever
given up on. Shared by the poller and the plain mode.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any, Final

from airflow_provider.agent_platform.triggers import words

REFUSED_FOR: Final = 300.0
"""Seconds a 403, or a 404 of the project or region, must last. Shorter ones are seen while permissions
spread."""

GIVE_UP_ANSWERS: Final = 3
"""So many answers of one class in a row at least, however long that takes: a job that is read once an hour must not
be given up on for two."""

SAY_EVERY: Final = 600.0
"""Seconds between two outages that are said."""

UNKNOWN_FOR: Final = 3600.0
"""Seconds after which an error that is neither transient nor a refusal is given up on."""

REFUSALS: Final = frozenset({3, 5, 7, 9, 12, 16})
"""``google.rpc.Code``: INVALID_ARGUMENT, NOT_FOUND (of the parent), PERMISSION_DENIED, FAILED_PRECONDITION,
UNIMPLEMENTED, UNAUTHENTICATED."""

HINTS: Final[dict[int, str]] = {
    5: "the project or region does not exist for this identity",
    7: "the identity of the connection needs aiplatform.customJobs.get and .list "
    "(or hyperparameterTuningJobs); role roles/aiplatform.user has them",
    16: "the credentials of the connection are not accepted any more",
}


class Trouble(Enum):
    """The three classes of failed reads."""

    TRANSIENT = "transient"
    REFUSED = "refused"
    UNKNOWN = "unknown"


BOUNDS: Final = {Trouble.REFUSED: REFUSED_FOR, Trouble.UNKNOWN: UNKNOWN_FOR}
"""Seconds after which a class of failed reads is given up on; never, if it is not here."""


class PollRefusedError(Exception):
    """The state of a job could not be learned for a bounded time, and waiting longer will not help.

    :param code: ``google.rpc.Code``, ``None`` if the error had none.
    :param bound: seconds a wait must have lasted to be given up with it.
    """

    def __init__(self, code: int | None, message: str, bound: float = 0.0) -> None:
        super().__init__(code, message, bound)
        self.code = code
        self.message = message
        self.bound = bound

    def __str__(self) -> str:
        return self.message


def judge(error: BaseException) -> tuple[Trouble, int | None]:
    """Answer the class of a failed read, and its code if it has one."""
    from airflow_provider.agent_platform.hooks import api_retry

    if isinstance(error, (asyncio.TimeoutError, TimeoutError)) or api_retry.is_transient(error):
        return Trouble.TRANSIENT, None
    code, _ = api_retry.api_error_parts(error)
    if code in REFUSALS:
        return Trouble.REFUSED, code
    return Trouble.UNKNOWN, code or None


def repeatable(error: BaseException, *never: type[Exception]) -> bool:
    """Answer whether what failed so may be tried again: a predicate for tenacity, which catches everything.

    A cancel, Ctrl-C and the end of the process are no failures: they must come through at once.

    :param never: errors that no repeat mends.
    """
    return isinstance(error, Exception) and not isinstance(error, never)


def may_be_the_connection(error: BaseException) -> bool:
    """Answer whether another key, account or address in the Airflow connection might have made a call work.

    Everything but what only time mends, and a job that does not exist. Of the errors that time mends usually, those
    of getting a token belong here: grpc reports them as UNAVAILABLE.
    """
    if judge(error)[0] is Trouble.TRANSIENT:
        return type(error).__module__.startswith("google.auth") or "metadata from plugin failed" in str(error)
    return not is_gone(error)


def is_gone(error: BaseException) -> bool:
    """Answer whether a Get says that this one job does not exist."""
    from airflow_provider.agent_platform.hooks import api_retry

    return api_retry.is_gone(error)


def brief(error: BaseException) -> str:
    """Answer an error in one line of bounded length."""
    text = " ".join(str(error).split()) or "no text"
    return f"{type(error).__name__}: {text[:300]}"


class Outage:
    """The failed reads of one loop, from the first to the next good one.

    While reads fail now and then, as when a quota is short, many outages follow each other: they are said once
    in ``SAY_EVERY``.

    :param where: named in the log lines.
    :param log: logger, of the standard library or structlog's, where the two lines go; ``None``: nowhere,
        somebody else says it.
    """

    __slots__ = ("_answers", "_kind", "_log", "_said", "_say_from", "_since", "_where", "failures")

    def __init__(self, where: str, log: Any) -> None:
        self._where = where
        self._log = log
        self._kind: Trouble | None = None
        self._since = 0.0
        self._answers = 0
        self._said = False
        self._say_from = float("-inf")
        self.failures = 0

    def failed(self, error: BaseException, now: float, *, partly: bool = False) -> PollRefusedError | None:
        """Take a failed read; answer the error to give up with when the bound has passed.

        :param now: seconds, by a clock of the caller.
        :param partly: others were answered since the last failure: the bound begins anew.
        """
        kind, code = judge(error)
        self.failures += 1
        if self._log is not None and not self._said and now >= self._say_from:
            self._said, self._say_from = True, now + SAY_EVERY
            self._log.warning(
                "Reading %s fails: %s. No task fails because of that; reading goes on, the next line comes "
                "when it works again.",
                self._where,
                brief(error),
                exc_info=error if kind is Trouble.UNKNOWN else None,
            )
        # A refusal in the middle of an outage starts its own bound; a change of kind ends the other's.
        if partly or kind is not self._kind:
            self._kind, self._since, self._answers = kind, now, 0
        self._answers += 1
        bound = BOUNDS.get(kind)
        if bound is None or now - self._since < bound or self._answers < GIVE_UP_ANSWERS:
            return None
        hint = f" ({HINTS[code]})" if code in HINTS else ""
        return PollRefusedError(
            code,
            f"Reading {self._where} has been refused for {words.span(now - self._since)}: "
            f"{brief(error)}{hint}. The job was left as it is.",
            bound,
        )

    def worked(self) -> None:
        """Take a good read."""
        if self._said:
            self._said = False
            self._log.warning("Reading %s works again after %d failed reads.", self._where, self.failures)
        self._kind = None
        self.failures = 0
