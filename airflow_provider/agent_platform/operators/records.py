"""A job as the client library shows it, made into the plain record that ``policy`` works with.

In: a ``CustomJob`` or ``HyperparameterTuningJob`` message. Out: a :class:`JobRecord`. The message is read by its
attributes only, so that nothing of Google's client is imported here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pendulum

from airflow_provider.agent_platform.jobs.console import JobName
from airflow_provider.agent_platform.jobs.identity import LABEL_TI, JobLabels
from airflow_provider.agent_platform.policy.ledger import JobRecord
from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP, Step

NO_EPOCH: Final = -1


def record_of(message: Any) -> JobRecord:
    """Return the record of a job.

    :param message: a ``CustomJob`` or ``HyperparameterTuningJob``.
    :raises ValueError: the message has no name of a job.
    """
    name = JobName.parse(message.name)
    labels = JobLabels.parse(dict(message.labels))
    spec = message.job_spec if name.job_type == "custom_job" else message.trial_job_spec
    scheduling = spec.scheduling
    error = message.error
    has_error = bool(error) and bool(error.code or error.message)
    strategy = getattr(scheduling.strategy, "name", None)
    return JobRecord(
        name=message.name,
        region=name.region,
        job_type=name.job_type,
        state=state_of(message),
        error_code=int(error.code) if has_error else None,
        error_message=str(error.message) if has_error else None,
        create_time=_time(message.create_time),
        start_time=_time(message.start_time),
        end_time=_time(message.end_time),
        update_time=_time(message.update_time),
        # Somebody changed our labels: whatever it is, it is no job of the epoch at hand.
        epoch=labels.epoch if labels else NO_EPOCH,
        try_number=labels.try_number if labels else 0,
        max_tries=labels.max_tries if labels else None,
        resume_step=resume_step_of(labels),
        strategy=None if strategy in (None, "STRATEGY_UNSPECIFIED") else strategy,
        machine_type=_machine_type(spec),
        disable_retries=bool(scheduling.disable_retries),
        timeout_seconds=_seconds(scheduling.timeout),
    )


def state_of(message: Any) -> int:
    """Return the number of a job's state, also one that the installed client library has no name for.

    Read from the raw message: proto-plus answers an unknown number with a warning, on every read.
    """
    return int(getattr(message, "_pb", message).state)


def resume_step_of(labels: JobLabels | None) -> Step:
    """Return the step a job started from, as its labels tell it."""
    if labels is None or labels.resume_step_unknown:
        return UNKNOWN_STEP
    return labels.resume_step


def is_ours(message: Any, *, key: str) -> bool:
    """Whether a listed job belongs to this task instance."""
    return dict(message.labels).get(LABEL_TI) == key


def _machine_type(spec: Any) -> str | None:
    for pool in spec.worker_pool_specs:
        if pool.machine_spec.machine_type:
            return str(pool.machine_spec.machine_type)
    return None


def _time(value: datetime | None) -> pendulum.DateTime | None:
    return None if value is None else pendulum.instance(value)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    seconds = value.total_seconds()
    return float(seconds) if seconds else None
