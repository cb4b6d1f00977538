"""The options of the provider: the only place that reads Airflow's configuration and the environment.

In: section ``[agent_platform]`` of the configuration (twins ``AIRFLOW__AGENT_PLATFORM__<OPTION>``) and
``AGENT_PLATFORM_EMULATOR_HOST``. Out: one typed, bounded :class:`Settings`. What belongs to one connection
(project, region, credentials) is not here: it is read in ``hooks.connection``.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import Any

SECTION = "agent_platform"
EMULATOR_VARIABLE = "AGENT_PLATFORM_EMULATOR_HOST"
STORAGE_EMULATOR_VARIABLE = "STORAGE_EMULATOR_HOST"
"""Read by Google's storage client as well; the provider only needs to know that it is set."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of the section.

    :param name: in the configuration and in :class:`Settings`.
    :param type: ``string``, ``integer`` or ``float``, as Airflow's configuration names them.
    :param default: None is "not set".
    :param description: what it does, for Airflow's configuration reference.
    :param low: smallest value of a number.
    :param high: largest value of a number.
    :param pattern: what a string must look like.
    :param allowed: the pattern in words.
    :param example: for the reference.
    """

    name: str
    type: str
    default: str | int | float | None
    description: str
    low: float = 0
    high: float = math.inf
    pattern: str = ".*"
    allowed: str = "any text"
    example: str | None = None

    def read(self, raw: str | None, source: str) -> str | int | float | None:
        """Return the typed value of a text from the configuration.

        :param raw: None or blank is "not set".
        :param source: named in the error.
        :raises ValueError: no such value, or out of bounds.
        """
        text = (raw or "").strip()
        if not text:
            return self.default
        if self.type == "string":
            if not re.fullmatch(self.pattern, text):
                raise ValueError(f"{source} is {text!r}: it must be {self.allowed}.")
            return text
        try:
            value = int(text) if self.type == "integer" else float(text)
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:
            kind = "a whole number" if self.type == "integer" else "a number"
            raise ValueError(f"{source} is {text!r}: it must be {kind} from {self.low:g} to {self.high:g}.")
        return value


OPTIONS: tuple[Option, ...] = (
    Option(
        name="base_output_root",
        type="string",
        default=None,
        description="Folder under which a training task without base_output_directory writes: its jobs get "
        "<root>/<dag>/<run>/<task>. The connection's extra field of the same name comes first.",
        pattern=r"gs://[^/\s]+(/\S*)?",
        allowed="'gs://bucket' or 'gs://bucket/folder'",
        example="gs://my-bucket/airflow",
    ),
    Option(
        name="poll_interval",
        type="float",
        default=30.0,
        description="Seconds between two looks at a running job, for tasks that do not say poll_interval.",
        low=1,
        high=3600,
    ),
    Option(
        name="checkpoint_interval",
        type="float",
        default=4 * 3600.0,
        description="Seconds after which a running job without a new checkpoint is warned of. The service "
        "advises a checkpoint at least every four hours.",
        low=60,
        high=30 * 86400,
    ),
    Option(
        name="max_jobs",
        type="integer",
        default=50,
        description="Jobs that one task may submit between two clears, whatever their failures: the ceiling "
        "that ends every loop.",
        low=1,
        high=1000,
    ),
    Option(
        name="deployment",
        type="string",
        default=None,
        description="Name of this Airflow deployment. Set a different one in each deployment that runs the "
        "same DAGs in the same Google Cloud project, else each takes the other's jobs for its "
        "own. Changing it makes running jobs unknown to their tasks.",
        pattern=r"\S(.{0,61}\S)?",
        allowed="at most 63 characters",
        example="production",
    ),
    Option(
        name="rpc_timeout",
        type="float",
        default=60.0,
        description="Seconds that one call to the service may take.",
        low=1,
        high=600,
    ),
    Option(
        name="read_retry_seconds",
        type="float",
        default=300.0,
        description="Seconds for which a failing read is repeated before its error is raised. Waiting for a "
        "job never ends because reading failed; this bounds the other reads.",
        low=0,
        high=3600,
    ),
    Option(
        name="log_lines",
        type="integer",
        default=20,
        description="Lines of the failing worker's log in the task's error. 0 reads no log.",
        low=0,
        high=200,
    ),
    Option(
        name="log_timeout",
        type="float",
        default=10.0,
        description="Seconds that reading those lines may take; after them the error goes without.",
        low=1,
        high=120,
    ),
    Option(
        name="emulator_host",
        type="string",
        default=None,
        description="gRPC address of an emulator to use instead of the service. The variable "
        f"{EMULATOR_VARIABLE} comes first.",
        pattern=r"[^\s/]+:[0-9]{1,5}",
        allowed="'host:port', without a scheme",
        example="127.0.0.1:8085",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The values of all options; defaults and limits are in :data:`OPTIONS`.

    :param base_output_root: ``gs://bucket/folder`` under which tasks without a ``base_output_directory``
        write; None when not set.
    :param poll_interval: seconds between two looks at a job.
    :param checkpoint_interval: seconds after which a missing new checkpoint is warned of.
    :param max_jobs: ceiling of jobs per epoch.
    :param deployment: name of this Airflow deployment, mixed into the identity of its jobs; "" when not
        set.
    :param rpc_timeout: seconds, the deadline of every call.
    :param read_retry_seconds: for how long a failing read is repeated before its error is raised.
    :param log_lines: lines of a failing worker's log shown in an error.
    :param log_timeout: seconds that reading them may take.
    :param emulator_host: ``host:port`` of the emulator's gRPC address; None talks to Google.
    :param storage_emulator_host: address of a storage emulator; None talks to Google.
    """

    base_output_root: str | None
    poll_interval: float
    checkpoint_interval: float
    max_jobs: int
    deployment: str
    rpc_timeout: float
    read_retry_seconds: float
    log_lines: int
    log_timeout: float
    emulator_host: str | None
    storage_emulator_host: str | None


def current() -> Settings:
    """Read the configuration and return it; read anew at each call, as Airflow itself does.

    :raises ValueError: an option that is no number, or outside its limits; names the option, value and
        limits.
    """
    values: dict[str, Any] = {
        option.name: option.read(_configured(option.name), f"[{SECTION}] {option.name}") for option in OPTIONS
    }
    emulator = next(option for option in OPTIONS if option.name == "emulator_host")
    values["emulator_host"] = (
        emulator.read(os.environ.get(EMULATOR_VARIABLE), EMULATOR_VARIABLE) or values["emulator_host"]
    )
    values["deployment"] = values["deployment"] or ""
    storage = os.environ.get(STORAGE_EMULATOR_VARIABLE, "").strip()
    return Settings(**values, storage_emulator_host=storage or None)


def provider_config() -> dict[str, Any]:
    """Return the ``config`` part of ``get_provider_info``: the section with its options and defaults."""
    return {
        SECTION: {
            "description": "Training jobs on Google's managed training service.",
            "options": {
                option.name: {
                    "description": option.description,
                    "version_added": "0.1.0",
                    "type": option.type,
                    "example": option.example,
                    "default": None if option.default is None else f"{option.default}",
                }
                for option in OPTIONS
            },
        }
    }


def _configured(name: str) -> str | None:
    try:
        from airflow.sdk.configuration import conf
    except ImportError:  # Airflow 3.1 has it in the core only
        from airflow.configuration import conf  # type: ignore[assignment,no-redef,unused-ignore]
    value = conf.get(SECTION, name, fallback=None)
    return None if value is None else str(value)


def environment(name: str) -> str | None:
    """Return a variable of the environment without blanks around it, or None.

    :param name: of a variable that Google's own clients read, for example ``GOOGLE_CLOUD_PROJECT``.
    """
    return os.environ.get(name, "").strip() or None
