"""What can be set: the flags of the command line, and one switch for each fact that nobody documents.

In: keyword arguments or ``NAME=VALUE`` texts. Out: a frozen :class:`Config`. Nothing here acts on a setting.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ENVIRONMENT_PREFIX = "AGENT_PLATFORM_EMULATOR_"
RUNNERS = ("process", "docker", "simulated")


class ConfigError(ValueError):
    """A setting that cannot be used; the text names it, its value and what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One undocumented or inferred fact, or one of the service's figures.

    :param allowed: the texts that may be chosen; empty: whatever ``type(default)`` reads.
    :param source: D documented, C client library, R seen in public logs, I inferred, N not known.
    """

    default: Any
    help: str
    source: str = "I"
    allowed: tuple[Any, ...] = ()

    def read(self, name: str, value: Any) -> Any:
        """Turn a text (or a value of the right type) into the switch's value.

        :raises ConfigError: the value is not one of the allowed ones.
        """
        kind = type(self.default)
        try:
            read = _boolean(value) if kind is bool else kind(value)
        except (TypeError, ValueError):
            raise ConfigError(f"--set {name}={value}: expected {_article(kind)}; {self.help}") from None
        if self.allowed and read not in self.allowed:
            choices = ", ".join(str(choice) for choice in self.allowed)
            raise ConfigError(f"--set {name}={value}: allowed are {choices}; {self.help}")
        if kind in (int, float) and not 0 <= read < float("inf"):
            raise ConfigError(f"--set {name}={value}: must be finite and not be negative; {self.help}")
        return read


def _article(kind: type) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "a text")


def _boolean(value: Any) -> bool:
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    if isinstance(value, bool):
        return value
    return words[str(value).strip().lower()] if str(value).strip().lower() in words else _refuse()


def _refuse() -> bool:
    raise ValueError


SWITCHES: Mapping[str, Switch] = {
    # Durations, in seconds of the platform: all are divided by --speed.
    "provisioning_seconds": Switch(default=1.0, source="R", help="time to find machines (3-4 min are seen)"),
    "error_delay_seconds": Switch(default=60.0, source="D", help="how long after the end `error` appears"),
    "cancel_error_delay_seconds": Switch(default=0.0, help="the same for a cancelled job"),
    "shutdown_delay_seconds": Switch(
        default=1.0, help="from a permanent exit to the job's shutdown; the replica restarts meanwhile"
    ),
    "stop_grace_seconds": Switch(default=30.0, help="SIGTERM to SIGKILL; never below 1 s of real time"),
    "log_delay_seconds": Switch(
        default=0.0, source="R", help="how late log entries appear (minutes are seen)"
    ),
    "default_timeout_seconds": Switch(default=604_800.0, source="D", help="scheduling.timeout when not set"),
    "default_max_wait_seconds": Switch(default=86_400.0, source="C", help="max_wait_duration when not set"),
    # How often the platform tries again.
    "worker_restarts": Switch(default=5, source="D", help="restarts of one worker within a run"),
    "worker_job_retries": Switch(default=3, source="D", help="whole-job retries when those are used up"),
    "crash_retries": Switch(default=3, source="D", help="whole-job retries after exit 6, 134, 11 or 139"),
    "stockout_retries": Switch(default=3, source="D", help="whole-job retries after a stockout"),
    "spot_restarts": Switch(default=6, source="D", help="whole-job restarts after a Spot preemption"),
    "internal_retries": Switch(default=2, source="D", help="whole-job retries after an internal error"),
    # What the documents leave open.
    "over_quota": Switch(
        default="queue",
        source="D",
        allowed=("queue", "refuse", "fail_later"),
        help="a create over quota waits in QUEUED, is refused with 429, or fails later with code 8",
    ),
    "exit_is_permanent": Switch(
        default=True, help="an ordinary non-zero exit ends the job; false: it counts as a worker restart"
    ),
    "disable_retries_scope": Switch(
        default="internal",
        source="N",
        allowed=("internal", "all"),
        help="what scheduling.disable_retries switches off once the job has run: internal errors, or every retry",
    ),
    "timeout_state": Switch(
        default="CANCELLED", source="N", allowed=("CANCELLED", "FAILED"), help="end after scheduling.timeout"
    ),
    "max_wait_state": Switch(
        default="FAILED", source="N", allowed=("FAILED", "CANCELLED"), help="end after max_wait_duration"
    ),
    "retry_state": Switch(
        default="PENDING", allowed=("PENDING", "RUNNING"), help="state between two runs of the platform's own"
    ),
    "stockout_code": Switch(default=8, allowed=(8, 14), help="error.code of a stockout"),
    "stockout_advice": Switch(
        default="please",
        source="R",
        allowed=("none", "please", "try"),
        help="the sentence after `Resources are insufficient in region: <r>.`",
    ),
    "exit_error_form": Switch(
        default="full",
        source="R",
        allowed=("full", "logs", "bare"),
        help="after the first sentence: reason, traceback and logs link; the link; or nothing",
    ),
    "low_memory_form": Switch(
        default="pool",
        source="R",
        allowed=("pool", "documented", "legacy"),
        help="`Replicas low on memory: <pool>...`, the documented text, or the legacy one",
    ),
    "node_loss_code": Switch(
        default=13, source="N", allowed=(3, 8, 13, 14), help="error.code when a node is lost too often"
    ),
    "cancel_message": Switch(default="CANCELED", source="N", help="error.message of a cancelled job"),
    "cancel_ended": Switch(
        default="ignore", source="N", allowed=("ignore", "refuse"), help="cancel of a job that has ended"
    ),
    "delete_live": Switch(
        default="refuse", source="N", allowed=("refuse", "cancel"), help="delete of a job that has not ended"
    ),
    "exit_zero_while_cancelling": Switch(
        default="CANCELLED",
        source="C",
        allowed=("CANCELLED", "SUCCEEDED"),
        help="end when the primary exits 0 after a cancel reached it",
    ),
    "infeasible_is_failure": Switch(
        default=False, help="a trial that ends well without a measurement counts for max_failed_trial_count"
    ),
    "max_page_size": Switch(default=100, source="N", help="largest page of a List"),
    "rate_limits": Switch(
        default=False, source="D", help="refuse over 600 calls or 60 creates and deletes a minute"
    ),
}
"""Every switch by its name, for ``--set NAME=VALUE`` and ``Emulator(switches={...})``."""


def _defaults() -> dict[str, Any]:
    return {name: switch.default for name, switch in SWITCHES.items()}


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one emulator.

    :param host: address to listen on; anything but loopback prints a warning.
    :param port: gRPC port, 0 for a free one.
    :param rest_port: REST and control port, 0 for a free one.
    :param db: path of the SQLite file, or ``:memory:``.
    :param runner: ``process``, ``docker`` or ``simulated``.
    :param speed: divides every delay and limit of the emulator's own.
    :param memory_scale: multiplies the memory limits of the machine types.
    :param switches: values of :data:`SWITCHES`; names left out have their default.
    :param faults: YAML file of faults set at start.
    :param storage_host: URL of a Cloud Storage emulator; workers see it as ``STORAGE_EMULATOR_HOST``.
    """

    host: str = "127.0.0.1"
    port: int = 8085
    rest_port: int = 8086
    db: str = ":memory:"
    runner: str = "process"
    speed: float = 1.0
    memory_scale: float = 1.0
    switches: Mapping[str, Any] = field(default_factory=dict)
    faults: str | None = None
    storage_host: str | None = None

    def __post_init__(self) -> None:
        _check(self.runner in RUNNERS, "runner", self.runner, f"one of {', '.join(RUNNERS)}")
        for name in ("port", "rest_port"):
            _check(0 <= getattr(self, name) <= 65535, name, getattr(self, name), "a port, 0 to 65535")
        for name in ("speed", "memory_scale"):
            value = getattr(self, name)
            _check(0 < value < float("inf"), name, value, "a number above 0")
        merged = _defaults()
        for name, value in self.switches.items():
            if name not in SWITCHES:
                raise ConfigError(
                    f"--set {name}: unknown switch; the switches are {', '.join(sorted(SWITCHES))}"
                )
            merged[name] = SWITCHES[name].read(name, value)
        object.__setattr__(self, "switches", merged)

    def __getitem__(self, name: str) -> Any:
        """The value of a switch."""
        return self.switches[name]

    def replace(self, **changes: Any) -> Config:
        """A copy with some settings changed."""
        return dataclasses.replace(self, **changes)


def _check(good: bool, name: str, value: Any, allowed: str) -> None:
    if not good:
        raise ConfigError(f"--{name.replace('_', '-')} {value}: must be {allowed}")


def read_switches(texts: Iterable[str]) -> dict[str, str]:
    """``["name=value", ...]`` as a dictionary.

    :raises ConfigError: a text without ``=``.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(
                f"--set {text}: write NAME=VALUE; the switches are {', '.join(sorted(SWITCHES))}"
            )
        found[name.strip()] = value.strip()
    return found


def environment_twin(flag: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value of a flag's environment twin: ``rest_port`` reads AGENT_PLATFORM_EMULATOR_REST_PORT."""
    return environ.get(ENVIRONMENT_PREFIX + flag.upper())
