"""The three clocks of a waiting job, as pure functions of absolute times.

In: the deadlines as the operator computed them once, what is known of the job, the time. Out: which clock has
ended, or when the next one will. This is not the place that acts on it (:mod:`.watch` decides, the trigger
and the plain mode do).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import pendulum

Now = Callable[[], pendulum.DateTime]
"""A clock: answers the time, aware and in UTC. Injected everywhere, so that tests need not wait."""


def utcnow() -> pendulum.DateTime:
    """Answer the time by this machine's clock, in UTC."""
    return pendulum.now("UTC")


class ClockName(str, Enum):
    """Which clock ended. The values are the event types of :mod:`.events`."""

    EXECUTION = "execution_timeout"
    RUN = "run_timeout"
    QUEUE = "queue_timeout"


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """The limits of one wait. Deadlines are absolute, so that a restart of the trigger extends nothing.

    :param queue_deadline: the job must have been RUNNING once by then; ``None``: it may wait for ever.
        Computed by the operator over all jobs of the epoch.
    :param run_timeout: seconds from the job's first start (``start_time`` of the API); ``None``: no limit of
        ours.
    :param execution_deadline: Airflow's ``execution_timeout`` as a time, counted from the first start of the
        try.
    """

    queue_deadline: pendulum.DateTime | None = None
    run_timeout: float | None = None
    execution_deadline: pendulum.DateTime | None = None

    @classmethod
    def parse(
        cls,
        *,
        queue_deadline: str | None = None,
        run_timeout: float | None = None,
        execution_deadline: str | None = None,
    ) -> Clocks:
        """Read the clocks from trigger kwargs (ISO 8601 texts).

        :raises ValueError: a deadline is no ISO 8601 time with a zone, or ``run_timeout`` is not above 0.
        """
        if run_timeout is not None and not run_timeout > 0:
            raise ValueError(
                f"run_timeout is {run_timeout!r}: give a number of seconds above 0, or None for no limit"
            )
        return cls(
            queue_deadline=parse_time("queue_deadline", queue_deadline),
            run_timeout=None if run_timeout is None else float(run_timeout),
            execution_deadline=parse_time("execution_deadline", execution_deadline),
        )

    def deadlines(
        self, *, started: bool, start_time: pendulum.DateTime | None
    ) -> tuple[tuple[pendulum.DateTime, ClockName], ...]:
        """Answer the clocks that are running now, earliest first.

        :param started: the job was RUNNING once. A job that went back to PENDING between two of the
            platform's own attempts has started, so ``queue_timeout`` does not count for it again.
        :param start_time: its first start, if known.
        """
        running = []
        if self.execution_deadline is not None:
            running.append((self.execution_deadline, ClockName.EXECUTION))
        if self.run_timeout is not None and start_time is not None:
            running.append((start_time.add(seconds=self.run_timeout), ClockName.RUN))
        if self.queue_deadline is not None and not started:
            running.append((self.queue_deadline, ClockName.QUEUE))
        return tuple(sorted(running, key=lambda pair: pair[0]))


def parse_time(field: str, text: str | None) -> pendulum.DateTime | None:
    """Read an ISO 8601 time with a zone; ``None`` stays ``None``.

    :raises ValueError: names the field, the value and what is expected.
    """
    if text is None:
        return None
    try:
        parsed = pendulum.parse(text, strict=True, exact=True)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f'{field} is {text!r}: give an ISO 8601 time such as "2026-01-31T14:30:00Z"'
        ) from error
    if not isinstance(parsed, pendulum.DateTime):
        raise ValueError(f'{field} is {text!r}: give a date with a time, such as "2026-01-31T14:30:00Z"')
    return parsed.in_timezone("UTC")
