"""The emulator as a context manager, in the caller's own process.

In: settings by keyword. Out: addresses for clients, and the control API. ``cli`` is the same as a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from airflow_provider.agent_platform.emulator.client import Control
from airflow_provider.agent_platform.emulator.clock import BaseClock
from airflow_provider.agent_platform.emulator.config import Config
from airflow_provider.agent_platform.emulator.server import Server


class Emulator:
    """The training service on this machine.

    .. code-block:: python

        with Emulator(speed=60) as emulator:
            os.environ["AGENT_PLATFORM_EMULATOR_HOST"] = emulator.grpc_target

    It listens on free ports unless told otherwise, serves on threads of its own, and ends every worker, thread
    and file when the block is left.

    :param port: gRPC port; 0, the default here, takes a free one.
    :param rest_port: REST and control port; 0 likewise.
    :param switches: values of ``config.SWITCHES`` by name.
    :param clock: for tests, e.g. a ``ManualClock``.
    :param settings: any other field of :class:`Config`, e.g. ``speed``, ``runner``, ``db``, ``storage_host``.
    :raises ConfigError: a setting cannot be used.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        rest_port: int = 0,
        switches: Mapping[str, Any] | None = None,
        clock: BaseClock | None = None,
        **settings: Any,
    ) -> None:
        self.config = Config(port=port, rest_port=rest_port, switches=switches or {}, **settings)
        self._clock = clock
        self._server: Server | None = None

    def start(self) -> Emulator:
        """Listen; the addresses are known from here on."""
        self._server = Server(self.config, self._clock).start()
        self._server.warn_if_open()
        return self

    def stop(self) -> None:
        """End everything; a second call does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    @property
    def server(self) -> Server:
        """The running server."""
        if self._server is None:
            raise RuntimeError("The emulator is not running: use it as `with Emulator() as emulator:`")
        return self._server

    @property
    def grpc_target(self) -> str:
        """``127.0.0.1:<port>``, for ``AGENT_PLATFORM_EMULATOR_HOST`` and gRPC channels."""
        return f"{self._host}:{self.server.port}"

    @property
    def rest_url(self) -> str:
        """``http://127.0.0.1:<port>``, for REST clients and the control API."""
        return f"http://{self._host}:{self.server.rest_port}"

    @property
    def _host(self) -> str:
        return f"[{self.config.host}]" if ":" in self.config.host else self.config.host

    @property
    def control(self) -> Control:
        """The control API."""
        return Control(self.rest_url)

    def __enter__(self) -> Emulator:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
