"""Resource names: projects, parents, jobs.

In: names as clients write them. Out: their parts, with the project's number. A project id is accepted as
given; its number is made from it, always the same, because clients compare the names they are answered.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from airflow_provider.agent_platform.emulator.errors import invalid_argument

CUSTOM_JOBS = "customJobs"
TUNING_JOBS = "hyperparameterTuningJobs"
COLLECTIONS = {CUSTOM_JOBS: "CustomJob", TUNING_JOBS: "HyperparameterTuningJob"}

_PARENT = re.compile(r"projects/([^/\s]+)/locations/([a-z0-9-]+)")
_JOB = re.compile(r"projects/([^/\s]+)/locations/([a-z0-9-]+)/([A-Za-z]+)/([^/\s]+)")
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z0-9][a-z0-9-]{0,61}")


@dataclass(frozen=True, kw_only=True)
class Parent:
    """``projects/<number>/locations/<region>``."""

    project: str
    region: str


def project_number(project: str) -> str:
    """A project's number: itself if it is one, else twelve digits made from the id.

    :raises ApiError: INVALID_ARGUMENT, the text is no project id.
    """
    if not _PROJECT.fullmatch(project):
        raise invalid_argument(f"Invalid project {project!r}: expected a project id or number.")
    if project.isdigit():
        return project
    digest = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big")
    return str(100_000_000_000 + digest % 900_000_000_000)


def parse_parent(text: str) -> Parent:
    """The parts of a parent.

    :raises ApiError: INVALID_ARGUMENT, the text is no parent.
    """
    found = _PARENT.fullmatch(text)
    if found is None:
        raise invalid_argument(
            f"Invalid resource name {text!r}: expected projects/<project>/locations/<region>."
        )
    return Parent(project=project_number(found[1]), region=found[2])


def parse_job(text: str, collection: str) -> tuple[Parent, str]:
    """The parent and the id of a job's name.

    :raises ApiError: INVALID_ARGUMENT, the text is no name of that collection.
    """
    found = _JOB.fullmatch(text)
    if found is None or found[3] != collection:
        raise invalid_argument(
            f"Invalid resource name {text!r}: expected projects/<project>/locations/<region>/{collection}/<id>."
        )
    return Parent(project=project_number(found[1]), region=found[2]), found[4]


def new_id() -> str:
    """19 digits, as the service's own ids."""
    return str(10**18 + secrets.randbelow(8 * 10**18))
