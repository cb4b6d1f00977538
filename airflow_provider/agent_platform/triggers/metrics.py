"""The numbers this package gives to Airflow's metrics (StatsD or OpenTelemetry, as Airflow is configured).

In: counts and seconds. Out: calls of Airflow's stats. Names are fixed: dashboards hang on them. A metric
never fails or delays what it counts.
"""

from __future__ import annotations

import logging
from typing import Any, Final

log = logging.getLogger(__name__)

POLL_CALLS: Final = "agent_platform.poll.calls"
"""Counter: calls to the service made by polling. Tags: kind (of job), region."""
POLL_JOBS: Final = "agent_platform.poll.jobs"
"""Gauge: jobs waited for by one loop. Tags: kind (of job), region."""
POLL_ERRORS: Final = "agent_platform.poll.errors"
"""Counter: calls of polling that failed. Tags: kind (of job), region."""
POLL_LAG_SECONDS: Final = "agent_platform.poll.lag_seconds"
"""Gauge: how long after it was due the last poll was done. Tags: kind (of job), region."""

JOB_QUEUE_SECONDS: Final = "agent_platform.job.queue_seconds"
"""Distribution, seconds: from the creation of an ended job to its first start. Tags: kind (of failure),
region."""
JOB_RUN_SECONDS: Final = "agent_platform.job.run_seconds"
"""Distribution, seconds: from the first start of an ended job to its end. Tags: kind (of failure), region."""
JOB_REQUEUES: Final = "agent_platform.job.requeues"
"""Counter: new jobs that cost no retry. Tags: kind (of failure), region."""
JOB_DECISIONS: Final = "agent_platform.job.decisions"
"""Counter: decisions. Tags: action, kind (of failure), region."""


def incr(name: str, count: int = 1, *, tags: dict[str, str]) -> None:
    """Add to a counter."""
    if count:
        _call("incr", name, count, tags=tags)


def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
    """Set a gauge."""
    _call("gauge", name, value, tags=tags)


def seconds(name: str, value: float, *, tags: dict[str, str]) -> None:
    """Add to a distribution of seconds."""
    _call("timing", name, value, tags=tags)


def _call(method: str, *args: Any, tags: dict[str, str]) -> None:
    try:
        getattr(_stats(), method)(*args, tags=tags)
    except Exception:
        log.debug("A metric could not be written", exc_info=True)


def _stats() -> Any:
    try:
        from airflow.sdk.observability import stats
    except ImportError:  # Airflow before 3.2
        from airflow.stats import Stats

        return Stats
    return stats
