"""The hook to the training service: the calls of its JobService that a task needs, synchronous and asynchronous.

In: a connection id, payloads of ``jobs.spec``, names of jobs. Out: messages of
``google.cloud.aiplatform_v1``. What a message means is not decided here, and no call but a read or a cancel
is ever repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from airflow_provider.agent_platform.jobs.spec import Job

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.aiplatform_v1 import CustomJob, HyperparameterTuningJob, JobServiceAsyncClient
    from google.cloud.storage import Client as StorageClient

    JobMessage = CustomJob | HyperparameterTuningJob

DEFAULT_CONN_ID = "google_cloud_default"
CUSTOM_JOB = "custom_job"
TUNING_JOB = "hyperparameter_tuning_job"


class TrainingJobHook:
    """Calls the training service with the identity of an Airflow connection.

    A hook holds its clients: keep one per task or poller, and close it (``close``, ``aclose``, or
    ``with``).

    :param gcp_conn_id: an Airflow connection of type ``google_cloud_platform``. When
        ``google_cloud_default`` does not exist, application default credentials are used; another id that
        does not exist is an error.
    :param impersonation_chain: service account to act as, or a list: the last one is acted as, each may
        create tokens for the next. Default: the connection's own.
    """

    conn_name_attr = "gcp_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "google_cloud_platform"
    hook_name = "Agent Platform training"

    def __init__(
        self,
        gcp_conn_id: str = DEFAULT_CONN_ID,
        impersonation_chain: str | Sequence[str] | None = None,
    ) -> None:
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain

    # -- who and where

    def project_id(self, given: str | None = None) -> str:
        """Return ``given``, else the connection's project, else the one of the credentials.

        :raises ConfigurationError: there is none anywhere.
        """
        raise NotImplementedError

    def region(self, given: str | None = None) -> str:
        """Return ``given``, else the connection's extra ``region``.

        :raises ConfigurationError: there is none, or it is no name of a region.
        """
        raise NotImplementedError

    def base_output_root(self) -> str | None:
        """Return the connection's extra ``base_output_root``, else the setting of that name, else None."""
        raise NotImplementedError

    def credentials(self) -> Credentials:
        """Return the credentials all calls use; anonymous ones towards an emulator.

        :raises ConfigurationError: there are none, or the connection's fields contradict each other.
        """
        raise NotImplementedError

    def storage_client(self) -> StorageClient:
        """Return a Cloud Storage client; honours ``STORAGE_EMULATOR_HOST`` (then without credentials)."""
        raise NotImplementedError

    def check_bucket(self, uri: str) -> None:
        """Make sure that a ``gs://`` URI's bucket is there and can be listed.

        :raises BucketError: no such bucket, or no permission; says which.
        """
        raise NotImplementedError

    def ensure_reachable(self) -> None:
        """When an emulator is configured, wait a few seconds for it to answer. Does nothing towards Google.

        Called by the first synchronous call of a hook; a poll that finds no emulator is an outage, not an
        error.

        :raises EmulatorUnreachableError: it does not; says how to start it.
        """
        raise NotImplementedError

    # -- calls that block

    def create(
        self,
        job: Job | JobMessage,
        *,
        project_id: str,
        region: str,
        job_type: str = CUSTOM_JOB,
        timeout: float | None = None,
    ) -> JobMessage:
        """Create a job. Never repeated: after an ambiguous error (``api_retry.is_ambiguous_create``) list first.

        :param job: payload of ``jobs.spec`` or a message.
        :param project_id: project id or number.
        :param region: for example ``us-central1``.
        :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
        :param timeout: seconds; default: the setting ``rpc_timeout``.
        :raises google.api_core.exceptions.GoogleAPICallError: what the service answered.
        :raises SpecError: the installed client library does not know a field or value.
        """
        raise NotImplementedError

    def get(self, name: str, *, timeout: float | None = None) -> JobMessage:
        """Read a job of either kind; repeated on transient errors.

        :param name: resource name.
        :raises google.api_core.exceptions.NotFound: there is no such job.
        """
        raise NotImplementedError

    def list_jobs(
        self,
        *,
        job_type: str = CUSTOM_JOB,
        project_id: str,
        region: str,
        filter: str = "",
        read_mask: Sequence[str] | None = None,
        page_size: int = 100,
        limit: int = 10_000,
        timeout: float | None = None,
    ) -> list[JobMessage]:
        """Read all jobs that match, page by page; each page is repeated on transient errors.

        :param filter: see ``TaskIdentity.ledger_filter``.
        :param read_mask: names of the fields to read; None reads all.
        :param limit: more jobs than this is an error, never a shortened answer.
        :param timeout: seconds for each page.
        """
        raise NotImplementedError

    def cancel(self, name: str, *, timeout: float | None = None) -> bool:
        """Ask for a job's cancellation; repeated only when the call failed.

        :returns: False when the job is gone or has ended already.
        """
        raise NotImplementedError

    @staticmethod
    def job_type_of(name: str) -> str:
        """Return ``custom_job`` or ``hyperparameter_tuning_job`` for a resource name.

        :raises ValueError: no name of a job.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the clients of the calls that block."""
        raise NotImplementedError

    def __enter__(self) -> TrainingJobHook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- calls in an event loop

    async def async_client(self, region: str) -> JobServiceAsyncClient:
        """Return the client of a region for the running event loop, one for all callers of this hook.

        Imports, credentials and the client itself are made in a thread: the loop goes on.
        """
        raise NotImplementedError

    async def aget(self, name: str, *, timeout: float | None = None, retry: bool = False) -> JobMessage:
        """Read a job.

        One attempt, for a caller that has a loop of its own; ``retry=True`` repeats as ``get``.
        """
        raise NotImplementedError

    async def alist_page(
        self,
        *,
        job_type: str = CUSTOM_JOB,
        project_id: str,
        region: str,
        filter: str = "",
        read_mask: Sequence[str] | None = None,
        page_size: int = 100,
        page_token: str = "",
        timeout: float | None = None,
        retry: bool = False,
    ) -> tuple[list[JobMessage], str]:
        """Read one page of jobs. Returns the jobs and the token of the next page, "" on the last one."""
        raise NotImplementedError

    def alist(
        self,
        *,
        job_type: str = CUSTOM_JOB,
        project_id: str,
        region: str,
        filter: str = "",
        read_mask: Sequence[str] | None = None,
        page_size: int = 100,
        limit: int = 10_000,
        timeout: float | None = None,
        retry: bool = False,
    ) -> AsyncIterator[JobMessage]:
        """Read all jobs that match, page by page, as an async iterator; arguments as in ``list_jobs``."""
        raise NotImplementedError

    async def acancel(self, name: str, *, timeout: float | None = None, retry: bool = True) -> bool:
        """Ask for a job's cancellation, as :meth:`cancel`; ``retry=False`` makes one attempt."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the clients of the running event loop."""
        raise NotImplementedError
