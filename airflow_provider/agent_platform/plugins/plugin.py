"""The plugin Airflow finds by its entry point. Every component loads it, so nothing heavy is imported here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

_API_SERVER = "airflow.api_fastapi.main"
"""Loaded in the api-server and nowhere else."""


class _ApiServerListeners(list[Any]):
    """Listeners that exist in the api-server only.

    Airflow refuses a DAG with ``end_from_trigger=True`` in every process that has a listener
    (``airflow.dag_processing.dagbag``): one in the dag-processor would break other people's DAGs.
    """

    def __iter__(self) -> Iterator[Any]:
        if _API_SERVER in sys.modules and not len(self):
            from airflow_provider.agent_platform.plugins import ended_tasks

            self.append(ended_tasks)
        return super().__iter__()


class AgentPlatformPlugin(AirflowPlugin):
    """Ends the jobs of tasks that a user has ended (see :mod:`.ended_tasks`)."""

    name = "agent_platform"
    listeners: list[Any] = _ApiServerListeners()
