"""The three calls polling needs, for one connection and region, on the hook's asynchronous client.

In: names, filters, deadlines. Out: raw protobuf jobs. Nothing is repeated and no error is judged here
(:mod:`.poller` does); raw messages, because wrapping each job of a page in the client library's own class
costs three times as much as all the rest of a poll (18 us instead of 6 us a job).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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

        :raises ValueError: it is no name of a custom job or hyperparameter tuning job.
        """
        parts = job_name.split("/")
        if len(parts) != 6 or parts[0] != "projects" or parts[2] != "locations" or not all(parts):
            raise ValueError(_BAD_NAME.format(job_name))
        job_type = _JOB_TYPES.get(parts[4])
        if job_type is None:
            raise ValueError(_BAD_NAME.format(job_name))
        return cls(
            gcp_conn_id=gcp_conn_id,
            impersonation_chain=chain_key(impersonation_chain),
            project=parts[1],
            region=parts[3],
            job_type=job_type,
        )


def chain_key(chain: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Answer an impersonation chain in a form that can be compared."""
    if not chain:
        return None
    return (chain,) if isinstance(chain, str) else tuple(chain)


_JOB_TYPES = {"customJobs": "custom_job", "hyperparameterTuningJobs": "hyperparameter_tuning_job"}

_BAD_NAME = (
    "job_name is {0!r}: give the full resource name of a training job, such as "
    '"projects/123/locations/us-central1/customJobs/456" (or hyperparameterTuningJobs)'
)


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
        self._hook: Any = None
        self._lock = asyncio.Lock()

    async def _get_hook(self) -> Any:
        async with self._lock:
            if self._hook is None:
                self._hook = await asyncio.to_thread(_make_hook, self._key)
        return self._hook

    async def list_page(
        self, *, filter: str, fields: Sequence[str], page_token: str, timeout: float
    ) -> tuple[Iterable[Any], str]:
        """Read a page."""
        hook = await self._get_hook()
        jobs, token = await hook.alist_page(
            job_type=self._key.job_type,
            project_id=self._key.project,
            region=self._key.region,
            filter=filter,
            read_mask=fields,
            page_size=PAGE_SIZE,
            page_token=page_token,
            timeout=timeout,
        )
        return jobs, token

    async def get(self, name: str, *, timeout: float) -> Any:
        """Read a job."""
        return await (await self._get_hook()).aget(name, timeout=timeout)

    async def cancel(self, name: str, *, timeout: float) -> None:
        """Cancel a job; one that has ended or is gone needs none."""
        await (await self._get_hook()).acancel(name, timeout=timeout, retry=False)

    async def close(self) -> None:
        """Close the clients of this event loop."""
        if self._hook is not None:
            await self._hook.aclose()


def _make_hook(key: PollKey) -> Any:
    # Not at module level: the trigger's module is imported in the triggerer's event loop.
    from airflow_provider.agent_platform.hooks import api_retry
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

    api_retry.is_transient(TimeoutError())  # what judging an error imports is imported here too
    chain = list(key.impersonation_chain) if key.impersonation_chain else None
    return TrainingJobHook(gcp_conn_id=key.gcp_conn_id, impersonation_chain=chain)
