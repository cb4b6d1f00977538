"""What the engine and a runner say to each other.

In: a :class:`Launch`. Out: calls of a :class:`Listener`, from any thread. A runner knows no job, no state and
no retry; the engine knows no process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider.agent_platform.emulator.texts import Exit


class RunnerError(Exception):
    """The runner cannot be used on this machine; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start of one replica.

    :param command: the program and its arguments, as they are: no shell reads them.
    :param entrypoint: the command's first word replaces the image's entry point.
    :param image: the container's image; only the docker runner uses it.
    :param environment: all of the worker's environment but what the runner adds from its own machine.
    :param memory_limit: bytes that all of its processes may use together; 0 for no limit.
    :param packages: package URIs to install first (``python_package_spec``).
    :param keep_directory: it restarts on the same machine and finds its files again.
    :param progress_key: jobs of the same output directory continue each other's simulated checkpoints.
    """

    job_id: str
    replica: str
    run: int
    attempt: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    entrypoint: bool = False
    image: str = ""
    memory_limit: int = 0
    packages: tuple[str, ...] = ()
    keep_directory: bool = False
    progress_key: str = ""
    user_environment: Mapping[str, str] = field(default_factory=dict)


class Listener(Protocol):
    """Whom a runner tells what happens to a worker."""

    def worker_up(self, launch: Launch) -> None:
        """Its code has begun to run."""

    def worker_exited(self, launch: Launch, exit: Exit) -> None:
        """It is gone, and everything it had started. Called exactly once for each launch."""

    def worker_line(self, launch: Launch, stream: str, line: str) -> None:
        """It wrote a line to ``stdout`` or ``stderr``."""

    def worker_killed(self, launch: Launch, signal: str) -> None:
        """A signal was sent to it."""


class Handle(Protocol):
    """A worker that was started."""

    def stop(self, grace: float) -> None:
        """SIGTERM, and after ``grace`` real seconds SIGKILL to all it started; SIGKILL at once for 0."""


class Runner(Protocol):
    """Starts workers."""

    wants_addresses: bool
    """Whether its workers need ports and the environment that names them."""

    def start(self, launch: Launch, listener: Listener) -> Handle:
        """Start one; answers at once, never calls the listener before it has answered."""

    def forget(self, job_id: str) -> None:
        """The job has ended: remove its files."""

    def drain(self) -> None:
        """Wait until every worker that was stopped is gone."""

    def close(self) -> None:
        """Kill every worker and wait until it is gone."""
