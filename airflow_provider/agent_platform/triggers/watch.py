"""What to do next for one waiting job: a state machine without I/O, driven by the trigger and by the plain
mode.

In: views of the job, failures to read or to cancel it, the time. Out: the next step, and the lines a person
should read. It knows no event loop, no client and no Airflow; both drivers share it, so that both have the
same clocks and the same tolerance.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pendulum

from airflow_provider.agent_platform.policy import states
from airflow_provider.agent_platform.triggers import events, words
from airflow_provider.agent_platform.triggers.clocks import ClockName, Clocks
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from airflow_provider.agent_platform.triggers.view import JobView

QUIET_SECONDS: Final = 5.0
"""No event in the first seconds of a deferral: Airflow can fail a try whose trigger fires while the deferring
process is still ending (apache/airflow#71580)."""

HEARTBEAT_SECONDS: Final = 3600.0

LATE_ERROR_SECONDS: Final = 120.0
"""The service fills in the error about one minute after the end; twice that is waited for."""

LATE_ERROR_LEAST: Final = 10.0
"""It is waited for this long even if the end is old, because the service's clock and ours may differ."""

RETRY_SECONDS: Final = 10.0
"""Pause after a failed read or cancel at the end of a clock."""


class Do(Enum):
    """What the driver has to do now."""

    WAIT = "wait"
    """Wait for a change of the job, at most until ``Step.until``."""
    READ = "read"
    """Read the job now, not from a shared list: a decision hangs on it."""
    CANCEL = "cancel"
    """Send one cancel."""
    FIRE = "fire"
    """The wait is over: ``Step.event``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step, with what it needs."""

    do: Do
    until: pendulum.DateTime | None = None
    event: TrainingJobEvent | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One log line."""

    level: int
    text: str


class JobWatch:
    """The wait for one job.

    :param job_name: full resource name.
    :param clocks: its limits.
    :param cancel_bound: seconds to wait for the end after a clock ended.
    :param began: when this wait began.
    :param quiet: seconds after ``began`` in which no event is fired.
    """

    __slots__ = (
        "_asked_at",
        "_began",
        "_cancel_bound",
        "_cancel_sent",
        "_clocks",
        "_ended_seen",
        "_ending",
        "_ending_at",
        "_fresh_at",
        "_job_name",
        "_lines",
        "_next_heartbeat",
        "_problem",
        "_quiet_until",
        "_refusal",
        "_retry_at",
        "started_at",
        "view",
    )

    def __init__(
        self,
        job_name: str,
        *,
        clocks: Clocks,
        cancel_bound: float,
        began: pendulum.DateTime,
        quiet: float = QUIET_SECONDS,
    ) -> None:
        self._job_name = job_name
        self._clocks = clocks
        self._cancel_bound = cancel_bound
        self._began = began
        self._quiet_until = began.add(seconds=quiet)
        self._next_heartbeat = began.add(seconds=HEARTBEAT_SECONDS)
        self._lines: list[Line] = []
        self.view: JobView | None = None
        self.started_at: pendulum.DateTime | None = None
        self._ended_seen: pendulum.DateTime | None = None
        self._ending: ClockName | None = None
        self._ending_at: pendulum.DateTime | None = None
        self._asked_at: pendulum.DateTime | None = None
        self._fresh_at: pendulum.DateTime | None = None
        self._retry_at: pendulum.DateTime | None = None
        self._cancel_sent = False
        self._problem: str | None = None
        self._refusal: TrainingJobEvent | None = None

    # --- what the driver tells -----------------------------------------------------------------

    def observe(self, view: JobView, now: pendulum.DateTime, *, fresh: bool = False) -> bool:
        """Take a reading; answer whether the state is news: the first one of this wait, or another than before.

        :param fresh: it was read just now for a decision, and not handed over from a shared poll.
        """
        before = self.view
        self.view = view
        if fresh:
            self._fresh_at = now
            if self._ending is None:
                self._retry_at = None
        # The first start counts: a job that goes back to PENDING between attempts keeps its clock.
        if view.start_time is not None and (self.started_at is None or view.start_time < self.started_at):
            self.started_at = view.start_time
        elif view.state == states.JobState.RUNNING and self.started_at is None:
            self.started_at = now
        if view.ended and self._ended_seen is None:
            self._ended_seen = now
        if view.state == states.JobState.CANCELLING and self._ending is not None:
            self._cancel_sent = True
        if before is not None and before.state == view.state:
            return False
        self._say(words.describe(view, self._clocks, started=self.started, now=now))
        return True

    def gone(self, message: str) -> None:
        """The service says that this one job does not exist (any more)."""
        self._refusal = self._event(events.LOST, message=message)

    def refused(self, code: int | None, message: str) -> None:
        """The service would not tell the state for the bounded time."""
        self._refusal = self._event(events.REFUSED, code=code, message=message)

    def read_failed(self, problem: str, now: pendulum.DateTime) -> None:
        """The fresh read did not work."""
        self._problem = f"its state could not be read ({problem})"
        self._retry_at = now.add(seconds=RETRY_SECONDS)

    def cancel_sent(self) -> None:
        """The service took the cancel."""
        self._cancel_sent, self._retry_at, self._problem = True, None, None

    def cancel_failed(self, problem: str, now: pendulum.DateTime) -> None:
        """The cancel did not work; it is repeated."""
        self._problem = f"the cancel failed ({problem})"
        self._retry_at = now.add(seconds=RETRY_SECONDS)

    # --- what it answers -----------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether the job was RUNNING once."""
        return self.started_at is not None

    def take_lines(self) -> tuple[Line, ...]:
        """Answer the lines to log, once."""
        if not self._lines:
            return ()
        lines = tuple(self._lines)
        self._lines.clear()
        return lines

    def step(self, now: pendulum.DateTime) -> Step:
        """Answer what to do now. Changes nothing but the lines, and which clock has ended."""
        if self._refusal is not None:
            return self._fire(self._refusal, now)
        if self.view is not None and self.view.ended:
            return self._after_end(self.view, now)
        if self._ending is not None:
            return self._while_ending(self._ending, now)
        deadlines = self._clocks.deadlines(started=self.started, start_time=self.started_at)
        if deadlines and deadlines[0][0] <= now:
            return self._at_deadline(deadlines[0][1], deadlines[0][0], now)
        self._asked_at = None
        return Step(do=Do.WAIT, until=self._wake(now, deadlines[0][0] if deadlines else None))

    # --- inside --------------------------------------------------------------------------------

    def _after_end(self, view: JobView, now: pendulum.DateTime) -> Step:
        if view.waits_for_error and self._ending is None:
            until = self._late_error_until(view, now)
            if now < until:
                return Step(do=Do.WAIT, until=until)
        kind: str = events.ENDED
        if self._ending is not None and view.state != states.JobState.SUCCEEDED:
            kind = self._ending.value
        return self._fire(self._event(kind), now)

    def _late_error_until(self, view: JobView, now: pendulum.DateTime) -> pendulum.DateTime:
        seen = self._ended_seen or now
        latest = seen.add(seconds=LATE_ERROR_SECONDS)
        if view.end_time is None:
            return latest
        earliest = seen.add(seconds=LATE_ERROR_LEAST)
        return min(latest, max(earliest, view.end_time.add(seconds=LATE_ERROR_SECONDS)))

    def _at_deadline(self, clock: ClockName, deadline: pendulum.DateTime, now: pendulum.DateTime) -> Step:
        # The shared list may be old: a job that started a moment before the deadline must not be cancelled.
        if self._asked_at is None:
            self._asked_at = now
        if self._fresh_at is None or self._fresh_at < deadline:
            if now >= self._asked_at.add(seconds=self._cancel_bound):
                return self._fire(self._event(clock.value, message=self._left_behind(clock)), now)
            if self._retry_at is not None and now < self._retry_at:
                return Step(do=Do.WAIT, until=self._retry_at)
            return Step(do=Do.READ)
        self._ending, self._ending_at = clock, now
        if self.view is not None and self.view.state == states.JobState.CANCELLING:
            self._cancel_sent = True
        self._say(
            f"{clock.value} ended at {words.clock_time(deadline, now)} "
            f"({words.short_state(self.view.state) if self.view else 'state unknown'}): "
            + ("the job is being cancelled already" if self._cancel_sent else "cancelling the job"),
            logging.WARNING,
        )
        return self._while_ending(clock, now)

    def _while_ending(self, clock: ClockName, now: pendulum.DateTime) -> Step:
        until = (self._ending_at or now).add(seconds=self._cancel_bound)
        if now >= until:
            return self._fire(self._event(clock.value, message=self._left_behind(clock)), now)
        if self._cancel_sent:
            return Step(do=Do.WAIT, until=until)
        if self._retry_at is not None and now < self._retry_at:
            return Step(do=Do.WAIT, until=min(until, self._retry_at))
        return Step(do=Do.CANCEL)

    def _left_behind(self, clock: ClockName) -> str:
        bound = words.span(self._cancel_bound)
        if self._cancel_sent:
            return f"{clock.value}: the cancel was sent, but the job did not end within {bound}"
        return f"{clock.value}: the job could not be cancelled within {bound}: {self._problem or 'no answer'}"

    def _wake(self, now: pendulum.DateTime, deadline: pendulum.DateTime | None) -> pendulum.DateTime:
        if now >= self._next_heartbeat:
            self._heartbeat(now)
            self._next_heartbeat = now.add(seconds=HEARTBEAT_SECONDS)
        return self._next_heartbeat if deadline is None else min(deadline, self._next_heartbeat)

    def _heartbeat(self, now: pendulum.DateTime) -> None:
        if self.view is None:
            waited = words.span((now - self._began).total_seconds())
            self._say(f"still waiting: the state could not be read for {waited}", logging.WARNING)
        else:
            self._say("still " + words.describe(self.view, self._clocks, started=self.started, now=now))

    def _fire(self, event: TrainingJobEvent, now: pendulum.DateTime) -> Step:
        if now < self._quiet_until:
            return Step(do=Do.WAIT, until=self._quiet_until)
        return Step(do=Do.FIRE, event=event)

    def _event(self, kind: str, *, code: int | None = None, message: str | None = None) -> TrainingJobEvent:
        view = self.view
        return TrainingJobEvent(
            type=kind,
            job_name=self._job_name,
            state=view.state if view is not None else None,
            error_code=view.error_code if view is not None and view.error_code is not None else code,
            error_message=view.error_message if view is not None else None,
            message=message,
        )

    def _say(self, text: str, level: int = logging.INFO) -> None:
        self._lines.append(Line(level=level, text=f"{self._job_name.rsplit('/', 1)[-1]}: {text}"))
