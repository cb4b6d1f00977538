"""What an Airflow connection says: project, region, endpoint, and where the credentials are.

In: a connection id. Out: its extra fields. Credentials are not made here, and nothing of the connection is
logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider.agent_platform.hooks.errors import ConfigurationError

log = logging.getLogger(__name__)

DEFAULT_CONN_ID = "google_cloud_default"
# Without Airflow's Google provider its form offers no google_cloud_platform; "generic" has the same extra fields.
_TYPES = frozenset({None, "", "google_cloud_platform", "generic"})
_LONG_PREFIX = "extra__google_cloud_platform__"


@dataclass(frozen=True, kw_only=True)
class ConnectionInfo:
    """The fields of one connection.

    :param conn_id: its id.
    :param exists: False stands for a missing ``google_cloud_default``: application default credentials.
    :param extras: the extra fields; holds secrets, so it is not shown.
    """

    conn_id: str
    exists: bool
    extras: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def get(self, *names: str) -> Any:
        """Return the first of these extra fields that is set, in its short or its long form, or None.

        :param names: short names, for example ``key_path``.
        """
        for name in names:
            for key in (name, f"{_LONG_PREFIX}{name}"):
                value = self.extras.get(key)
                if value not in (None, "", [], {}):
                    return value
        return None

    def text(self, *names: str) -> str | None:
        """Return the first of these fields that is set as text without blanks around it, or None.

        :param names: short names.
        :raises ConfigurationError: the field is no text.
        """
        value = self.get(*names)
        if value is None:
            return None
        if not isinstance(value, str):
            raise ConfigurationError(
                f"Connection {self.conn_id!r}: the extra field {names[0]!r} must be text, not a "
                f"{type(value).__name__}."
            )
        return value.strip() or None


def load(conn_id: str) -> ConnectionInfo:
    """Read a connection.

    :param conn_id: its id.
    :raises ConfigurationError: there is none, and it is not ``google_cloud_default``.
    """
    try:
        connection = _base_hook().get_connection(conn_id)
    except Exception as error:
        return _missing(conn_id, error)
    return _found(conn_id, connection, connection.extra_dejson)


async def aload(conn_id: str) -> ConnectionInfo:
    """Read a connection in an event loop, as :func:`load`.

    :param conn_id: its id.
    """
    read = getattr(await asyncio.to_thread(_base_hook), "aget_connection", None)
    if read is None:  # an older Airflow
        return await asyncio.to_thread(load, conn_id)
    try:
        connection = await read(conn_id)
        extras = await _extras(connection)
    except Exception as error:
        # Outside a triggerer (``dag.test``) only the synchronous way finds a connection that is there.
        log.debug("Reading connection %s again in a thread: %s", conn_id, type(error).__name__)
        return await asyncio.to_thread(load, conn_id)
    return _found(conn_id, connection, extras)


def _base_hook() -> Any:
    from airflow.sdk import BaseHook  # a second where Airflow is not loaded yet

    return BaseHook


async def _extras(connection: Any) -> Any:
    read = getattr(connection, "aextra_dejson", None)
    return await read() if read is not None else json.loads(connection.extra or "{}")


def _found(conn_id: str, connection: Any, extras: Any) -> ConnectionInfo:
    kind = getattr(connection, "conn_type", None)
    if kind not in _TYPES:
        raise ConfigurationError(
            f"Connection {conn_id!r} is of type {kind!r}: gcp_conn_id must name one of type 'google_cloud_platform' "
            "(or 'generic', where that one is not on offer)."
        )
    if not isinstance(extras, dict):
        raise ConfigurationError(f"Connection {conn_id!r}: its extra must be a JSON object.")
    return ConnectionInfo(conn_id=conn_id, exists=True, extras=extras)


def _missing(conn_id: str, error: Exception) -> ConnectionInfo:
    if type(error).__name__ != "AirflowNotFoundException":  # its module differs between versions of Airflow
        raise error
    if conn_id == DEFAULT_CONN_ID:
        log.debug("Connection %s is not defined: using application default credentials.", conn_id)
        return ConnectionInfo(conn_id=conn_id, exists=False)
    raise ConfigurationError(
        f"Connection {conn_id!r} is not defined. Create it (type google_cloud_platform, extra fields project and "
        f"region), or leave gcp_conn_id out to use {DEFAULT_CONN_ID!r} or application default credentials."
    ) from error
