"""Links to a job in Google Cloud's console.

In: the resource name of a job. Out: URLs for people. Nothing is fetched, nothing is checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

CONSOLE = "https://console.cloud.google.com"

_JOB_NAME = re.compile(
    r"projects/(?P<project>[^/\s]+)/locations/(?P<region>[^/\s]+)/"
    r"(?P<collection>customJobs|hyperparameterTuningJobs)/(?P<job_id>[^/\s]+)"
)
_JOB_TYPES = {"customJobs": "custom_job", "hyperparameterTuningJobs": "hyperparameter_tuning_job"}


@dataclass(frozen=True, kw_only=True)
class JobName:
    """The parts of a job's resource name.

    :param project: project number or id, as the service gave it.
    :param region: for example ``us-central1``.
    :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
    :param job_id: made by the service, digits.
    """

    project: str
    region: str
    job_type: str
    job_id: str

    @classmethod
    def parse(cls, name: str) -> JobName:
        """Take a resource name apart.

        :param name: ``projects/.../locations/.../customJobs/...`` or ``.../hyperparameterTuningJobs/...``.
        :raises ValueError: not such a name.
        """
        match = _JOB_NAME.fullmatch(name)
        if match is None:
            raise ValueError(
                f"{name!r} is no name of a training job: it must look like 'projects/<project>/locations/"
                "<region>/customJobs/<id>' or '.../hyperparameterTuningJobs/<id>'."
            )
        return cls(
            project=match["project"],
            region=match["region"],
            job_type=_JOB_TYPES[match["collection"]],
            job_id=match["job_id"],
        )


def console_url(job_name: str) -> str:
    """Return the page of a job in the console: right while it runs and afterwards.

    The path is the one Google's own SDK prints (``google.cloud.aiplatform.jobs``, 2.7).

    :param job_name: resource name of a custom or a hyperparameter tuning job.
    :raises ValueError: not such a name.
    """
    job = JobName.parse(job_name)
    region, job_id, project = (quote(part, safe="") for part in (job.region, job.job_id, job.project))
    return f"{CONSOLE}/agent-platform/locations/{region}/training/{job_id}?project={project}"


def logs_url(job_name: str, replica: str | None = None) -> str:
    """Return the log explorer's page with the lines of a job, or of one replica of it.

    :param job_name: resource name of a job.
    :param replica: for example ``workerpool0-0``; None shows the lines of the service as well.
    :raises ValueError: not such a name.
    """
    job = JobName.parse(job_name)
    query = logs_filter(job_name, replica)
    return f"{CONSOLE}/logs/query;query={quote(query, safe='')}?project={quote(job.project, safe='')}"


def logs_filter(job_name: str, replica: str | None = None) -> str:
    """Return the Cloud Logging filter for the lines of a job, or of one replica of it.

    :param job_name: resource name of a job.
    :param replica: for example ``workerpool0-0``; None takes the service's own lines as well.
    :raises ValueError: not such a name.
    """
    parts = ['resource.type="ml_job"', f'resource.labels.job_id="{JobName.parse(job_name).job_id}"']
    if replica is not None:
        escaped = replica.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'resource.labels.task_name="{escaped}"')
    return "\n".join(parts)
