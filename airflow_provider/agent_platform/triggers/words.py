"""The sentences a person reads while a job waits: state, since when, why, and what will happen when.

In: a view, the clocks, the time. Out: text. Nothing here decides anything.
"""

from __future__ import annotations

from typing import Final

import pendulum

from airflow_provider.agent_platform.policy import states
from airflow_provider.agent_platform.triggers.clocks import ClockName, Clocks
from airflow_provider.agent_platform.triggers.view import JobView

WHY: Final[dict[int, str]] = {
    states.JobState.QUEUED: "just created, or waiting for training quota of the project in this region",
    states.JobState.PENDING: "the service looks for machines and prepares them, usually 3 to 4 minutes",
    states.JobState.RUNNING: "all workers are available",
    states.JobState.CANCELLING: "a cancel was asked for; the job may still end in any way",
    states.JobState.PAUSED: "not an end: the wait goes on",
    states.JobState.UPDATING: "not an end: the wait goes on",
}

_AGAIN: Final = (
    "it ran before: the service starts it again by itself (its own retry after a failure of the platform)"
)

CONSEQUENCE: Final[dict[ClockName, str]] = {
    ClockName.QUEUE: "queue_timeout",
    ClockName.RUN: "run_timeout",
    ClockName.EXECUTION: "execution_timeout",
}


def short_state(state: int) -> str:
    """Answer a state without the prefix of its API name."""
    return states.state_name(state).removeprefix("JOB_STATE_")


def span(seconds: float) -> str:
    """Answer a duration in at most two units: "45 s", "12 min", "3 h 5 min", "2 d 4 h"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if hours == 0:
        return f"{minutes} min"
    if days == 0:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def clock_time(moment: pendulum.DateTime, now: pendulum.DateTime) -> str:
    """Answer a time of today as "14:30 UTC", of another day with its date."""
    pattern = "HH:mm" if moment.date() == now.date() else "YYYY-MM-DD HH:mm"
    return f"{moment.in_timezone('UTC').format(pattern)} UTC"


def since(view: JobView) -> pendulum.DateTime | None:
    """Answer since when the job is in its state, as far as the service tells."""
    if view.ended:
        return view.end_time
    if view.state == states.JobState.RUNNING:
        return view.start_time
    if states.is_waiting(view.state) and view.start_time is None:
        return view.create_time
    return view.update_time


def describe(view: JobView, clocks: Clocks, *, started: bool, now: pendulum.DateTime) -> str:
    """Answer for example "QUEUED for 12 min (waiting for quota ..), fails at 14:30 UTC (queue_timeout)"."""
    begun = since(view)
    length = f" for {span((now - begun).total_seconds())}" if begun is not None else ""
    if view.ended:
        when = f" at {clock_time(begun, now)}" if begun is not None else ""
        return f"{short_state(view.state)}{when}"
    why = WHY.get(view.state, "a state this version does not know: taken for a live one")
    if states.is_waiting(view.state) and started:
        why = _AGAIN
    text = f"{short_state(view.state)}{length} ({why})"
    running = clocks.deadlines(started=started, start_time=view.start_time)
    if running:
        moment, clock = running[0]
        text += f", fails at {clock_time(moment, now)} ({CONSEQUENCE[clock]})"
    return text
