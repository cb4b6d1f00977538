"""Garbage, foreign pages, and that everything is given back: processes, threads, files."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.emulator.client import Control, ControlError

Make = Callable[..., dict[str, Any]]


def alive(cloud: Any) -> bool:
    return (
        cloud.control.calls() is not None
        and list(cloud.client.list_custom_jobs(parent="projects/p/locations/us-east1")) == []
    )


# --- foreign pages ---


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:8086"}, 200),
        ({"Origin": "http://127.0.0.1:9"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Host": ""}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/emulator/v1/calls", "/v1/projects/p/locations/us-central1/customJobs"])
def test_foreign_origins_and_hosts_are_refused(
    headers: dict[str, str], status: int, path: str, still: Any
) -> None:
    address = urlsplit(still.emulator.rest_url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.request("GET", path, headers=headers)
    assert connection.getresponse().status == status
    connection.close()


# --- garbage ---


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff" * 500,
        b"GET / HTTP/1.1\r\n",
        b"POST /emulator/v1/faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{",
    ],
)
@pytest.mark.parametrize("port", ["grpc", "rest"])
def test_garbage_on_a_port_does_no_harm(data: bytes, port: str, still: Any) -> None:
    server = still.emulator.server
    with socket.create_connection(
        ("127.0.0.1", server.port if port == "grpc" else server.rest_port)
    ) as connection:
        connection.sendall(data)
    assert alive(still)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 100_000, b"\xff", b'{"fault": "stockout", "times": 1e400}']
)
def test_a_control_body_that_is_no_json_is_refused(body: bytes, still: Any) -> None:
    address = urlsplit(still.emulator.rest_url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.request("POST", "/emulator/v1/faults", body=body)
    answer = connection.getresponse()
    assert answer.status == 400
    assert b'"INVALID_ARGUMENT"' in answer.read()
    connection.close()
    assert alive(still)


def test_a_control_body_that_is_too_large_is_refused(still: Any) -> None:
    with pytest.raises((ControlError, OSError)):
        still.control.call("POST", "/faults", {"fault": "x" * 3_000_000})
    assert alive(still)


def test_ten_megabytes_of_spec_are_refused_by_name_or_run(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    from google.api_core import exceptions

    with pytest.raises(exceptions.GoogleAPICallError):
        still.create(make_job(make_pool(**{f"V{number}": "x" * 1_000_000 for number in range(101)})))
    assert alive(still)


def test_an_endless_line_and_binary_output_are_taken(cloud: Any, make_job: Make, make_pool: Make) -> None:
    code = 'import sys; sys.stdout.buffer.write(b\'\\xff\\x00\' * 500_000); sys.stdout.write(\'\\n{"severity": "WARNING", "message": "m", "step": 3}\\nlast\')'
    name = cloud.create(make_job(make_pool(["python3", "-c", code])))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED"
    entries = cloud.emulator.server.engine.logs.entries(name.rpartition("/")[2])
    structured = [entry for entry in entries if entry.fields]
    assert [(entry.severity, entry.message, (entry.fields or {})["step"]) for entry in structured] == [
        ("WARNING", "m", 3)
    ]
    assert "last" in cloud.lines(name)


# --- what is given back ---


def resources() -> tuple[int, int, int]:
    me = psutil.Process()
    return (len(me.children(recursive=True)), threading.active_count(), me.num_fds())


def test_many_short_jobs_leave_nothing_behind(cloud: Any, make_job: Make, make_pool: Make) -> None:
    body = make_job(make_pool(["true"]))
    cloud.wait(cloud.create(body))
    before = resources()
    names = [cloud.create(body) for _ in range(60)]
    for name in names:
        assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED"
    deadline = time.monotonic() + 20
    root: Path = cloud.emulator.server.runner.root
    while time.monotonic() < deadline and (resources()[0] > before[0] or list(root.iterdir())):
        time.sleep(0.05)
    after = resources()
    assert after[0] == before[0]
    assert after[1] <= before[1] + 10  # the pool of starters and gRPC's threads grow to their bound
    assert after[2] <= before[2] + 3
    assert list(root.iterdir()) == []
    assert not cloud.emulator.server.engine.live()


def test_an_emulator_that_ends_gives_everything_back(make_job: Make) -> None:
    with Emulator(speed=100):
        pass
    before, threads = resources(), set(threading.enumerate())
    for _ in range(3):
        with Emulator(speed=100, runner="process") as emulator:
            root = getattr(emulator.server.runner, "root")  # noqa: B009 - only this runner has one
            Control(emulator.rest_url).calls()
    time.sleep(0.2)
    after = resources()
    assert after[0] == before[0]
    assert after[1] <= before[1]
    assert set(threading.enumerate()) <= threads
    assert after[2] <= before[2] + 1
    assert not root.exists()


def test_ended_jobs_keep_no_timers(still: Any, make_job: Make, make_pool: Make) -> None:
    for _ in range(20):
        still.create(make_job(make_pool()))
    still.advance(100)
    assert not still.emulator.server.engine.live()
    assert not [timer for _, _, timer in still.clock._heap if timer.callback is not None]


def test_an_idle_emulator_does_not_spin(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(runner="simulated", speed=1)
    for _ in range(200):
        cloud.create(make_job(make_pool(EMULATE_RUN_SECONDS="90000")))
    time.sleep(1.5)
    used = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - used < 0.1


# --- the pytest plugin and the package ---


def test_the_plugin_and_the_package_import_nothing_heavy() -> None:
    code = (
        "import sys, airflow_provider.agent_platform.emulator.pytest_plugin, airflow_provider.agent_platform.emulator.cli;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'grpc', 'fastapi', 'uvicorn', 'psutil', 'optuna', 'lark'}),"
        " 'google.cloud.aiplatform_v1' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.split("\n")[0] == "[] False"


@pytest.mark.agent_platform_emulator(speed=900, runner="simulated")
def test_the_fixture_gives_an_emulator_of_ones_own(agent_platform_emulator: Emulator) -> None:
    assert os.environ["AGENT_PLATFORM_EMULATOR_HOST"] == agent_platform_emulator.grpc_target
    assert (agent_platform_emulator.config.speed, agent_platform_emulator.config.runner) == (900, "simulated")


def test_the_context_manager_says_when_it_is_not_running() -> None:
    with pytest.raises(RuntimeError, match="with Emulator"):
        _ = Emulator(runner="simulated").grpc_target
