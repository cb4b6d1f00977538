"""What every call of a hook needs to know: whose it is, which project and region, where it goes.

In: a connection id, the settings, an operator's arguments. Out: project, region, credentials, endpoint, a storage
client. No call to the training service is made here.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from airflow_provider.agent_platform import settings
from airflow_provider.agent_platform.hooks import connection, storage
from airflow_provider.agent_platform.hooks.connection import DEFAULT_CONN_ID, ConnectionInfo
from airflow_provider.agent_platform.hooks.credentials import load_credentials
from airflow_provider.agent_platform.hooks.endpoint import Endpoint, endpoint_of, wait_until_reachable
from airflow_provider.agent_platform.hooks.errors import ConfigurationError
from airflow_provider.agent_platform.settings import Settings

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.storage import Client as StorageClient

_REGION = re.compile(r"[a-z]+(?:-[a-z0-9]+)+")
_PROJECT = re.compile(r"[A-Za-z0-9.:_-]+")
_ANY_REGION = "us-central1"

Self = TypeVar("Self", bound="ConnectedHook")


class ConnectedHook:
    """An Airflow connection to Google Cloud, read once.

    :param gcp_conn_id: an Airflow connection of type ``google_cloud_platform``. When
        ``google_cloud_default`` does not exist, application default credentials are used; another id that
        does not exist is an error.
    :param impersonation_chain: service account to act as, or a list: the last one is acted as, each may
        create tokens for the next. Default: the connection's own.
    :param sleep: waits between repeated reads that block; injected by tests.
    :param asleep: waits between repeated reads in an event loop; injected by tests.
    :param clock: seconds, for the bounds of repeats; injected by tests.
    """

    def __init__(
        self,
        gcp_conn_id: str = DEFAULT_CONN_ID,
        impersonation_chain: str | Sequence[str] | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        asleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self._sleep, self._asleep, self._clock = sleep, asleep, clock
        self._lock = threading.RLock()
        self._info: ConnectionInfo | None = None
        self._settings: Settings | None = None
        self._found: tuple[Credentials, str | None] | None = None
        self._storage: StorageClient | None = None

    @property
    def settings(self) -> Settings:
        """The options, read once: reading them takes longer than a call in an event loop may."""
        if self._settings is None:
            self._settings = settings.current()
        return self._settings

    def project_id(self, given: str | None = None) -> str:
        """Return ``given``, else the connection's project, else the one of the credentials.

        :param given: the argument of the operator.
        :raises ConfigurationError: there is none anywhere, or it is no project id.
        """
        project = given or self._connection().text("project", "project_id") or self._default_project()
        if not project:
            raise ConfigurationError(
                f"No Google Cloud project: give project_id, or set the extra field 'project' of connection "
                f"{self.gcp_conn_id!r}. Nothing was submitted."
            )
        project = str(project)  # a number, where templates are rendered to native objects
        if not _PROJECT.fullmatch(project):
            raise ConfigurationError(f"project_id is {project!r}: it must be the id or number of a project.")
        return project

    def region(self, given: str | None = None) -> str:
        """Return ``given``, else the connection's extra ``region``.

        :param given: the argument of the operator.
        :raises ConfigurationError: there is none, or it is no name of a region.
        """
        region = given or self._connection().text("region", "location")
        if not region:
            raise ConfigurationError(
                "No region: give region (for example 'us-central1'), or set the extra field 'region' of connection "
                f"{self.gcp_conn_id!r}. Nothing was submitted."
            )
        # The region becomes part of the host that gets the credentials.
        region = str(region)
        if not _REGION.fullmatch(region):
            raise ConfigurationError(f"region is {region!r}: it must look like 'us-central1'.")
        return region

    def base_output_root(self) -> str | None:
        """Return the connection's extra ``base_output_root``, else the setting of that name, else None."""
        return self._connection().text("base_output_root") or self.settings.base_output_root

    def credentials(self) -> Credentials:
        """Return the credentials all calls use; anonymous ones towards an emulator. May block.

        :raises ConfigurationError: there are none, or the connection's fields contradict each other.
        """
        if self._is_emulated():
            from google.auth.credentials import AnonymousCredentials

            return AnonymousCredentials()  # type: ignore[no-untyped-call]  # google-auth is not annotated
        return self._google_credentials()[0]

    def storage_client(self) -> StorageClient:
        """Return a Cloud Storage client.

        Honours ``STORAGE_EMULATOR_HOST`` (then without credentials). May block.
        """
        with self._lock:
            if self._storage is None:
                host = self.settings.storage_emulator_host
                project = self._connection().text("project", "project_id")
                self._storage = storage.storage_client(host, project, self._storage_credentials)
            return self._storage

    def check_bucket(self, uri: str) -> None:
        """Make sure that a ``gs://`` URI's bucket is there and can be listed. Blocks.

        :param uri: ``gs://bucket/folder``.
        :raises BucketError: no such bucket, or no permission; says which.
        """
        storage.check_bucket(self.storage_client(), uri)

    def ensure_reachable(self, region: str = _ANY_REGION) -> None:
        """When an emulator is configured, wait a few seconds for it to answer. Does nothing towards Google.

        Called by the first blocking call of a hook; a poll that finds no emulator is an outage, not an error.

        :param region: of the jobs; an emulator has all of them.
        :raises EmulatorUnreachableError: it does not; says how to start it.
        """
        wait_until_reachable(self.endpoint(region), sleep=self._sleep, clock=self._clock)

    def endpoint(self, region: str) -> Endpoint:
        """Return where the calls for a region go.

        :param region: for example ``us-central1``.
        """
        return endpoint_of(self.region(region), self._connection(), self.settings.emulator_host)

    async def aload_connection(self) -> None:
        """Read the connection in the way that fits an event loop; what needs it afterwards does not wait."""
        if self._info is None:
            await asyncio.to_thread(lambda: self.settings)
            self._info = await connection.aload(self.gcp_conn_id)

    def close(self) -> None:
        """Close the storage client."""
        with self._lock:
            if self._storage is not None:
                self._storage.close()
                self._storage = None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _connection(self) -> ConnectionInfo:
        # Without the lock: a thread that makes credentials holds it, and an event loop may be asking.
        info = self._info
        if info is None:
            info = self._info = connection.load(self.gcp_conn_id)
        return info

    def _is_emulated(self) -> bool:
        # The kind of endpoint is the same for every region.
        return endpoint_of(_ANY_REGION, self._connection(), self.settings.emulator_host).emulator

    def _storage_credentials(self) -> Credentials:
        try:
            return self._google_credentials()[0]
        except ConfigurationError as error:
            if not self._is_emulated():
                raise
            raise ConfigurationError(
                f"{error} The training service is emulated, Cloud Storage is not: set "
                f"{settings.STORAGE_EMULATOR_VARIABLE} to use an emulator of it as well."
            ) from error

    def _google_credentials(self) -> tuple[Credentials, str | None]:
        info = self._connection()
        with self._lock:
            if self._found is None:
                self._found = load_credentials(info, self.impersonation_chain)
            return self._found

    def _default_project(self) -> str | None:
        if not self._is_emulated():
            return self._google_credentials()[1]
        from google.auth import environment_vars

        return settings.environment(environment_vars.PROJECT)
