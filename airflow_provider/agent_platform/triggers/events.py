"""The event a waiting job ends with: what a trigger sends to the resumed operator, version 1.

The dictionaries live in Airflow's database between the trigger and the resumed task, possibly across an
upgrade of this package: a released version stays readable for ever, and its keys and values are never
renamed. This module is not where an event becomes an exception (the operators do that).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

EVENT_VERSION: Final = 1

ENDED: Final = "ended"
"""The job ended by itself, or was cancelled by somebody else: ``state`` says how."""
QUEUE_TIMEOUT: Final = "queue_timeout"
RUN_TIMEOUT: Final = "run_timeout"
EXECUTION_TIMEOUT: Final = "execution_timeout"
LOST: Final = "lost"
"""The job is not there any more (404)."""
REFUSED: Final = "refused"
"""The service refused to tell the state of the job for a bounded time (403, or 404 of the project or
region)."""

EVENT_TYPES: Final = frozenset({ENDED, QUEUE_TIMEOUT, RUN_TIMEOUT, EXECUTION_TIMEOUT, LOST, REFUSED})


class UnreadableEventError(ValueError):
    """The task was resumed with something that is no event of a training job. It is never taken for a
    success."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingJobEvent:
    """How a wait ended.

    :param type: one of ``EVENT_TYPES``.
    :param job_name: full resource name of the job.
    :param state: the last state that was read, as the API's number; ``None`` if none was ever read. After one
        of the timeouts it may still be a live state: the cancel was sent, but its end did not come within the
        bound.
    :param error_code: the job's own error code (``google.rpc.Code``), or the API's for "refused".
    :param error_message: the job's own error message.
    :param message: what a person should know about the wait.
    """

    type: str
    job_name: str
    state: int | None = None
    error_code: int | None = None
    error_message: str | None = None
    message: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Answer the JSON form, with its version."""
        return {"version": EVENT_VERSION, **asdict(self)}


def parse_event(event: Any) -> TrainingJobEvent:
    """Read the event a task was resumed with.

    :param event: the payload as Airflow hands it over.
    :raises UnreadableEventError: it is not a mapping, has another version, an unknown type, or fields of
        other types.
    """
    if isinstance(event, TrainingJobEvent):
        return event
    if not isinstance(event, Mapping):
        raise _unreadable(event, f"it is a {type(event).__name__}, not a dict")
    version = event.get("version")
    if version != EVENT_VERSION or isinstance(version, bool):
        raise _unreadable(event, f"its version is {version!r}, known is {EVENT_VERSION}")
    kind = event.get("type")
    if kind not in EVENT_TYPES:
        raise _unreadable(event, f"its type is {kind!r}, known are {', '.join(sorted(EVENT_TYPES))}")
    name = event.get("job_name")
    if not isinstance(name, str) or not name:
        raise _unreadable(event, f"its job_name is {name!r}, expected is the name of a job")
    values: dict[str, Any] = {}
    for field, expected in _OPTIONAL.items():
        value = event.get(field)
        if value is not None and (not isinstance(value, expected) or isinstance(value, bool)):
            raise _unreadable(event, f"its {field} is {value!r}, expected is {expected.__name__} or None")
        values[field] = value
    if kind == ENDED and values["state"] is None:
        raise _unreadable(event, "it says that the job ended, but not in which state")
    return TrainingJobEvent(type=kind, job_name=name, **values)


_OPTIONAL: Final[dict[str, type]] = {"state": int, "error_code": int, "error_message": str, "message": str}


def _unreadable(event: Any, why: str) -> UnreadableEventError:
    return UnreadableEventError(
        f"The task was resumed with an event that is not readable: {why}. The job was left as it is. "
        "Workers and triggerers must run the same version of airflow-provider-agent-platform; clear the task to go on "
        f"(it adopts a job that is still live). Event: {repr(event)[:300]}"
    )
