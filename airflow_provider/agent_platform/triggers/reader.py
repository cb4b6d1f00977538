"""The three calls polling needs, for one connection and region, on the hook's asynchronous client.

In: names, filters, deadlines. Out: raw protobuf jobs. Nothing is repeated and no error is judged here
(:mod:`.poller` does); raw messages, because wrapping each job of a page in the client library's own class
costs three times as much as all the rest of a poll (18 us instead of 6 us a job).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider.agent_platform.hooks.credentials import chain_of
from airflow_provider.agent_platform.jobs.console import JobName

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

PAGE_SIZE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class PollKey:
    """What one poll loop is for: waiters with equal keys share it."""

    gcp_conn_id: str
    impersonation_chain: tuple[str, ...] | None
    project: str
    region: str
    job_type: str

    @classmethod
    def of(
        cls, job_name: str, *, gcp_conn_id: str, impersonation_chain: str | Sequence[str] | None = None
    ) -> PollKey:
        """Answer the key of a job's resource name.

        :raises ValueError: it is no name of a custom job or hyperparameter tuning job, or no chain.
        """
        name = JobName.parse(job_name)
        return cls(
            gcp_conn_id=gcp_conn_id,
            impersonation_chain=chain_key(impersonation_chain),
            project=name.project,
            region=name.region,
            job_type=name.job_type,
        )


def chain_key(chain: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Answer an impersonation chain in a form that can be compared, read as a worker reads it.

    ``None`` is the connection's own chain, ``()`` is none at all.
    """
    return None if chain is None else tuple(chain_of(chain))


class JobReader(Protocol):
    """What a poller needs of the service. Tests and benchmarks bring their own."""

    async def list_page(
        self, *, filter: str, fields: Sequence[str], page_token: str, timeout: float
    ) -> tuple[Iterable[Any], str]:
        """Answer one page of raw jobs, and the token of the next one or ""."""

    async def get(self, name: str, *, timeout: float) -> Any:
        """Answer one job in full."""

    async def cancel(self, name: str, *, timeout: float) -> None:
        """Ask for the end of a job, once."""

    async def close(self) -> None:
        """Give the connection back."""


ReaderFactory = Callable[[PollKey], JobReader]


class HookReader:
    """The real one: :class:`~airflow_provider.agent_platform.hooks.training_job.TrainingJobHook`.

    The hook, its imports and its credentials are made in a thread, at the first call.
    """

    def __init__(self, key: PollKey) -> None:
        self._key = key
        self._hook: TrainingJobHook | None = None
        self._list: Any = None
        self._items = _ITEMS[key.job_type]
        self._requests: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._lock = asyncio.Lock()

    async def list_page(
        self, *, filter: str, fields: Sequence[str], page_token: str, timeout: float
    ) -> tuple[Iterable[Any], str]:
        """Read a page."""
        if self._list is None:
            client = await (await self._get_hook()).async_client(self._key.region)
            self._list = getattr(client, f"list_{self._items}")
        request = self._request(filter, tuple(fields))
        request.page_token = page_token
        # The client is asked directly and its request kept: made anew by the hook for each page, they cost
        # as much again as the page.
        page = await self._list(request=request, retry=None, timeout=timeout)
        return getattr(page, self._items).pb, str(page.next_page_token)

    async def get(self, name: str, *, timeout: float) -> Any:
        """Read a job."""
        return await (await self._get_hook()).aget(name, timeout=timeout)

    async def cancel(self, name: str, *, timeout: float) -> None:
        """Cancel a job; one that has ended or is gone needs none."""
        await (await self._get_hook()).acancel(name, timeout=timeout, retry=False)

    async def close(self) -> None:
        """Close the clients of this event loop."""
        self._list = None
        if self._hook is not None:
            await self._hook.aclose()

    async def _get_hook(self) -> TrainingJobHook:
        async with self._lock:
            if self._hook is None:
                self._hook = await asyncio.to_thread(_make_hook, self._key)
        return self._hook

    def _request(self, filter: str, fields: tuple[str, ...]) -> Any:
        request = self._requests.get((filter, fields))
        if request is None:
            import google.cloud.aiplatform_v1 as api  # loaded by now, in a thread

            name = "ListCustomJobsRequest" if self._items == "custom_jobs" else _TUNING_REQUEST
            request = getattr(api, name)(
                parent=f"projects/{self._key.project}/locations/{self._key.region}",
                filter=filter,
                page_size=PAGE_SIZE,
                read_mask={"paths": list(fields)},
            )
            self._requests = {key: kept for key, kept in self._requests.items() if key[1] != fields}
            self._requests[filter, fields] = request
        return request


_ITEMS = {"custom_job": "custom_jobs", "hyperparameter_tuning_job": "hyperparameter_tuning_jobs"}
_TUNING_REQUEST = "ListHyperparameterTuningJobsRequest"


def _make_hook(key: PollKey) -> TrainingJobHook:
    # Not at module level: the trigger's module is imported in the triggerer's event loop.
    from airflow_provider.agent_platform.hooks import api_retry
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

    api_retry.is_transient(TimeoutError())  # what judging an error imports is imported here too
    chain = None if key.impersonation_chain is None else list(key.impersonation_chain)
    return TrainingJobHook(gcp_conn_id=key.gcp_conn_id, impersonation_chain=chain)
