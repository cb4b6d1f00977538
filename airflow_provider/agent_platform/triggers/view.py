"""What is known of one job at one moment, as plain values.

In: a raw protobuf job, as List (masked) or Get (full) returned it. Out: a small frozen object. It says
nothing of what an error means (the operators classify it) and holds nothing of the job's spec: ten thousand
of these live in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pendulum

from airflow_provider.agent_platform.policy import states

VIEW_FIELDS: Final = ("name", "state", "create_time", "start_time", "update_time")
"""Read mask of the shared List: what a live job can tell. An end is read with Get, which has the error."""

END_FIELDS: Final = (*VIEW_FIELDS, "end_time", "error")
"""Read mask for ended jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobView:
    """One reading of a job.

    :param name: full resource name.
    :param state: number of the API; may be one this package does not know (then it is no end).
    :param error_code: ``google.rpc.Code`` of the job's error; ``None`` while there is none.
    :param start_time: first RUNNING, as the API says; it stays over the platform's own retries.
    """

    name: str
    state: int
    error_code: int | None = None
    error_message: str | None = None
    create_time: pendulum.DateTime | None = None
    start_time: pendulum.DateTime | None = None
    end_time: pendulum.DateTime | None = None
    update_time: pendulum.DateTime | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to the job any more."""
        return states.is_end(self.state)

    @property
    def waits_for_error(self) -> bool:
        """Whether it ended badly and the service has not said why yet: it does so about a minute later."""
        return (
            self.state in (states.JobState.FAILED, states.JobState.CANCELLED)
            and not self.error_code
            and not self.error_message
        )

    @classmethod
    def of(cls, job: Any) -> JobView:
        """Read a raw protobuf job, or the client library's wrapper of one."""
        raw = getattr(job, "_pb", job)
        error = raw.error if raw.HasField("error") else None
        return cls(
            name=raw.name,
            state=int(raw.state),
            error_code=(error.code or None) if error is not None else None,
            error_message=(error.message or None) if error is not None else None,
            create_time=_time(raw, "create_time"),
            start_time=_time(raw, "start_time"),
            end_time=_time(raw, "end_time"),
            update_time=_time(raw, "update_time"),
        )


def _time(raw: Any, field: str) -> pendulum.DateTime | None:
    if not raw.HasField(field):
        return None
    stamp = getattr(raw, field)
    return pendulum.from_timestamp(stamp.seconds + stamp.nanos / 1e9)
