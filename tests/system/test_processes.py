"""The harness keeps its promise to leave nothing behind, whoever ends it and however."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.harness.environment import base_environment
from tests.harness.laptop import REPOSITORY
from tests.harness.processes import (
    Component,
    ComponentDied,
    free_ports,
    listening_beyond_loopback,
    session_members,
    stop_all,
)
from tests.harness.waiting import wait_until

# A child in a process group of its own, as Airflow's supervisors make them; both ignore a polite request.
_STUBBORN_FAMILY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setpgid(0, 0)
print("ready", flush=True)
time.sleep(600)
"""

_LISTENER = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 0))
print("ready", flush=True)
time.sleep(600)
"""

_HARNESS = """
import sys, time
from pathlib import Path
from tests.harness.environment import base_environment
from tests.harness.processes import Component
root = Path(sys.argv[1])
component = Component(
    "sleeper",
    [sys.executable, "-c", sys.argv[2]],
    env=base_environment(root), log=root / "log", cwd=root,
).start()
print(component.pid, flush=True)
time.sleep(1)
component.suspend()
print("suspended", flush=True)
time.sleep(600)
"""


def _component(root: Path, code: str, *arguments: str) -> Component:
    component = Component(
        "program",
        [sys.executable, "-c", code, *arguments],
        env=base_environment(root),
        log=root / "program.log",
        cwd=root,
    )
    return component.start()


def _wait_ready(component: Component, times: int = 1) -> None:
    wait_until(lambda: component.tail().count("ready") == times, "the program", seconds=20, every=0.02)


def test_a_component_that_ignores_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    component = _component(tmp_path, _STUBBORN_FAMILY)
    _wait_ready(component, times=2)
    members = component.members()
    assert len(members) == 2

    stop_all([component], grace=0.2)

    assert not any(_runs(pid) for pid in members)


def test_a_suspended_component_can_be_stopped(tmp_path: Path) -> None:
    component = _component(tmp_path, _LISTENER, "127.0.0.1")
    _wait_ready(component)
    component.suspend()
    component.stop(grace=5)
    assert not component.alive


def test_a_component_that_dies_by_itself_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    component = _component(tmp_path, "raise SystemExit('no coffee left')")
    with pytest.raises(ComponentDied, match="no coffee left"):
        wait_until(lambda: False, "its end", seconds=20, every=0.02, watch=component.check)


def test_a_component_can_be_started_again_after_its_end(tmp_path: Path) -> None:
    component = _component(tmp_path, _LISTENER, "127.0.0.1")
    _wait_ready(component)
    component.kill()
    component.start()
    _wait_ready(component, times=2)
    component.stop()


def test_a_component_that_was_stopped_has_not_died_by_itself(tmp_path: Path) -> None:
    component = _component(tmp_path, _STUBBORN_FAMILY)
    _wait_ready(component, times=2)
    component.stop(grace=0.1)
    component.check()


def test_nothing_outlives_a_harness_that_is_killed(tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, str(tmp_path), _STUBBORN_FAMILY],
        cwd=REPOSITORY,
        env={**base_environment(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert harness.stdout is not None
    with harness.stdout:
        session = int(harness.stdout.readline())
        assert harness.stdout.readline() == "suspended\n"
    assert len(session_members(session)) == 2

    harness.kill()
    harness.wait(10)

    wait_until(lambda: not session_members(session), "the component to end", seconds=20, every=0.02)


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(("address", "reachable"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_socket_that_others_can_reach_is_found(tmp_path: Path, address: str, reachable: bool) -> None:
    component = _component(tmp_path, _LISTENER, address)
    _wait_ready(component)
    try:
        assert bool(listening_beyond_loopback(component.members())) is reachable
    finally:
        component.stop()


def test_free_ports_are_all_different() -> None:
    assert len(set(free_ports(20))) == 20


def test_no_setting_of_the_developer_reaches_a_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    env = base_environment(tmp_path)
    assert not {"GOOGLE_APPLICATION_CREDENTIALS", "AIRFLOW__CORE__EXECUTOR", "HTTPS_PROXY"} & set(env)
    assert env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.demo"],
        cwd=REPOSITORY,
        env={**base_environment(tmp_path), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Three programs of three sessions: both emulators, and Airflow at its database.
    try:
        wait_until(lambda: len(_children(demo.pid)) >= 3, "the demo to start", seconds=60, every=0.05)
        family = [demo.pid, *(pid for child in _children(demo.pid) for pid in session_members(child))]
        demo.send_signal(number)
        output, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.communicate()

    assert demo.returncode == 128 + number, output
    assert not [pid for pid in family if _runs(pid)]
    assert list(tmp_path.glob("train-digits-demo-*")) == []


def _children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children() if child.status() != psutil.STATUS_ZOMBIE]
