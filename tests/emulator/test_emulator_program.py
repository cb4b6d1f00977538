"""``agent-platform-emulator`` as a program: how it starts, refuses to start, is killed, and goes on."""

from __future__ import annotations

import re
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.cloud import aiplatform_v1
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.emulator.cli import FLAGS, main, parser, read_config
from airflow_provider.agent_platform.emulator.client import Control
from airflow_provider.agent_platform.emulator.config import Config
from airflow_provider.agent_platform.emulator.server import Server

Make = Callable[..., dict[str, Any]]
READY = re.compile(r"Agent Platform emulator ready: gRPC (\S+), REST (http://\S+)\n")
PATIENCE = 120.0


class Program:
    """A running emulator program."""

    def __init__(self, *flags: str) -> None:
        words = [
            sys.executable,
            "-m",
            "airflow_provider.agent_platform.emulator.cli",
            "--port=0",
            "--rest-port=0",
        ]
        self.process = subprocess.Popen(
            [*words, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        found = READY.fullmatch(line)
        assert found, (line, self.stop())
        self.target, self.rest_url = found.groups()
        self.control = Control(self.rest_url)
        self.channel = grpc.insecure_channel(self.target)
        self.client = aiplatform_v1.JobServiceClient(transport=JobServiceGrpcTransport(channel=self.channel))

    def stop(self, number: int = signal.SIGTERM) -> str:
        """End it; what it said on stderr."""
        if hasattr(self, "channel"):
            self.channel.close()
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE)
        return said


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    made: list[Program] = []

    def start(*flags: str) -> Program:
        made.append(Program(*flags))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.stop()


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the program in this process, which must not start; what it said on stderr."""

    def run(*flags: str) -> str:
        try:
            code = main(flags)
        except SystemExit as error:  # argparse's own way
            code = int(error.code or 0)
        said = capsys.readouterr()
        assert (code, said.out) == (2, "")
        assert "Traceback" not in said.err
        return said.err

    return run


def test_ctrl_c_ends_its_workers(
    program: Callable[..., Program], make_job: Make, make_pool: Make, parent: str
) -> None:
    running = program("--speed=100")
    pid = worker_of(running, make_job, make_pool, parent)[1]
    assert running.stop(signal.SIGINT) == ""
    assert running.process.returncode == 0
    assert gone(pid)


def test_every_flag_has_a_twin_in_the_environment() -> None:
    values = {
        "host": "::1", "port": "1", "rest_port": "2", "db": "x.db", "runner": "simulated", "speed": "7",
        "memory_scale": "2", "faults": "f.yaml", "storage_host": "http://h", "set": "over_quota=refuse,crash_retries=0",
    }  # fmt: skip
    assert set(values) == {*FLAGS, "set"}
    config = read_config(
        [], {f"AGENT_PLATFORM_EMULATOR_{name.upper()}": value for name, value in values.items()}
    )
    for name in FLAGS:
        assert str(getattr(config, name)).removesuffix(".0") == values[name]
    assert (config["over_quota"], config["crash_retries"]) == ("refuse", 0)


def test_a_flag_wins_over_its_twin() -> None:
    config = read_config(["--speed=9", "--set=crash_retries=1"], {"AGENT_PLATFORM_EMULATOR_SPEED": "7"})
    assert (config.speed, config["crash_retries"]) == (9, 1)


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("127.0.0.1:9085", "127.0.0.1", 9085),
        ("[::1]:9085", "::1", 9085),
        ("::1", "::1", 8085),
        ("localhost", "localhost", 8085),
    ],
)
def test_the_address_that_clients_read_starts_the_emulator_they_look_for(
    value: str, host: str, port: int
) -> None:
    config = read_config([], {"AGENT_PLATFORM_EMULATOR_HOST": value})
    assert (config.host, config.port) == (host, port)


def test_a_port_of_its_own_wins_over_the_address_that_clients_read() -> None:
    environ = {"AGENT_PLATFORM_EMULATOR_HOST": "127.0.0.1:9085", "AGENT_PLATFORM_EMULATOR_PORT": "9090"}
    assert read_config([], environ).port == 9090


@pytest.mark.parametrize("flag", ["--port", "--rest-port"])
def test_a_port_that_is_taken_is_refused(flag: str, refused: Callable[..., str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = "--rest-port" if flag == "--port" else "--port"
        said = refused(f"{flag}={port}", f"{other}=0", "--runner=simulated")
    assert f"{flag} {port}: cannot listen on 127.0.0.1:{port}" in said


def test_a_port_of_another_emulator_is_refused(refused: Callable[..., str]) -> None:
    with Emulator(runner="simulated") as running:
        port = running.grpc_target.rpartition(":")[2]
        assert "cannot listen" in refused(f"--port={port}", "--rest-port=0", "--runner=simulated")


def test_a_database_of_a_newer_format_is_refused(tmp_path: Path, refused: Callable[..., str]) -> None:
    connection = sqlite3.connect(tmp_path / "jobs.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    said = refused("--port=0", "--rest-port=0", f"--db={tmp_path / 'jobs.db'}")
    assert "format 99 is newer than this emulator's" in said


@pytest.mark.parametrize(
    ("flags", "env", "named"),
    [
        (["--set=over_quota=maybe"], {}, "queue, refuse, fail_later"),
        (["--set=no_such=1"], {}, "unknown switch"),
        (["--set=crash_retries"], {}, "NAME=VALUE"),
        (["--speed=0"], {}, "--speed 0.0"),
        (["--runner=magic"], {}, "choose from"),
        ([], {"AGENT_PLATFORM_EMULATOR_PORT": "eighty"}, "AGENT_PLATFORM_EMULATOR_PORT=eighty"),
        (
            ["--port=0", "--rest-port=0", "--runner=simulated", "--faults=/no/such.yaml"],
            {},
            "--faults /no/such.yaml",
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    flags: list[str],
    env: dict[str, str],
    named: str,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert named in refused(*flags)


def test_faults_of_a_file_are_set_at_start(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(
        "- fault: stockout\n  times: 2\n- fault: preempt\n  after_log: step 5\n  match: {display_name: 'a*'}\n"
    )
    with Emulator(runner="simulated", faults=str(file)) as running:
        found = [(fault["fault"], fault["times"]) for fault in running.control.faults()]
    assert found == [("stockout", 2), ("preempt", 1)]


@pytest.mark.parametrize(
    "text", ["fault: stockout", "- fault: meteor", "- [", "- fault: stockout\n  tims: 2"]
)
def test_a_file_of_faults_that_cannot_be_read_is_refused(
    text: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    said = refused("--port=0", "--rest-port=0", "--runner=simulated", f"--faults={file}")
    assert f"--faults {file}" in said


def test_help_says_what_a_newcomer_needs() -> None:
    said = parser().format_help()
    for word in (
        "AGENT_PLATFORM_EMULATOR_HOST",
        "--storage-host",
        "over_quota=queue",
        "AGENT_PLATFORM_EMULATOR_REST_PORT",
    ):
        assert word in said


@pytest.mark.parametrize(
    ("host", "warns"), [("0.0.0.0", True), ("10.0.0.7", True), ("127.0.0.1", False), ("::1", False)]
)
def test_beyond_loopback_it_warns(host: str, warns: bool, capsys: pytest.CaptureFixture[str]) -> None:
    Server(Config(host=host)).warn_if_open()
    assert (f"WARNING: listening on {host}" in capsys.readouterr().err) is warns


# --- killed ---

SLEEP = "import os, time; print('run', flush=True); time.sleep(600)"


def worker_of(
    running: Program, make_job: Make, make_pool: Make, parent: str, code: str = SLEEP, **spec: Any
) -> tuple[str, int]:
    """A job with a running worker, and the worker's process."""
    body = make_job(make_pool(["python3", "-c", code]), **spec)
    name = running.client.create_custom_job(parent=parent, custom_job=aiplatform_v1.CustomJob(body)).name
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for process in psutil.Process(running.process.pid).children(recursive=True):
            try:
                if process.cmdline()[-1:] == [code]:
                    return name, process.pid
            except psutil.Error:
                pass
        time.sleep(0.05)
    raise AssertionError("the worker did not start")


def gone(pid: int) -> bool:
    """Whether a process has ended, also when nobody has collected it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(done: Callable[[], bool]) -> None:
    """Wait for what another process does, however slow the machine is."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_emulator_leaves_no_worker_and_its_jobs_go_on(
    program: Callable[..., Program], make_job: Make, make_pool: Make, parent: str, tmp_path: Path
) -> None:
    flags = ("--speed=100", f"--db={tmp_path / 'jobs.db'}")
    first = program(*flags)
    name, pid = worker_of(first, make_job, make_pool, parent)
    quotas = {"us-central1": {"custom_model_training_cpus": 4}}
    first.control.set_quotas(quotas)
    body = aiplatform_v1.CustomJob(make_job(make_pool(["python3", "-c", SLEEP])))
    waiting = first.client.create_custom_job(parent=parent, custom_job=body).name
    first.stop(signal.SIGKILL)
    wait_until(lambda: gone(pid))

    second = program(*flags)
    assert second.client.get_custom_job(name=waiting).state.name == "JOB_STATE_QUEUED"
    wait_until(lambda: second.client.get_custom_job(name=name).state.name == "JOB_STATE_RUNNING")
    story = second.control.events(name)
    assert [event["run"] for event in story if event["kind"] == "run"] == [1, 2]
    assert [event["fault"] for event in story if event["kind"] == "fault"] == ["emulator_restart"]
    second.client.cancel_custom_job(name=name)
    wait_until(lambda: second.client.get_custom_job(name=waiting).state.name == "JOB_STATE_RUNNING")


def test_a_worker_whose_supervisor_was_killed_too_is_found_and_ended(
    program: Callable[..., Program], make_job: Make, make_pool: Make, parent: str, tmp_path: Path
) -> None:
    flags = ("--speed=100", f"--db={tmp_path / 'jobs.db'}")
    first = program(*flags)
    free = tmp_path / "free"
    code = (
        "import ctypes, pathlib, time; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0); "
        f"pathlib.Path({str(free)!r}).touch(); time.sleep(600)"
    )
    _, pid = worker_of(first, make_job, make_pool, parent, code)
    wait_until(free.exists)  # it has given up its tie to its supervisor
    supervisor = psutil.Process(pid).parent()
    assert supervisor is not None
    first.process.send_signal(signal.SIGSTOP)
    supervisor.kill()
    first.stop(signal.SIGKILL)
    assert not gone(pid)
    program(*flags)
    wait_until(lambda: gone(pid))


def test_an_error_that_was_not_shown_yet_is_shown_after_the_restart(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make, tmp_path: Path
) -> None:
    settings = {"db": str(tmp_path / "jobs.db"), "runner": "simulated"}
    first = fast_cloud(**settings, switches={"error_delay_seconds": 90_000})
    name = first.create(make_job(make_pool(EMULATE_EXIT_CODE="4")))
    first.wait(name, lambda found: found.state == 5)
    assert first.get(name).error.code == 0
    first.emulator.stop()
    assert "non-zero status of 4." in fast_cloud(**settings).get(name).error.message


def test_a_stopped_emulator_keeps_its_jobs_as_they_are(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make, tmp_path: Path
) -> None:
    first = fast_cloud(db=str(tmp_path / "jobs.db"))
    name = first.create(make_job(make_pool(["python3", "-c", SLEEP])))
    first.wait_event(name, "worker_start")
    first.emulator.stop()
    second = fast_cloud(db=str(tmp_path / "jobs.db"))
    second.wait_event(name, "worker_start", 2)
    assert second.get(name).state.name == "JOB_STATE_RUNNING"
    assert not second.events(name, "error")


def test_quotas_and_the_order_of_the_queue_outlive_the_program(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make, tmp_path: Path
) -> None:
    first = fast_cloud(db=str(tmp_path / "jobs.db"), runner="simulated")
    first.control.set_quotas({"us-central1": {"custom_model_training_cpus": 4}})
    body = make_job(make_pool(EMULATE_RUN_SECONDS="90000"))
    names = [first.create(body) for _ in range(3)]
    first.emulator.stop()
    second = fast_cloud(db=str(tmp_path / "jobs.db"), runner="simulated")
    assert [second.states(name)[-1] for name in names[1:]] == ["QUEUED", "QUEUED"]
    second.client.cancel_custom_job(name=names[0])
    second.wait(names[1], lambda found: found.state == 3)
    assert second.states(names[2]) == ["QUEUED"]
