"""What stands between a wire and the service: the count of calls, and the faults that hit calls.

In: a method's name and what it would do. Out: its answer, an :class:`ApiError` by a fault, or
:class:`CallHangs`, which a wire turns into an answer that never comes.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import TypeVar

from google.rpc import code_pb2

from airflow_provider.agent_platform.emulator.clock import BaseClock
from airflow_provider.agent_platform.emulator.errors import ApiError
from airflow_provider.agent_platform.emulator.faults import Faults, Target

Answer = TypeVar("Answer")
CALLS_A_MINUTE, WRITES_A_MINUTE = 600, 60


class CallHangs(Exception):
    """The caller shall get no answer.

    :param released: set when the emulator ends or is reset; until then the wire keeps the call open, or until
        its caller goes away.
    """

    def __init__(self, released: threading.Event) -> None:
        super().__init__("the call hangs")
        self.released = released


class Calls:
    """Counts calls and lets faults hit them. Thread-safe."""

    def __init__(self, faults: Faults, lock: threading.RLock, clock: BaseClock, *, rate_limits: bool) -> None:
        """:param lock: the engine's, which guards the faults too."""
        self._clock = clock
        self._faults = faults
        self._lock = lock
        self._rate_limits = rate_limits
        self._counts: Counter[str] = Counter()
        self._recent: dict[tuple[str, str], deque[float]] = {}
        self._released = threading.Event()

    def count(self, method: str) -> None:
        """Count a call that never gets as far as :meth:`run`."""
        with self._lock:
            self._counts[method] += 1

    def counts(self) -> dict[str, int]:
        """Calls by method since the last reset, refused ones too."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> None:
        """Count from zero, let go of hanging calls."""
        with self._lock:
            self._counts.clear()
            self._recent.clear()
            released, self._released = self._released, threading.Event()
        released.set()

    def run(self, method: str, target: Target, do: Callable[[], Answer]) -> Answer:
        """One call.

        :raises ApiError: the service's own, or a fault's.
        :raises CallHangs: the fault ``rpc_hang``.
        """
        with self._lock:
            self._counts[method] += 1
            if self._faults.take("rpc_hang", target):
                raise CallHangs(self._released)
            fault = self._faults.take("rpc_error", target)
        if fault is not None and not fault.options.get("after_effect"):
            raise _error(fault.options)
        if self._rate_limits:
            self._limit(method, target.region)
        answer = do()
        if fault is not None:
            raise _error(fault.options)
        return answer

    def _limit(self, method: str, region: str) -> None:
        limits = {"calls": CALLS_A_MINUTE}
        if method.startswith(("Create", "Delete")):
            limits["creates and deletes"] = WRITES_A_MINUTE
        now = self._clock.monotonic() * self._clock.speed
        with self._lock:
            for what, limit in limits.items():
                recent = self._recent.setdefault((region, what), deque())
                while recent and recent[0] <= now - 60:
                    recent.popleft()
                if len(recent) >= limit:
                    raise ApiError(
                        code_pb2.RESOURCE_EXHAUSTED,
                        f"Quota exceeded: {limit} {what} a minute in region {region}.",
                    )
                recent.append(now)


def _error(options: object) -> ApiError:
    assert isinstance(options, dict)
    name = options.get("code", "UNAVAILABLE")
    default = {
        "UNAVAILABLE": "The service is currently unavailable.",
        "INTERNAL": "Internal error encountered.",
    }.get(name, f"{name} by the emulator's fault rpc_error.")
    return ApiError(code_pb2.Code.Value(name), options.get("message", default))
