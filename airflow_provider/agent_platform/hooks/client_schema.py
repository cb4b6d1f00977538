"""The messages of the installed client library, in the terms of ``jobs.schema``.

In: nothing but the library. Out: a :class:`~airflow_provider.agent_platform.jobs.schema.Schema`. It is
asked when our own table does not know a field, so that a newer client's field needs no new release of the
provider.
"""

from __future__ import annotations

from airflow_provider.agent_platform.jobs.schema import Schema


def client_schema() -> Schema:
    """Read the messages of the installed client library (imports it: a second, once)."""
    raise NotImplementedError
