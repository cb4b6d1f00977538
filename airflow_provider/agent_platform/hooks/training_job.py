"""The hook to the training service: the calls of its JobService that a task needs, blocking and asynchronous.

In: a connection id, payloads of ``jobs.spec``, names of jobs. Out: messages of
``google.cloud.aiplatform_v1``. What a message means is not decided here, and no call but a read or a cancel
is ever repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider.agent_platform.hooks import api_retry
from airflow_provider.agent_platform.hooks.clients import LoopClients, async_client, blocking_client
from airflow_provider.agent_platform.hooks.connected import ConnectedHook
from airflow_provider.agent_platform.hooks.connection import DEFAULT_CONN_ID
from airflow_provider.agent_platform.hooks.endpoint import Endpoint, wait_until_reachable
from airflow_provider.agent_platform.hooks.errors import TooManyJobsError
from airflow_provider.agent_platform.hooks.requests import CUSTOM_JOB, TUNING_JOB, kind_of, to_message
from airflow_provider.agent_platform.jobs.console import JobName
from airflow_provider.agent_platform.jobs.spec import Job

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import (
        CustomJob,
        HyperparameterTuningJob,
        JobServiceAsyncClient,
        JobServiceClient,
    )

    JobMessage = CustomJob | HyperparameterTuningJob

__all__ = ["CUSTOM_JOB", "DEFAULT_CONN_ID", "TUNING_JOB", "TrainingJobHook"]

_ENDED_CODES = frozenset({api_retry.NOT_FOUND, api_retry.FAILED_PRECONDITION})

T = TypeVar("T")


class TrainingJobHook(ConnectedHook):
    """Calls the training service with the identity of an Airflow connection.

    A hook holds its clients: keep one per task or poller, and close it (``close``, ``aclose``, or ``with``).
    Arguments: see :class:`~airflow_provider.agent_platform.hooks.connected.ConnectedHook`.
    """

    conn_name_attr = "gcp_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "google_cloud_platform"
    hook_name = "Agent Platform training"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clients: dict[Endpoint, JobServiceClient] = {}
        self._loop_clients = LoopClients()

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
        """Create a job. Never repeated; after ``api_retry.is_ambiguous_create`` read the ledger first.

        :param job: payload of ``jobs.spec`` or a message.
        :param project_id: project id or number.
        :param region: for example ``us-central1``.
        :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
        :param timeout: seconds; default: the setting ``rpc_timeout``.
        :raises google.api_core.exceptions.GoogleAPICallError: what the service answered.
        :raises SpecError: the installed client library does not know a field or value.
        """
        message = to_message(job, job_type)
        call: Callable[..., JobMessage] = getattr(self._client(region), f"create_{job_type}")
        parent = f"projects/{self.project_id(project_id)}/locations/{region}"
        return call(
            request={"parent": parent, kind_of(job_type).field: message},
            retry=None,
            timeout=self._deadline(timeout),
        )

    def get(self, name: str, *, timeout: float | None = None, retry: bool = True) -> JobMessage:
        """Read a job of either kind; repeated on transient errors.

        :param name: resource name.
        :param timeout: seconds for each attempt; default: the setting ``rpc_timeout``.
        :param retry: False makes one attempt, for a caller that has a loop of its own.
        :raises google.api_core.exceptions.NotFound: there is no such job.
        """
        parsed = JobName.parse(name)
        call: Callable[..., JobMessage] = getattr(self._client(parsed.region), f"get_{parsed.job_type}")
        return self._repeated(lambda: call(name=name, retry=None, timeout=self._deadline(timeout)), retry)

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
        retry: bool = True,
    ) -> list[JobMessage]:
        """Read all jobs that match, page by page; each page is repeated on transient errors.

        :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
        :param project_id: project id or number.
        :param region: for example ``us-central1``.
        :param filter: see ``TaskIdentity.ledger_filter``.
        :param read_mask: names of the fields to read; None reads all.
        :param page_size: jobs of one page, at most 100.
        :param limit: more jobs than this is an error, never a shortened answer.
        :param timeout: seconds for each page.
        :param retry: False makes one attempt for each page.
        :raises TooManyJobsError: more jobs than ``limit``.
        """
        call = getattr(self._client(region), f"list_{kind_of(job_type).items}")
        parent = f"projects/{self.project_id(project_id)}/locations/{region}"
        request = _list_request(parent, filter, read_mask, page_size)
        jobs: list[JobMessage] = []
        while True:
            pager = self._repeated(
                lambda: call(request=request, retry=None, timeout=self._deadline(timeout)), retry
            )
            jobs.extend(getattr(pager, kind_of(job_type).items))
            _check_limit(len(jobs), limit, filter)
            if not pager.next_page_token:
                return jobs
            request["page_token"] = pager.next_page_token

    def cancel(self, name: str, *, timeout: float | None = None, retry: bool = True) -> bool:
        """Ask for a job's cancellation; repeated only when the call failed.

        :param name: resource name.
        :param timeout: seconds for each attempt.
        :param retry: False makes one attempt.
        :returns: False when the job is gone or has ended already.
        """
        parsed = JobName.parse(name)
        call = getattr(self._client(parsed.region), f"cancel_{parsed.job_type}")
        try:
            self._repeated(lambda: call(name=name, retry=None, timeout=self._deadline(timeout)), retry)
        except Exception as error:
            return _cancel_missed(error)
        return True

    @staticmethod
    def job_type_of(name: str) -> str:
        """Return ``custom_job`` or ``hyperparameter_tuning_job`` for a resource name.

        :param name: resource name.
        :raises ValueError: no name of a job.
        """
        return JobName.parse(name).job_type

    def close(self) -> None:
        """Close the clients of the calls that block."""
        with self._lock:
            for client in self._clients.values():
                client.transport.close()  # type: ignore[no-untyped-call]  # Google's is not annotated
            self._clients.clear()
        super().close()

    # -- calls in an event loop

    async def async_client(self, region: str) -> JobServiceAsyncClient:
        """Return the client of a region for the running event loop, one for all callers of this hook.

        Imports, credentials and the client itself are made in a thread: the loop goes on.

        :param region: for example ``us-central1``.
        """
        await self.aload_connection()
        endpoint = self.endpoint(region)
        return await self._loop_clients.get(endpoint, lambda: async_client(endpoint, self.credentials))

    async def aget(self, name: str, *, timeout: float | None = None, retry: bool = False) -> JobMessage:
        """Read a job of either kind. One attempt, for a caller that has a loop of its own.

        :param name: resource name.
        :param timeout: seconds for each attempt; default: the setting ``rpc_timeout``.
        :param retry: repeat on transient errors, as :meth:`get`.
        """
        parsed = JobName.parse(name)
        call = getattr(await self.async_client(parsed.region), f"get_{parsed.job_type}")
        return await self._arepeated(
            lambda: call(name=name, retry=None, timeout=self._deadline(timeout)), retry
        )

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
        """Read one page of jobs; arguments as in :meth:`list_jobs`.

        :param page_token: "" for the first page.
        :param retry: repeat on transient errors.
        :returns: the jobs, and the token of the next page, "" on the last one.
        """
        call = getattr(await self.async_client(region), f"list_{kind_of(job_type).items}")
        request = _list_request(f"projects/{project_id}/locations/{region}", filter, read_mask, page_size)
        request["page_token"] = page_token
        pager = await self._arepeated(
            lambda: call(request=request, retry=None, timeout=self._deadline(timeout)), retry
        )
        return list(getattr(pager, kind_of(job_type).items)), str(pager.next_page_token)

    async def alist(
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
        """Read all jobs that match, page by page; arguments as in :meth:`list_jobs`.

        :param retry: repeat each page on transient errors.
        :raises TooManyJobsError: more jobs than ``limit``.
        """
        token, seen = "", 0
        while True:
            jobs, token = await self.alist_page(
                job_type=job_type,
                project_id=project_id,
                region=region,
                filter=filter,
                read_mask=read_mask,
                page_size=page_size,
                page_token=token,
                timeout=timeout,
                retry=retry,
            )
            seen += len(jobs)
            _check_limit(seen, limit, filter)
            for job in jobs:
                yield job
            if not token:
                return

    async def acancel(self, name: str, *, timeout: float | None = None, retry: bool = True) -> bool:
        """Ask for a job's cancellation, as :meth:`cancel`.

        :param name: resource name.
        :param timeout: seconds for each attempt.
        :param retry: False makes one attempt.
        :returns: False when the job is gone or has ended already.
        """
        parsed = JobName.parse(name)
        call = getattr(await self.async_client(parsed.region), f"cancel_{parsed.job_type}")
        try:
            await self._arepeated(lambda: call(name=name, retry=None, timeout=self._deadline(timeout)), retry)
        except Exception as error:
            return _cancel_missed(error)
        return True

    async def aclose(self) -> None:
        """Close the clients of the running event loop."""
        await self._loop_clients.aclose()

    # -- inside

    def _client(self, region: str) -> JobServiceClient:
        endpoint = self.endpoint(region)
        with self._lock:
            client = self._clients.get(endpoint)
            if client is None:
                wait_until_reachable(endpoint, sleep=self._sleep, clock=self._clock)
                client = self._clients[endpoint] = blocking_client(endpoint, self.credentials())
            return client

    def _deadline(self, timeout: float | None) -> float:
        return self.settings.rpc_timeout if timeout is None else timeout

    def _repeated(self, call: Callable[[], T], retry: bool = True) -> T:
        if not retry:
            return call()
        bound = self.settings.read_retry_seconds
        return api_retry.read_retrying(bound=bound, sleep=self._sleep, clock=self._clock)(call)

    async def _arepeated(self, call: Callable[[], Awaitable[T]], retry: bool) -> T:
        if not retry:
            return await call()

        async def attempt() -> T:
            return await call()  # tenacity awaits coroutine functions only, not what a lambda returns

        bound = self.settings.read_retry_seconds
        retrying = api_retry.async_read_retrying(bound=bound, sleep=self._asleep, clock=self._clock)
        return await retrying(attempt)


def _list_request(
    parent: str, filter: str, read_mask: Sequence[str] | None, page_size: int
) -> dict[str, Any]:
    request: dict[str, Any] = {"parent": parent, "filter": filter, "page_size": page_size}
    if read_mask is not None:
        request["read_mask"] = {"paths": list(read_mask)}
    return request


def _check_limit(count: int, limit: int, filter: str) -> None:
    if count > limit:
        raise TooManyJobsError(
            f"More than {limit} jobs match {filter!r}. Delete old ones, or ask with a narrower filter."
        )


def _cancel_missed(error: Exception) -> bool:
    """Return False when there was nothing left to cancel; raise every other error."""
    if api_retry.api_error_parts(error)[0] in _ENDED_CODES:
        return False
    raise error
