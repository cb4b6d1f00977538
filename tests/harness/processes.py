"""Programs that the harness starts, each in a session of its own, so that nothing of them outlives it.

In: a command, an environment and a log file. Out: a running component that can be ended in an orderly way,
killed or suspended. Not here: what the programs are, or when they are ready (``airflow_stack``,
``services``).

A session and not a process group holds a component together: Airflow's supervisors move every task into a
group of its own, but nobody leaves the session.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from tests.harness.watchdog import watchdog


class ComponentDied(RuntimeError):
    """A component ended although nobody asked it to; the text holds the last lines of its log."""


class Component:
    """One program with its log file.

    :param name: what people read, also the name of the log file.
    :param command: program and arguments.
    :param env: the whole environment; nothing is inherited.
    :param log: the file that takes stdout and stderr (appended to, so that a restart keeps what was there).
    :param cwd: working directory.
    :param user: run as this user (needs root), ``None`` for the current one.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path,
        user: str | None = None,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.env = dict(env)
        self.log = log
        self.cwd = cwd
        self.user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the program, which is also the id of its session."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the program itself still runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Component:
        """Start the program; an ended one may be started again."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                env=self.env,
                cwd=self.cwd,
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        watchdog.watch(self._process.pid)
        return self

    def check(self) -> None:
        """Raise :class:`ComponentDied` when the program has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            code = self._process.returncode
            raise ComponentDied(f"{self.name} ended with {code}; {self.log} says:\n{self.tail()}")

    def members(self) -> list[int]:
        """Return the ids of all processes of this component's session, the program included."""
        return [] if self._process is None else session_members(self._process.pid)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program alone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every process of the session."""
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def suspend(self) -> None:
        """Freeze the whole component, as a machine that hangs would."""
        self.signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended component go on."""
        self.signal_all(signal.SIGCONT)

    def kill(self) -> None:
        """Take the whole component away at once, as a machine that dies would."""
        deadline = time.monotonic() + 10
        while (members := self.members()) and time.monotonic() < deadline:
            self.signal_all(signal.SIGKILL)
            if members == [self.pid]:
                break
            time.sleep(0.05)
        self._reap()

    def stop(self, grace: float = 10.0) -> None:
        """End the component: an orderly SIGTERM, then force after ``grace`` seconds."""
        stop_all([self], grace)

    def tail(self, lines: int = 25) -> str:
        """Return the last lines of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(timeout=10)
            watchdog.forget(self._process.pid)
            # Ended on purpose: ``check`` has nothing to report.
            self._process = None


def stop_all(
    components: Iterable[Component], grace: float = 10.0, number: signal.Signals = signal.SIGTERM
) -> None:
    """End several components together, so that their grace periods run side by side.

    :param components: those to end; ended ones are only cleaned up after.
    :param grace: seconds they get in all before they are killed.
    :param number: the signal that asks for an orderly end.
    """
    started = [component for component in components if component._process is not None]
    for component in started:
        component.resume()
        component.send_signal(number)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(component.alive for component in started):
        time.sleep(0.05)
    for component in started:
        component.kill()


def session_members(session: int) -> list[int]:
    """Return the ids of the processes in a session, without those that have ended and wait to be reaped."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                members.append(pid)
    return members


def listening_beyond_loopback(pids: Iterable[int]) -> list[str]:
    """Return ``"pid address:port"`` for every listening socket of these processes that others could reach."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            for connection in psutil.Process(pid).net_connections(kind="inet"):
                if connection.status != psutil.CONN_LISTEN:
                    continue
                if not ipaddress.ip_address(connection.laddr.ip).is_loopback:
                    found.append(f"{pid} {connection.laddr.ip}:{connection.laddr.port}")
    return found


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that nobody uses now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
