"""What a waiting job costs: our shared poll loop, beside a bare List loop on the same server in the same run.

Anchors: the least code that lists all active jobs with Google's asynchronous client (100 a page, read mask),
once with the client library's own objects, once with raw protobuf messages; a trigger that only sleeps; and, where the
google provider is installed, its ``CustomJobTrigger``, which polls each job by itself (``googles_us`` for a job and poll).
The server is a process of its own, so only the client side is counted. CPU figures are of the whole process,
the best of some polls: the others measure what else the machine did. "starting" is while all triggers start
and read their first states, "polling" while nothing changes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

from airflow.triggers.base import BaseTrigger

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers.poller_registry import pollers
from airflow_provider.agent_platform.triggers.reader import PAGE_SIZE
from airflow_provider.agent_platform.triggers.training_job import TrainingJobTrigger
from tests.benchmarks.compared_triggers import SleepingTrigger, google_trigger, why_not_google
from tests.benchmarks.job_service_stub import PARENT, Stub, job_name, running_stub

SIZES = (100, 1_000, 5_000, 10_000)
ROUNDS = 5
INTERVAL = 3600.0  # polls are made by hand here
GOOGLES_MOST = 1_000
"""Triggers of the google provider, each of which has a client of its own."""


def main() -> dict[str, float]:
    """Measure every size; print a table; return the figures."""
    sizes = [int(size) for size in os.environ.get("BENCH_POLLER_SIZES", "").split(",") if size] or SIZES
    if why := why_not_google():
        print(f"The google provider's CustomJobTrigger is not measured: {why}.", file=sys.stderr)
    figures: dict[str, float] = {}
    rows = []
    for size in sizes:
        with running_stub(size) as stub:
            os.environ["AGENT_PLATFORM_EMULATOR_HOST"] = stub.target
            try:
                row = asyncio.run(_measure(size, stub.target))
                if not why and size <= GOOGLES_MOST:
                    row.update(asyncio.run(_googles(stub, size)))
                    row["googles_ratio"] = row["googles_us"] / row["ours_us"]
            finally:
                del os.environ["AGENT_PLATFORM_EMULATOR_HOST"]
        rows.append((size, row))
        figures.update({f"{name}_at_{size}": value for name, value in row.items()})
    _print(rows)
    return figures


async def _measure(size: int, target: str) -> dict[str, float]:
    import grpc.aio
    from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
    from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
        JobServiceGrpcAsyncIOTransport,
    )

    channel = grpc.aio.insecure_channel(target)
    client = JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))
    _log_to_nowhere()
    row: dict[str, float] = {}
    row["bare_us"] = await _best(lambda: _bare_list(client), size)
    row["bare_raw_us"] = await _best(lambda: _bare_raw_list(client), size)
    row["sleeping_kb"] = await _memory(size, lambda number: SleepingTrigger(INTERVAL))
    ours = _Ours(size)
    # One waiter keeps the loop and its client: what they cost is no part of a further job's memory.
    first = asyncio.create_task(_run(ours.trigger(0)))
    await asyncio.sleep(0)
    await ours.settle()
    row["waiting_kb"] = await _memory(size, ours.trigger, settle=ours.settle)
    row["ours_us"] = await ours.measure()
    await _stop([first])
    while pollers():  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0.01)
    row["calls_per_poll"] = ours.calls
    row["ratio"] = row["ours_us"] / row["bare_us"]
    row["ratio_raw"] = row["ours_us"] / row["bare_raw_us"]
    row["kb_over_sleeping"] = row["waiting_kb"] - row["sleeping_kb"]
    row.update(ours.blocked)
    await channel.close()
    return row


# --- anchors ----------------------------------------------------------------------------------------


async def _bare_list(client: Any) -> int:
    pager = await client.list_custom_jobs(_request())
    states = {}
    async for job in pager:
        states[job.name] = job.state
    return len(states)


async def _bare_raw_list(client: Any) -> int:
    pager = await client.list_custom_jobs(_request())
    states = {}
    async for page in pager.pages:
        for job in page.custom_jobs.pb:
            states[job.name] = job.state
    return len(states)


def _request() -> dict[str, Any]:
    return {
        "parent": PARENT,
        "filter": 'state!="JOB_STATE_SUCCEEDED"',
        "page_size": PAGE_SIZE,
        "read_mask": {"paths": ["name", "state"]},
    }


async def _googles(stub: Stub, size: int) -> dict[str, float]:
    """What the google provider's trigger costs for each job and poll, all triggers polling by themselves."""
    interval = max(2.0, 0.015 * size)

    def make(number: int) -> BaseTrigger:
        trigger: BaseTrigger = google_trigger(stub.target, job_name(number), interval)
        return trigger

    make(0)  # what it imports is no part of a trigger
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    first = stub.calls()
    tasks = [asyncio.create_task(_run(make(number))) for number in range(size)]
    while stub.calls() < first + size:  # noqa: ASYNC110 - the stub has no event to wait for
        await asyncio.sleep(0.2)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await asyncio.sleep(interval)
    calls, used = stub.calls(), time.process_time()
    await asyncio.sleep(2 * interval)
    used, calls = time.process_time() - used, stub.calls() - calls
    await _stop(tasks)
    return {"googles_us": 1e6 * used / calls, "googles_kb": (after - before) / size / 1024}


# --- ours -------------------------------------------------------------------------------------------


class _Ours:
    """All triggers of one size, on their one loop."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.calls = 0.0
        self.blocked: dict[str, float] = {}

    def trigger(self, number: int) -> TrainingJobTrigger:
        trigger = TrainingJobTrigger(
            job_name(number), poll_interval=INTERVAL, queue_deadline="2100-01-01T00:00:00Z", run_timeout=1e9
        )
        trigger.quiet = 0.0
        return trigger

    async def settle(self) -> None:
        """Wait until every job was read once."""
        (poller,) = pollers()
        # The quota of a minute would stretch a poll of 10,000 jobs; here only its CPU counts.
        poller._calls._polling._calls = 10**9
        end = time.monotonic() + 120
        while any(entry.state != JobState.RUNNING for entry in poller._entries.values()):
            if time.monotonic() > end:
                raise RuntimeError("the jobs were not read")
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)

    async def measure(self) -> float:
        watch = asyncio.create_task(self._watch_loop("starting"))
        tasks = []
        for number in range(self.size):
            tasks.append(asyncio.create_task(_run(self.trigger(number))))
            if number % 50 == 0:  # as many as a triggerer starts at once
                await asyncio.sleep(0.001)
        await self.settle()
        watch.cancel()
        (poller,) = pollers()
        poller._due = poller._whole_due = float("inf")
        calls = 0

        async def poll() -> int:
            nonlocal calls
            poller._whole_due = 0.0
            before = poller._calls.good
            watch = asyncio.create_task(self._watch_loop("polling"))
            await poller._poll_once()
            watch.cancel()
            poller._due = float("inf")
            calls = poller._calls.good - before
            return poller.jobs

        best = await _best(poll, self.size)
        self.calls = float(calls)
        await _stop(tasks)
        return best

    def _note(self, name: str, seconds: float) -> None:
        self.blocked[name] = max(self.blocked.get(name, 0.0), 1000 * seconds)

    async def _watch_loop(self, part: str) -> None:
        collector = _Collector()
        gc.callbacks.append(collector)
        try:
            while True:
                begun, used, collected = time.perf_counter(), time.thread_time(), collector.seconds
                await asyncio.sleep(0.005)
                self._note(f"{part}_blocked_ms", time.perf_counter() - begun - 0.005)
                # What this thread itself used: the wall clock also counts what else the machine does.
                spent = time.thread_time() - used
                self._note(f"{part}_blocked_cpu_ms", spent)
                # Python's full garbage collections walk all objects of the process, whoever made them.
                self._note(f"{part}_blocked_no_gc_ms", spent - (collector.seconds - collected))
        finally:
            gc.callbacks.remove(collector)


class _Collector:
    """Adds up the time of this thread that Python's garbage collector took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._begun


# --- how it is measured -----------------------------------------------------------------------------


async def _best(poll: Callable[[], Awaitable[int]], size: int) -> float:
    """The least CPU of some polls, in microseconds for each job."""
    assert await poll() == size
    gc.collect()
    best = float("inf")
    for _ in range(ROUNDS if size > 1000 else 4 * ROUNDS):
        begun = time.process_time()
        await poll()
        best = min(best, time.process_time() - begun)
    return 1e6 * best / size


async def _memory(
    size: int,
    make: Callable[[int], BaseTrigger],
    settle: Callable[[], Awaitable[None]] | None = None,
) -> float:
    """Kilobytes of Python's heap for each waiting trigger."""
    count = min(size, 2_000) if settle is None else size
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tasks = [asyncio.create_task(_run(make(number))) for number in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if settle is not None:
        await settle()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await _stop(tasks)
    return (after - before) / count / 1024


async def _run(trigger: BaseTrigger) -> None:
    async for _ in trigger.run():
        return


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_to_nowhere() -> None:
    """Lines are made as in a triggerer, and not shown."""
    import structlog

    nowhere = open(os.devnull, "w")  # noqa: SIM115 - for the life of the process
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()],
        logger_factory=structlog.WriteLoggerFactory(file=nowhere),
        cache_logger_on_first_use=False,
    )


def _print(rows: list[tuple[int, dict[str, float]]]) -> None:
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    print(f"{'waiting jobs':<32}" + "".join(f"{size:>12,}" for size, _ in rows))
    for name in names:
        cells = "".join(f"{row[name]:>12.2f}" if name in row else f"{'-':>12}" for _, row in rows)
        print(f"{name:<32}{cells}")


if __name__ == "__main__":
    main()
