"""The asynchronous calls never hold up an event loop, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time as real_time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.api_core import exceptions as api_errors

from airflow_provider.agent_platform.emulator.emulator import Emulator
from airflow_provider.agent_platform.hooks import clients, connected
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from tests.hooks.samples import PROJECT, REGION, Time, custom_job
from tests.hooks.secured import Token, connect, trust, use
from tests.hooks.wire import serve

WHERE: dict[str, Any] = {"project_id": PROJECT, "region": REGION}
NAME = f"projects/{PROJECT}/locations/{REGION}/customJobs/7"


class Pulse:
    """The longest time that the event loop did nothing else."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        last = real_time.monotonic()
        while True:
            await asyncio.sleep(0.002)
            now = real_time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now

    async def stop(self) -> float:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self.longest


class SlowToken(Token):
    """Credentials whose refresh takes long, as behind a busy metadata server."""

    def before_request(self, request: Any, method: Any, url: Any, headers: dict[str, str]) -> None:
        real_time.sleep(1.0)
        super().before_request(request, method, url, headers)


async def test_slow_credentials_do_not_block_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly_made(info: Any, chain: Any) -> Any:
        real_time.sleep(1.0)
        return SlowToken(), None

    with serve(tls=True) as wire:
        connect(monkeypatch, wire, "https")
        trust(monkeypatch, wire)
        monkeypatch.setattr(connected, "load_credentials", slowly_made)
        hook = TrainingJobHook("wire")
        await asyncio.sleep(0.05)
        pulse, started = Pulse(), real_time.monotonic()
        await asyncio.gather(*(hook.aget(NAME) for _ in range(3)))
        took = real_time.monotonic() - started
        longest = await pulse.stop()
        await hook.aclose()
    assert took >= 2.0, "the credentials were not slow, so this proves nothing"
    # What blocks would block for a second. A busy machine pauses for a good part of one by itself.
    assert longest < 0.9


async def test_a_refresh_that_hangs_ends_at_the_calls_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(tls=True) as wire:
        connect(monkeypatch, wire, "https")
        trust(monkeypatch, wire)
        use(monkeypatch, SlowToken())
        hook = TrainingJobHook("wire")
        await hook.async_client(REGION)
        with pytest.raises(api_errors.DeadlineExceeded):
            await hook.aget(NAME, timeout=0.2)
        await hook.aclose()


async def test_all_callers_of_a_loop_share_one_client(emulator: Emulator) -> None:
    hook = TrainingJobHook()
    made = await asyncio.gather(*(hook.async_client(REGION) for _ in range(20)))
    assert len({id(client) for client in made}) == 1
    await hook.aclose()


def test_each_loop_has_a_client_of_its_own(emulator: Emulator) -> None:
    hook = TrainingJobHook()
    seen = []

    async def one_loop() -> None:
        await hook.aget((await hook.alist_page(**WHERE))[0][0].name)
        seen.append(await hook.async_client(REGION))
        await hook.aclose()

    with TrainingJobHook() as other:
        other.create(custom_job(), **WHERE)
    for _ in range(2):
        asyncio.run(one_loop())
    assert seen[0] is not seen[1]


async def test_a_cancelled_caller_does_not_stop_the_others(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = TrainingJobHook()
    go = asyncio.Event()
    make = clients.async_client

    async def slowly(*args: Any) -> Any:
        await go.wait()
        return await make(*args)

    monkeypatch.setattr("airflow_provider.agent_platform.hooks.training_job.async_client", slowly)
    first, second = (asyncio.create_task(hook.async_client(REGION)) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    go.set()
    assert await second is not None
    await hook.aclose()


async def test_a_client_that_could_not_be_made_is_made_again(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = TrainingJobHook()
    make, failures = clients.async_client, [OSError("no metadata server")]

    async def sometimes(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return await make(*args)

    monkeypatch.setattr("airflow_provider.agent_platform.hooks.training_job.async_client", sometimes)
    with pytest.raises(OSError, match="no metadata server"):
        await hook.async_client(REGION)
    assert await hook.async_client(REGION) is not None
    await hook.aclose()


async def test_a_read_is_made_once_unless_repeats_are_asked_for(
    emulator: Emulator, hook: TrainingJobHook, time: Time
) -> None:
    name = (await asyncio.to_thread(hook.create, custom_job(), **WHERE)).name
    fault: dict[str, Any] = {"match": {"method": "GetCustomJob"}, "code": "UNAVAILABLE", "message": "x"}
    emulator.control.add_fault("rpc_error", times=1, **fault)
    with pytest.raises(api_errors.ServiceUnavailable):
        await hook.aget(name)
    emulator.control.add_fault("rpc_error", times=2, **fault)
    assert (await hook.aget(name, retry=True)).name == name
    assert len(time.slept) == 2
    await hook.aclose()


async def test_a_call_that_never_answers_ends_at_its_deadline(
    emulator: Emulator, hook: TrainingJobHook
) -> None:
    name = (await asyncio.to_thread(hook.create, custom_job(), **WHERE)).name
    emulator.control.add_fault("rpc_hang", match={"method": "GetCustomJob"}, times=1)
    with pytest.raises(api_errors.DeadlineExceeded):
        await hook.aget(name, timeout=0.3)
    assert (await hook.aget(name)).name == name
    await hook.aclose()


async def test_pages_are_read_one_by_one(emulator: Emulator, hook: TrainingJobHook) -> None:
    for number in range(3):
        await asyncio.to_thread(hook.create, custom_job(f"job-{number}"), **WHERE)
    jobs, token = await hook.alist_page(**WHERE, page_size=2)
    assert len(jobs) == 2
    rest, end = await hook.alist_page(**WHERE, page_size=2, page_token=token)
    assert (len(rest), end) == (1, "")
    assert len([job async for job in hook.alist(**WHERE, page_size=2)]) == 3
    await hook.aclose()


async def test_a_cancel_is_repeated_when_it_failed_and_tells_when_there_is_nothing_left(
    emulator: Emulator, hook: TrainingJobHook, time: Time
) -> None:
    name = (await asyncio.to_thread(hook.create, custom_job(), **WHERE)).name
    emulator.control.add_fault(
        "rpc_error", match={"method": "CancelCustomJob"}, times=1, code="UNAVAILABLE", message="x"
    )
    assert await hook.acancel(name) is True
    assert len(time.slept) == 1
    assert await hook.acancel(NAME) is False
    await hook.aclose()


async def test_an_emulator_that_does_not_run_is_an_outage_for_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", "127.0.0.1:9")
    hook = TrainingJobHook()
    with pytest.raises(api_errors.ServiceUnavailable):
        await hook.aget(NAME, timeout=5)
    await hook.aclose()


def open_sockets() -> int:
    return sum(1 for name in os.listdir("/proc/self/fd") if _link(name).startswith("socket:"))


def _link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""


@contextmanager
def same_sockets() -> Iterator[None]:
    before = open_sockets()
    yield
    end = real_time.monotonic() + 10
    while open_sockets() > before and real_time.monotonic() < end:
        gc.collect()
        real_time.sleep(0.05)
    assert open_sockets() <= before


@pytest.mark.skipif(sys.platform != "linux", reason="counts the sockets in /proc")
def test_hooks_that_come_and_go_leave_no_socket_and_no_task(emulator: Emulator) -> None:
    async def come_and_go() -> int:
        for _ in range(20):
            hook = TrainingJobHook()
            await hook.alist_page(**WHERE)
            await hook.aclose()
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(come_and_go()) == 1
    with same_sockets():
        assert asyncio.run(come_and_go()) == 1
        for _ in range(10):
            with TrainingJobHook() as hook:
                hook.list_jobs(**WHERE)


FIRST_USE = """
import asyncio, gc, sys
import airflow.sdk, airflow.triggers.base
from airflow_provider.agent_platform import settings
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

airflow.sdk.BaseHook, settings.current()
full = []
gc.collect()
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)

async def main():
    hook = TrainingJobHook()
    await hook.async_client("us-central1")
    await hook.aclose()

assert "grpc" not in sys.modules, "the client was there before, so this proves nothing"
asyncio.run(main())
gc.callbacks.clear()
assert "grpc" in sys.modules and gc.isenabled() and gc.get_freeze_count() == 0
print("full collections:", full.count("start"))
"""


def test_importing_the_client_does_not_stop_the_loop_for_a_collection_of_garbage() -> None:
    """A collection walks all of the process: measured, it was the longest pause of the first poll."""
    environment = {**os.environ, "AGENT_PLATFORM_EMULATOR_HOST": "127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "full collections: 0"


@pytest.mark.parametrize("enabled", [True, False])
def test_collecting_garbage_is_left_as_it_was(enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with clients._no_collection():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count() == 0
    finally:
        (gc.enable if was else gc.disable)()


def test_importing_the_hooks_imports_no_client() -> None:
    probe = (
        "import sys; from airflow_provider.agent_platform.hooks import training_job, logs, client_schema, storage;"
        "print([m for m in sys.modules if m.startswith(('google.', 'grpc')) and m != 'google.cloud'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
