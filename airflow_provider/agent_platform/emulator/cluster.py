"""Where the replicas of a job find each other: loopback ports that can be bound.

In: the names of a job's replicas. Out: an address for each, and one for ``MASTER_PORT``, kept until the job
ends. Ports are taken below the range from which Linux hands out ports of its own, so that a client's
connection does not take one between two runs.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
FIRST_PORT, LAST_PORT = 15_000, 32_000


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Addresses of one job."""

    ports: Mapping[str, int]
    master_port: int

    def address(self, replica: str) -> str:
        """``127.0.0.1:<port>`` of a replica."""
        return f"{LOOPBACK}:{self.ports[replica]}"

    def pool(self, number: int) -> list[str]:
        """Addresses of a worker pool, by index."""
        prefix = f"workerpool{number}-"
        return [self.address(replica) for replica in self.ports if replica.startswith(prefix)]


class Ports:
    """Ports in use by live jobs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: set[int] = set()
        # Several emulators on one machine begin at different places.
        self._next = random.randrange(FIRST_PORT, LAST_PORT)  # noqa: S311 - no secret

    def take(self, replicas: Sequence[str]) -> Cluster:
        """Addresses for a job."""
        with self._lock:
            ports = {replica: self._free() for replica in replicas}
            return Cluster(ports=ports, master_port=self._free())

    def give_back(self, cluster: Cluster) -> None:
        """The job has ended."""
        with self._lock:
            self._used -= {*cluster.ports.values(), cluster.master_port}

    def _free(self) -> int:
        for _ in range(LAST_PORT - FIRST_PORT):
            port = self._next
            self._next = FIRST_PORT + (port + 1 - FIRST_PORT) % (LAST_PORT - FIRST_PORT)
            if port not in self._used and _bindable(port):
                self._used.add(port)
                return port
        raise OSError(f"No free port between {FIRST_PORT} and {LAST_PORT} for a worker")


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
