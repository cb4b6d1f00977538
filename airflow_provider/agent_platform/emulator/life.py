"""What the lifecycle of one job is made of: its memory, what can happen to it, and what must then be done.

Data only. ``lifecycle`` says what follows from what; ``engine`` makes the effects happen.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from airflow_provider.agent_platform.emulator.states import State
from airflow_provider.agent_platform.emulator.texts import Exit


class Phase(str, Enum):
    """Where a job is, finer than its state."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Cause(str, Enum):
    """Why a run ends; each kind of retry has its own count."""

    SUCCESS = "success"
    CANCEL = "cancel"
    TIMEOUT = "timeout"
    MAX_WAIT = "max_wait"
    QUOTA = "quota"
    EXIT = "exit"
    CRASH = "crash"
    WORKER = "worker"
    WORKER_RESTART = "worker_restart"
    STOCKOUT = "stockout"
    PREEMPTED = "preempted"
    INTERNAL = "internal"
    ERROR = "error"
    EMULATOR = "emulator"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What becomes of the job when the workers of its run are gone.

    :param state: the end; None: another run follows.
    :param retried: the platform had tried again for this cause before.
    """

    cause: Cause
    state: State | None
    code: int = 0
    message: str = ""
    retried: bool = False


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """What of a job's spec its lifecycle depends on.

    :param timeout: seconds of running; 0 for no limit.
    :param max_wait: seconds until machines are found, FLEX_START only; 0 for no limit.
    """

    job_id: str
    project: str
    region: str
    replicas: tuple[str, ...]
    timeout: float = 604_800.0
    max_wait: float = 0.0
    spot: bool = False
    flex_start: bool = False
    restart_job_on_worker_restart: bool = False
    disable_retries: bool = False
    quota_refused: tuple[str, ...] = ()

    @property
    def primary(self) -> str:
        """The replica whose exit 0 ends the job."""
        return self.replicas[0]


@dataclass(kw_only=True)
class Life:
    """The memory of a lifecycle; survives a restart of the emulator as JSON.

    :param run: number of the run, from 1; 0 before the first.
    :param attempts: how often each replica was started in this run.
    :param alive: replicas whose process may be there.
    :param replacing: replicas that are being moved to another machine.
    :param worker_restarts: failures of each replica that were no exit of its own.
    :param retries: whole-job retries used, by cause.
    :param doomed: a verdict that waits for the replica's visible restart.
    :param verdict: why the run is being shut down.
    """

    phase: Phase = Phase.QUEUED
    run: int = 0
    started: bool = False
    cancelling: bool = False
    attempts: dict[str, int] = field(default_factory=dict)
    up: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    alive: set[str] = field(default_factory=set)
    replacing: set[str] = field(default_factory=set)
    worker_restarts: dict[str, int] = field(default_factory=dict)
    retries: dict[str, int] = field(default_factory=dict)
    failures: list[Exit] = field(default_factory=list)
    doomed: Verdict | None = None
    verdict: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        values = dataclasses.asdict(self)
        for name in ("up", "done", "alive", "replacing"):
            values[name] = sorted(values[name])
        return values

    @classmethod
    def from_json(cls, values: Any) -> Life:
        """Read back what :meth:`to_json` made."""
        values = dict(values, phase=Phase(values["phase"]))
        for name in ("up", "done", "alive", "replacing"):
            values[name] = set(values[name])
        values["failures"] = [Exit(**one) for one in values["failures"]]
        for name in ("doomed", "verdict"):
            if (one := values[name]) is not None:
                state = None if one["state"] is None else State(one["state"])
                values[name] = Verdict(**dict(one, cause=Cause(one["cause"]), state=state))
        return cls(**values)


# What can happen to a job. `run` and `attempt` let the lifecycle drop what comes too late.


@dataclass(frozen=True)
class Admitted:
    """Its quota is there."""


@dataclass(frozen=True)
class Provisioned:
    """Machines were found for this run."""

    run: int


@dataclass(frozen=True)
class NoCapacity:
    """No machines were found for this run."""

    run: int


@dataclass(frozen=True)
class WorkerUp:
    """A replica's code has begun to run."""

    replica: str
    run: int


@dataclass(frozen=True)
class WorkerExited:
    """A replica's process and all it had started are gone."""

    run: int
    attempt: int
    exit: Exit


@dataclass(frozen=True)
class NodeLost:
    """The machine under a replica is gone."""

    replica: str


@dataclass(frozen=True)
class Maintenance:
    """A replica must move to another machine."""

    replica: str


@dataclass(frozen=True)
class Preempted:
    """Spot machines were taken back."""


@dataclass(frozen=True)
class InternalError:
    """The platform failed."""


@dataclass(frozen=True)
class JobError:
    """The job fails for good, with an error that somebody made up."""

    code: int
    message: str


@dataclass(frozen=True)
class ShutdownDue:
    """The time a doomed run had for its visible restart is over."""

    run: int


@dataclass(frozen=True)
class CancelAsked:
    """Somebody called Cancel."""


@dataclass(frozen=True)
class TimeoutOver:
    """``scheduling.timeout`` is over."""


@dataclass(frozen=True)
class MaxWaitOver:
    """``max_wait_duration`` is over."""


@dataclass(frozen=True)
class EmulatorRestarted:
    """All workers died with an earlier process of the emulator."""


Event: TypeAlias = (
    Admitted | Provisioned | NoCapacity | WorkerUp | WorkerExited | NodeLost | Maintenance | Preempted
    | InternalError | JobError | ShutdownDue | CancelAsked | TimeoutOver | MaxWaitOver | EmulatorRestarted
)  # fmt: skip


# What must be done.


@dataclass(frozen=True)
class SetState:
    """Show this state."""

    state: State


@dataclass(frozen=True)
class Provision:
    """Look for machines; answer Provisioned or NoCapacity."""

    run: int


@dataclass(frozen=True)
class StartWorker:
    """Start a replica.

    :param new_machine: it moves: the machine must be found first, its directory is empty.
    """

    replica: str
    run: int
    attempt: int
    new_machine: bool = False


@dataclass(frozen=True)
class StopWorker:
    """SIGTERM and after the grace SIGKILL, or SIGKILL at once."""

    replica: str
    at_once: bool = False


@dataclass(frozen=True)
class After:
    """Let an event happen after so many seconds of the platform, and not before ``real`` seconds have passed."""

    seconds: float
    event: Event
    real: float = 0.0


@dataclass(frozen=True)
class Say:
    """A line of the service in the job's log."""

    text: str
    severity: str = "INFO"


@dataclass(frozen=True)
class Note:
    """A line in the story that the control API tells."""

    kind: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class End:
    """The job has ended; ``error`` appears after the delay."""

    verdict: Verdict


Effect: TypeAlias = SetState | Provision | StartWorker | StopWorker | After | Say | Note | End
