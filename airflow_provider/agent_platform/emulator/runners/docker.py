"""Workers as containers, through the docker command line.

In: launches. Out: the same reports as of a process. A ``docker run`` in the foreground stands for its
container: the process runner starts it, reads its output and hears its exit. The container shares the
machine's network, so that loopback addresses of the cluster and of a storage emulator work inside it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_provider.agent_platform.emulator.clock import BaseClock
from airflow_provider.agent_platform.emulator.runners.base import Launch, Listener, RunnerError
from airflow_provider.agent_platform.emulator.runners.process import MARKER, ProcessRunner, Worker
from airflow_provider.agent_platform.emulator.texts import Exit

CHECK_SECONDS = 20
DOCKER_FAILED = 125
"""Exit code of ``docker run`` when the container could not be made, e.g. no such image."""
NOT_STARTED = (125, 126, 127)
CLIENT_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
LABEL = "agent-platform-emulator"


class DockerRunner(ProcessRunner):
    """Starts workers as containers.

    :raises RunnerError: there is no docker command, or no engine answers it.
    """

    def __init__(self, clock: BaseClock, *, storage_host: str | None = None, token: str = "") -> None:
        _check_engine()
        super().__init__(clock, storage_host=storage_host, token=token)

    def start(self, launch: Launch, listener: Listener) -> Worker:
        """Start a container."""
        worker = Container(self, launch, listener)
        self._begin(worker)
        return worker

    def environment(self, launch: Launch) -> dict[str, str]:
        """What the docker command sees; the container gets its own by ``--env``."""
        names = ("PATH", "HOME", *CLIENT_VARIABLES)
        return {MARKER: self._token, **{name: os.environ[name] for name in names if name in os.environ}}

    def command(self, launch: Launch, environment: Mapping[str, str], directory: Path) -> list[str]:
        """``docker run`` with the image's entry point, or the container's own command.

        The values of variables are not among the words, where every user of the machine could read them.
        """
        path = directory / "environment"
        variables = dict(launch.environment)
        if self._storage_host:
            variables["STORAGE_EMULATOR_HOST"] = self._storage_host
        words = ["docker", "run", "--init", "--network", "host", "--name", self.container(launch)]
        words += ["--label", f"{LABEL}={self._token}"]
        if launch.memory_limit:
            words += ["--memory", str(launch.memory_limit), "--memory-swap", str(launch.memory_limit)]
        plain = {name: value for name, value in variables.items() if "\n" not in value}
        path.write_text("".join(f"{name}={value}\n" for name, value in plain.items()))
        path.chmod(0o600)
        words += ["--env-file", str(path)]
        for name in variables.keys() - plain.keys():
            words += ["--env", f"{name}={variables[name]}"]
        program = list(launch.command)
        if launch.packages:
            program = _with_packages(launch)
        elif launch.entrypoint:
            words += ["--entrypoint", program.pop(0)]
        return [*words, launch.image, *program]

    def container(self, launch: Launch) -> str:
        """The container's name: unique, and it says whose it is."""
        return f"emulator-{self._token}-{launch.job_id}-{launch.replica}-{launch.run}-{launch.attempt}"

    def docker(self, *words: str) -> str:
        """Run a docker command; what it prints, or nothing when it fails."""
        try:
            done = subprocess.run(  # noqa: S603 - words of our own
                ["docker", *words],  # noqa: S607 - the user's PATH says which docker
                capture_output=True,
                text=True,
                check=False,
                timeout=CHECK_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def beside(self, work: Callable[[], None]) -> None:
        """Do something on another thread."""
        self._starters.submit(work)

    def close(self) -> None:
        """Kill every worker, and remove every container that has our mark."""
        super().close()
        left = self.docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}={self._token}").split()
        if left:
            self.docker("rm", "--force", *left)


class Container(Worker):
    """One container. The docker client passes SIGTERM on to it, but dies of SIGKILL alone."""

    _runner: DockerRunner

    def stop(self, grace: float) -> None:
        """SIGTERM through the client; SIGKILL to the container itself."""
        if grace:
            super().stop(grace)
        else:
            self._runner.beside(self._kill)

    def _kill(self) -> None:
        self._runner.docker("kill", self._runner.container(self.launch))
        super().stop(0)

    def _finish(self) -> None:
        # Asking docker takes its time, and the thread that reads all pipes must not wait for it.
        self._runner.beside(super()._finish)

    def _exited(self, code: int) -> Exit:
        name = self._runner.container(self.launch)
        state = self._runner.docker("inspect", "--format", "{{.State.OOMKilled}}", name)
        self._runner.docker("rm", "--force", name)
        if state == "true":
            return Exit(replica=self.launch.replica, code=137, reason="OOMKilled")
        if code in NOT_STARTED and (code == DOCKER_FAILED or not state):
            return self._failed_to_start("\n".join(self._tail))
        return super()._exited(code)


def _with_packages(launch: Launch) -> list[str]:
    return [
        "sh", "-c", 'n=$1; shift; for i in $(seq "$n"); do python3 -m pip install --quiet "$1" || exit 1; shift; done; exec "$@"',
        "sh", str(len(launch.packages)), *launch.packages, *launch.command,
    ]  # fmt: skip


def _check_engine() -> None:
    advice = "start Docker, or use --runner process"
    try:
        done = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],  # noqa: S607 - the user's PATH says which docker
            capture_output=True,
            text=True,
            check=False,
            timeout=CHECK_SECONDS,
        )
    except OSError as error:
        raise RunnerError(
            f"--runner docker: there is no docker command ({error.strerror}); {advice}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RunnerError(f"--runner docker: `docker version` does not answer; {advice}") from error
    if done.returncode or not done.stdout.strip():
        said = (done.stderr.strip() or "no server version").splitlines()[-1]
        raise RunnerError(f"--runner docker: no engine answers ({said}); {advice}")
