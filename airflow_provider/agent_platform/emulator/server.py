"""Puts the emulator together and starts it: store, clock, runner, engine, service, both wires.

In: a :class:`Config`. Out: a :class:`Server` that listens. This module knows the parts; none of them knows it.

``create_app`` makes the REST app: the control API, then what ``wire_rest`` and ``log_api`` bring.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from airflow_provider.agent_platform.emulator import control, survivors, wire_grpc, wire_rest
from airflow_provider.agent_platform.emulator.clock import BaseClock, Clock
from airflow_provider.agent_platform.emulator.config import Config, ConfigError
from airflow_provider.agent_platform.emulator.engine import Engine
from airflow_provider.agent_platform.emulator.faults import FaultError
from airflow_provider.agent_platform.emulator.guard import Guard
from airflow_provider.agent_platform.emulator.log_api import LogApi
from airflow_provider.agent_platform.emulator.runners import make_runner
from airflow_provider.agent_platform.emulator.service import Service
from airflow_provider.agent_platform.emulator.store import open_store
from airflow_provider.agent_platform.emulator.tuning import TuningJobs
from airflow_provider.agent_platform.emulator.wire_logging_grpc import logging_handler

WILDCARDS = {"0.0.0.0": "", "::": "", "": ""}  # noqa: S104 - compared, not listened on
START_SECONDS = 30


def create_app(service: Service, host: str = "127.0.0.1") -> FastAPI:
    """The REST app.

    :param host: the name it listens on: allowed in ``Host`` and ``Origin`` besides loopback names.
    """
    app = FastAPI(title="Agent Platform emulator", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(control.router(service))
    wire_rest.mount(app, service, LogApi(service.engine.logs))
    app.add_middleware(Guard, hosts=frozenset({host} - set(WILDCARDS) | _own_names(host)))
    return app


def _own_names(host: str) -> set[str]:
    """Under which names a machine is reached when the emulator listens on all of its addresses."""
    if host not in WILDCARDS:
        return set()
    name = socket.gethostname()
    try:
        return {name, *socket.gethostbyname_ex(name)[2]}
    except OSError:
        return {name}


class Server:
    """A running emulator.

    :param clock: for tests; default the machine's with ``config.speed``.
    """

    def __init__(self, config: Config, clock: BaseClock | None = None) -> None:
        self.config = config
        self.clock = clock or Clock(config.speed)
        self._http: uvicorn.Server | None = None
        self._http_thread: threading.Thread | None = None
        self._grpc: Any = None
        self.port = self.rest_port = 0

    def start(self) -> Server:
        """Listen.

        :raises ConfigError: a setting cannot be used.
        :raises StoreError: the database cannot be used.
        :raises RunnerError: the runner cannot be used on this machine.
        :raises PortTaken: a port is taken.
        """
        rest = self._bind_rest()
        try:
            self.store = open_store(self.config.db)
        except BaseException:
            rest.close()
            raise
        try:
            token = secrets.token_hex(8)
            survivors.end(self.store.document("runner"))
            self.runner = make_runner(self.config, self.clock, token)
            self.store.set_document("runner", {"token": token, "root": str(getattr(self.runner, "root", ""))})
            self.engine = Engine(self.config, self.clock, self.store, self.runner)
            self.service = Service(self.engine)
            self.tuning = TuningJobs(self.service)
            self.service.add_collection(self.tuning)
        except BaseException:
            rest.close()
            self.store.close()
            raise
        try:
            self._load_faults()
            handler = logging_handler(LogApi(self.engine.logs))
            more = [handler] if handler is not None else []
            self._grpc, self.port = wire_grpc.serve(self.service, self.config.host, self.config.port, more)
        except BaseException:
            rest.close()
            self.engine.close()
            self.store.close()
            raise
        self.rest_port = rest.getsockname()[1]
        self._serve_rest(rest)
        self.clock.start()
        with self.engine.lock:  # a trial must not end before its tuning job listens
            self.engine.recover()
            self.tuning.recover()
        return self

    def _bind_rest(self) -> socket.socket:
        host, port = self.config.host, self.config.rest_port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Lets a restart follow at once; a port that somebody listens on is refused all the same.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(1024)
        except OSError as error:
            listener.close()
            raise wire_grpc.PortTaken(
                f"--rest-port {port}: cannot listen on {host}:{port} ({error.strerror or error}); choose another port"
            ) from error
        return listener

    def _load_faults(self) -> None:
        if self.config.faults is None:
            return
        import yaml

        path = Path(self.config.faults)
        try:
            found = yaml.safe_load(path.read_text())
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise ConfigError(f"--faults {path}: {error}") from error
        if not isinstance(found, list):
            raise ConfigError(f"--faults {path}: expected a list of faults, such as `- fault: stockout`")
        for number, body in enumerate(found, 1):
            try:
                self.engine.faults.add(body)
            except FaultError as error:
                raise ConfigError(f"--faults {path}: fault {number}: {error}") from error

    def _serve_rest(self, listener: socket.socket) -> None:
        app = create_app(self.service, self.config.host)
        settings = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2
        )
        self._http = uvicorn.Server(settings)
        started = threading.Event()
        original = self._http.startup

        async def startup(sockets: list[socket.socket] | None = None) -> None:
            await original(sockets)
            started.set()

        self._http.startup = startup  # type: ignore[method-assign]  # uvicorn has no other word for "ready"
        self._http_thread = threading.Thread(
            target=self._http.run, kwargs={"sockets": [listener]}, name="emulator-rest", daemon=True
        )
        self._http_thread.start()
        if not started.wait(START_SECONDS):
            raise ConfigError("The REST server did not start")

    def stop(self) -> None:
        """Answer nobody any more, end every worker, close every file."""
        self.service.calls.reset()
        if self._http is not None and self._http_thread is not None:
            self._http.should_exit = True
        self._grpc.stop()
        self.engine.close()
        if self._http_thread is not None:
            self._http_thread.join()
        self.clock.stop()
        self.tuning.close()
        self.store.close()

    def warn_if_open(self) -> None:
        """Say on stderr that others can reach it, where they can."""
        host = self.config.host
        if host not in ("localhost", "::1") and not host.startswith("127."):
            print(
                f"WARNING: listening on {host}: whoever reaches this address can run programs on this machine. "
                "Use --host 127.0.0.1 unless the network is your own.",
                file=sys.stderr,
                flush=True,
            )
