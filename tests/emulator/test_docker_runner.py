"""The docker runner, against a stand-in for the docker command: real engines are rare where tests run."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.emulator.runners.base import RunnerError

Make = Callable[..., dict[str, Any]]

STAND_IN = r"""#!{python}
import json, os, pathlib, subprocess, sys
words = sys.argv[1:]
home = pathlib.Path({home!r})
with (home / "calls").open("a") as file:
    file.write(json.dumps(words) + "\n")
if words[0] == "version":
    print("99.0")
elif words[0] == "inspect":
    if "{{{{.State.OOMKilled}}}}" in words:
        print("true" if (home / "oom").exists() else "false")
elif words[0] == "run":
    image = next(index for index, word in enumerate(words) if word.startswith("gcr.io/"))
    entry = [words[index + 1] for index, word in enumerate(words) if word == "--entrypoint"]
    env = dict(line.split("=", 1) for line in pathlib.Path(words[words.index("--env-file") + 1]).read_text().splitlines())
    if "missing" in words[image]:
        print("docker: no such image", file=sys.stderr)
        sys.exit(125)
    os.execvpe(entry[0], [*entry, *words[image + 1:]], {{**env, "PATH": os.environ["PATH"]}})
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker command that runs the container's command on this machine, and writes down how it was called."""
    command = tmp_path / "docker"
    command.write_text(STAND_IN.format(python=sys.executable, home=str(tmp_path)))
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def calls(docker: Path, word: str) -> list[list[str]]:
    lines = [json.loads(line) for line in (docker / "calls").read_text().splitlines()]
    return [line for line in lines if line[0] == word]


def test_a_container_is_run_with_the_documented_environment(
    docker: Path, fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(runner="docker", storage_host="127.0.0.1:9023")
    code = "import os; print(os.environ['RANK'], os.environ['X'], os.environ['STORAGE_EMULATOR_HOST'])"
    name = cloud.create(make_job(make_pool(["python3", "-c", code], X="secret value")))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED", cloud.lines(name)
    assert cloud.lines(name, "workerpool0-0") == ["0 secret value http://127.0.0.1:9023"]
    (run,) = calls(docker, "run")
    assert run[run.index("--network") + 1] == "host"
    assert int(run[run.index("--memory") + 1]) > 10**9
    assert not [word for word in run if "secret value" in word], "values would be seen in the process list"
    assert run[run.index("gcr.io/p/image") + 1 :] == ["-c", code]


def test_an_image_that_is_not_there_is_a_start_error(
    docker: Path, fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(runner="docker")
    made = make_pool(["true"])
    made["container_spec"]["image_uri"] = "gcr.io/p/missing"
    found = cloud.wait(cloud.create(make_job(made)))
    assert "Termination reason: StartError." in found.error.message
    assert "no such image" in found.error.message


def test_a_container_out_of_memory_gets_the_low_memory_error(
    docker: Path, fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    (docker / "oom").touch()
    cloud = fast_cloud(runner="docker")
    found = cloud.wait(cloud.create(make_job(make_pool(["false"]))))
    assert (found.error.code, found.error.message[:22]) == (8, "Replicas low on memory")


def test_containers_that_do_not_stop_are_killed_and_removed(
    docker: Path, fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(runner="docker")
    name = cloud.create(
        make_job(make_pool(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]))
    )
    cloud.wait(name, lambda found: "up" in cloud.lines(name))
    cloud.client.cancel_custom_job(name=name)
    assert cloud.wait(name).state.name == "JOB_STATE_CANCELLED"
    (run,) = calls(docker, "run")
    container = run[run.index("--name") + 1]
    assert calls(docker, "kill")[0] == ["kill", container]
    assert ["rm", "--force", container] in calls(docker, "rm")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "there is no docker command"),
        ("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n", "Cannot connect"),
    ],
)
def test_without_an_engine_the_start_is_refused(
    script: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        command = tmp_path / "docker"
        command.write_text(script)
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunnerError, match=said) as refused:
        Emulator(runner="docker").start()
    assert "--runner process" in str(refused.value)
