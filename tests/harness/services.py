"""The two emulators that stand in for Google: the training service and Cloud Storage, as processes of their
own.

In: a directory. Out: addresses, in the variables by which Google's clients find them. Not here: Airflow
(``airflow_stack``) and what is asked of the emulators (``emulator_api``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import httpx

from tests.harness.emulator_api import EmulatorApi
from tests.harness.environment import LOOPBACK, base_environment
from tests.harness.processes import Component, free_ports, stop_all
from tests.harness.waiting import wait_until


class Services:
    """Both emulators, from ``start`` to ``close``.

    :param root: takes the stored objects, the emulator's database and the logs.
    :param bucket: a bucket that is there from the start.
    :param speed: how many times faster than the real service the emulator's own delays pass.
    :param runner: what a worker is: ``process``, or ``simulated`` for hundreds of jobs at once.
    """

    def __init__(self, root: Path, *, bucket: str, speed: float = 60, runner: str = "process") -> None:
        self.bucket = bucket
        grpc_port, rest_port, storage_port = free_ports(3)
        self.grpc_target = f"{LOOPBACK}:{grpc_port}"
        self.rest_url = f"http://{LOOPBACK}:{rest_port}"
        self.storage_url = f"http://{LOOPBACK}:{storage_port}"
        self.api = EmulatorApi(self.rest_url)
        root.mkdir(parents=True, exist_ok=True)
        env = base_environment(root)
        self.storage = Component(
            "storage-emulator",
            [
                *(sys.executable, "-m", "gcp_storage_emulator", "--data-dir", str(root / "storage")),
                *("start", "--host", LOOPBACK, "--port", str(storage_port), "--default-bucket", bucket),
            ],
            env=env,
            log=root / "storage-emulator.log",
            cwd=root,
        )
        self.emulator = Component(
            "agent-platform-emulator",
            [
                *(sys.executable, "-m", "airflow_provider.agent_platform.emulator.cli"),
                *("--host", LOOPBACK, "--port", str(grpc_port), "--rest-port", str(rest_port)),
                *("--db", str(root / "emulator.sqlite"), "--speed", str(speed)),
                *("--storage-host", self.storage_url, "--runner", runner),
            ],
            env=env,
            log=root / "agent-platform-emulator.log",
            cwd=root,
        )

    @property
    def components(self) -> tuple[Component, ...]:
        """Both processes."""
        return (self.storage, self.emulator)

    @property
    def client_env(self) -> dict[str, str]:
        """What a program needs in its environment to talk to the emulators instead of to Google."""
        return {
            "AGENT_PLATFORM_EMULATOR_HOST": self.grpc_target,
            "STORAGE_EMULATOR_HOST": self.storage_url,
        }

    def start(self) -> None:
        """Start both, without waiting for them."""
        for component in self.components:
            component.start()

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait until both answer."""
        wait_until(self._ready, "the emulators to answer", seconds=seconds, every=0.1, watch=self.check)

    def check(self) -> None:
        """Raise when one of the two has died by itself."""
        for component in self.components:
            component.check()

    def close(self) -> None:
        """Stop both; the training service's emulator first, its workers still write to the storage."""
        stop_all([self.emulator], grace=10)
        stop_all([self.storage], grace=5)
        self.api.close()

    def _ready(self) -> bool:
        try:
            bucket = httpx.get(f"{self.storage_url}/storage/v1/b/{self.bucket}", timeout=5, trust_env=False)
            return bucket.is_success and self.api.is_ready()
        except httpx.TransportError:
            return False
