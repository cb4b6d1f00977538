"""The options of the provider: the only place that reads Airflow's configuration and the environment.

In: section ``[agent_platform]`` of the configuration (twins ``AIRFLOW__AGENT_PLATFORM__<OPTION>``) and
``AGENT_PLATFORM_EMULATOR_HOST``. Out: one typed, bounded :class:`Settings`. What belongs to one connection
(project, region, credentials) is not here: it is read in ``hooks.connection``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SECTION = "agent_platform"


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


def current() -> Settings:
    """Read the configuration and return it.

    :raises ValueError: an option that is no number, or outside its limits; names the option, value and
        limits.
    """
    raise NotImplementedError


def provider_config() -> dict[str, Any]:
    """Return the ``config`` part of ``get_provider_info``.

    The section with its options, types and defaults.
    """
    raise NotImplementedError
