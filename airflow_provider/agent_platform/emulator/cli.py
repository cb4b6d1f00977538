"""``agent-platform-emulator``: the emulator as a program.

In: flags, or their environment twins. Out: one line on stdout when it is ready; an error in one line on stderr,
and exit code 2, when it cannot start. It ends on SIGTERM and SIGINT, and ends its workers.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider.agent_platform.emulator.config import (
    ENVIRONMENT_PREFIX,
    RUNNERS,
    SWITCHES,
    Config,
    ConfigError,
    environment_twin,
    read_switches,
)

DESCRIPTION = """\
An emulator of Google's managed training service (Vertex AI / Agent Platform custom training).

It speaks the real gRPC and REST API on this machine and runs the workers of a job as local processes. Point a
client at it with AGENT_PLATFORM_EMULATOR_HOST=127.0.0.1:8085, or with an api_endpoint. Nothing is sent to Google."""

FLAGS: Mapping[str, tuple[type, str]] = {
    "host": (str, "address to listen on; beyond loopback, anybody who reaches it can run programs here"),
    "port": (int, "gRPC port; 0 takes a free one"),
    "rest_port": (int, "port of REST and of the control API /emulator/v1; 0 takes a free one"),
    "db": (str, "SQLite file that keeps the jobs over a restart, or :memory:"),
    "runner": (str, "process: real local processes; docker: containers; simulated: none, for load tests"),
    "speed": (float, "divides every delay of the platform: 60 makes a minute a second"),
    "memory_scale": (
        float,
        "multiplies the memory limits of the machine types; 0.01 makes small tests possible",
    ),
    "faults": (str, "YAML file with a list of faults to set at start"),
    "storage_host": (str, "URL of a Cloud Storage emulator; workers see it as STORAGE_EMULATOR_HOST"),
}


def _switch_help() -> str:
    lines = ["switches (--set NAME=VALUE), with their defaults and where the fact is from:",
             "(D documented, C client library, R seen in public logs, I inferred, N not known)", ""]  # fmt: skip
    for name, switch in SWITCHES.items():
        allowed = f" [{'|'.join(str(one) for one in switch.allowed)}]" if switch.allowed else ""
        default = str(switch.default).lower() if isinstance(switch.default, bool) else switch.default
        lines.append(f"  {name}={default}{allowed}\n      {switch.help} ({switch.source})")
    lines += ["", f"Every flag can be set in the environment: --rest-port as {ENVIRONMENT_PREFIX}REST_PORT, --set as",
              f"{ENVIRONMENT_PREFIX}SET with names and values separated by commas. A flag wins over its twin."]  # fmt: skip
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="agent-platform-emulator",
        description=DESCRIPTION,
        epilog=_switch_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, (kind, text) in FLAGS.items():
        default = Config.__dataclass_fields__[name].default
        shown = f"{text} (default {default})" if default is not None else text
        choices = RUNNERS if name == "runner" else None
        made.add_argument(f"--{name.replace('_', '-')}", type=kind, choices=choices, help=shown)
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a switch, see below; can be repeated",
    )
    return made


def read_config(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Config:
    """The settings: flags, then the environment, then the defaults.

    :raises ConfigError: a value of the environment or of a switch cannot be used.
    """
    arguments = parser().parse_args(argv)
    environ = _client_address_apart(environ)
    settings: dict[str, Any] = {}
    for name, (kind, _) in FLAGS.items():
        value = getattr(arguments, name)
        twin = environment_twin(name, environ)
        if value is None and twin:
            try:
                value = kind(twin)
            except ValueError:
                raise ConfigError(
                    f"{ENVIRONMENT_PREFIX}{name.upper()}={twin}: expected {'a whole number' if kind is int else 'a number'}"
                ) from None
        if value is not None:
            settings[name] = value
    twins = [text for text in (environment_twin("set", environ) or "").split(",") if text]
    return Config(switches={**read_switches(twins), **read_switches(arguments.set)}, **settings)


def _client_address_apart(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment, with a ``host:port`` in AGENT_PLATFORM_EMULATOR_HOST read as the twins of two flags.

    Clients read the whole gRPC address from the same variable: a shell that is set up for them must be able to
    start the emulator that they look for.
    """
    host, colon, port = (environment_twin("host", environ) or "").rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.startswith("[")):
        return environ
    apart = {f"{ENVIRONMENT_PREFIX}PORT": port, **environ}
    return {**apart, f"{ENVIRONMENT_PREFIX}HOST": host.strip("[]")}


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal; the exit code."""
    try:
        config = read_config(sys.argv[1:] if argv is None else argv)
    except ConfigError as error:
        print(f"agent-platform-emulator: {error}", file=sys.stderr)
        return 2
    # Only now: --help must not wait for Google's client library.
    from airflow_provider.agent_platform.emulator.runners.base import RunnerError
    from airflow_provider.agent_platform.emulator.server import Server
    from airflow_provider.agent_platform.emulator.store import StoreError
    from airflow_provider.agent_platform.emulator.wire_grpc import PortTaken

    server = Server(config)
    try:
        server.start()
    except (ConfigError, StoreError, RunnerError, PortTaken) as error:
        print(f"agent-platform-emulator: {error}", file=sys.stderr)
        return 2
    ended = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, frame: ended.set())
    server.warn_if_open()
    # Full collections walk every job there is, and hold up calls for that long; jobs are freed without them.
    gc.freeze()
    gc.set_threshold(10_000, 100, 1_000)
    host = f"[{config.host}]" if ":" in config.host else config.host
    print(
        f"Agent Platform emulator ready: gRPC {host}:{server.port}, REST http://{host}:{server.rest_port}",
        flush=True,
    )
    while not ended.wait(3600):
        pass
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
