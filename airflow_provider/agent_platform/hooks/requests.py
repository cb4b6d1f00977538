"""A payload of ``jobs.spec`` as a message of the installed client, and the calls of each kind of job.

In: a dict. Out: a message. A field that the installed client does not know is an error here, never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider.agent_platform.jobs.errors import problem

CUSTOM_JOB = "custom_job"
TUNING_JOB = "hyperparameter_tuning_job"


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """The names of the API for one kind of job.

    :param message: type of the resource.
    :param field: of the resource in a create request; also our own name of the kind.
    :param items: field of a list response.
    """

    message: str
    field: str
    items: str


KINDS = {
    CUSTOM_JOB: JobKind(message="CustomJob", field=CUSTOM_JOB, items="custom_jobs"),
    TUNING_JOB: JobKind(
        message="HyperparameterTuningJob", field=TUNING_JOB, items="hyperparameter_tuning_jobs"
    ),
}


def kind_of(job_type: str) -> JobKind:
    """Return the names for a kind of job.

    :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
    :raises ValueError: neither.
    """
    if job_type not in KINDS:
        raise ValueError(f"job_type is {job_type!r}: it must be one of {', '.join(KINDS)}.")
    return KINDS[job_type]


def to_message(job: Any, job_type: str) -> Any:
    """Return a payload as a message; a message is passed on.

    :param job: payload of ``jobs.spec`` or a message.
    :param job_type: which kind it is.
    :raises SpecError: the installed client does not know a field or a value of it.
    """
    import google.cloud.aiplatform_v1 as api
    from google.protobuf import json_format

    message_type = getattr(api, kind_of(job_type).message)
    if isinstance(job, message_type):
        return job
    message = message_type()
    try:
        json_format.ParseDict(job, message_type.pb(message))
    except json_format.ParseError as error:
        version = getattr(api, "__version__", None) or api.gapic_version.__version__
        raise problem(
            "",
            f"The installed google-cloud-aiplatform {version} cannot send this job: {error} "
            "Install a newer google-cloud-aiplatform on the worker, or leave the field out. Nothing was submitted.",
        ) from error
    return message
