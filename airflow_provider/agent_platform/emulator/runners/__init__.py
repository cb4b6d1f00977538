"""What runs a worker: a process, a container, or nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.clock import BaseClock
    from airflow_provider.agent_platform.emulator.config import Config
    from airflow_provider.agent_platform.emulator.runners.base import Runner


def make_runner(config: Config, clock: BaseClock, token: str) -> Runner:
    """The runner of ``--runner``.

    :param token: marks the workers of this emulator.
    :raises RunnerError: it cannot be used on this machine.
    """
    if config.runner == "simulated":
        from airflow_provider.agent_platform.emulator.runners.simulated import SimulatedRunner

        return SimulatedRunner(clock)
    if config.runner == "docker":
        from airflow_provider.agent_platform.emulator.runners.docker import DockerRunner

        return DockerRunner(clock, storage_host=config.storage_host, token=token)
    from airflow_provider.agent_platform.emulator.runners.process import ProcessRunner

    return ProcessRunner(clock, storage_host=config.storage_host, token=token)
