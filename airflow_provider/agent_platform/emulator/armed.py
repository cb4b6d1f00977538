"""When an armed fault strikes a job.

In: a job that begins to run, a replica that (re)starts, a line of a log, a fault that is new. Out: events for
the job's lifecycle, at the right time. Seconds count from RUNNING for ``preempt``, ``internal_error`` and
``job_error``, from the (re)start of the replica for ``node_loss`` and ``maintenance``; without a ``replica`` these
mean the primary.
``preempt`` strikes whatever it matches, also a job that is not on Spot machines: whoever arms it knows which it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from google.rpc import code_pb2

from airflow_provider.agent_platform.emulator import life
from airflow_provider.agent_platform.emulator.faults import Fault
from airflow_provider.agent_platform.emulator.life import Phase

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.engine import Engine
    from airflow_provider.agent_platform.emulator.job import LiveJob


def _job_error(fault: Fault) -> life.Event:
    code = code_pb2.Code.Value(fault.options.get("code", "INTERNAL"))
    return life.JobError(code, fault.options["message"])


OF_JOB: Mapping[str, Callable[[Fault], life.Event]] = {
    "preempt": lambda fault: life.Preempted(),
    "internal_error": lambda fault: life.InternalError(),
    "job_error": _job_error,
}
OF_REPLICA: Mapping[str, Callable[[str], life.Event]] = {
    "node_loss": life.NodeLost,
    "maintenance": life.Maintenance,
}


class ArmedFaults:
    """Faults that wait for a job's moment. Every method runs under the engine's lock or takes it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- moments ---

    def job_running(self, job: LiveJob) -> None:
        """The job has become RUNNING."""
        for name in OF_JOB:
            for fault in self._engine.faults.matching(name, job.target):
                self._arm_job(job, fault)

    def replica_up(self, job: LiveJob, replica: str) -> None:
        """A replica has (re)started."""
        for name in OF_REPLICA:
            for fault in self._engine.faults.matching(name, job.target):
                if _replica_of(job, fault) == replica:
                    self._arm_replica(job, fault, replica)

    def arm_live(self, job: LiveJob, fault: Fault) -> None:
        """A fault is new and the job is live."""
        if not fault.matches(job.target):
            return
        if fault.name in OF_JOB:
            self._arm_job(job, fault)
        elif fault.name in OF_REPLICA and (replica := _replica_of(job, fault)) in job.up_since:
            self._arm_replica(job, fault, replica)

    def line(self, job: LiveJob, line: str) -> None:
        """A worker wrote a line."""
        for fault in self._engine.faults.all():
            text = fault.options.get("after_log")
            if text is not None and text in line and fault.matches(job.target):
                run = job.lifecycle.life.run
                strike = functools.partial(self._strike_job, job, fault, run)
                self._engine.later(job, fault.after_seconds or 0, strike)

    def take_before_start(self, job: LiveJob) -> life.Event | None:
        """The error that ends this run before any process starts; None: it may start."""
        for name in ("internal_error", "job_error"):
            for fault in self._engine.faults.matching(name, job.target):
                if fault.after_seconds is None and self._engine.faults.fire(fault):
                    return OF_JOB[name](fault)
        return None

    def take_slow_start(self, job: LiveJob, replica: str) -> float:
        """Seconds by which this start is late."""
        for fault in self._engine.faults.matching("slow_start", job.target):
            if _replica_of(job, fault) == replica and self._engine.faults.fire(fault):
                return float(fault.options["seconds"])
        return 0.0

    # --- arming and striking ---

    def _arm_job(self, job: LiveJob, fault: Fault) -> None:
        if "after_log" in fault.options or job.running_since is None:
            return
        strike = functools.partial(self._strike_job, job, fault, job.lifecycle.life.run)
        self._schedule(job, fault, job.running_since, strike)

    def _arm_replica(self, job: LiveJob, fault: Fault, replica: str) -> None:
        memory = job.lifecycle.life
        attempt = memory.attempts.get(replica, 0)
        strike = functools.partial(self._strike_replica, job, fault, replica, memory.run, attempt)
        self._schedule(job, fault, job.up_since[replica], strike)

    def _schedule(self, job: LiveJob, fault: Fault, since: float, strike: Callable[[], None]) -> None:
        clock = self._engine.clock
        passed = (clock.monotonic() - since) * clock.speed
        self._engine.later(job, max(0.0, (fault.after_seconds or 0) - passed), strike)

    def _strike_job(self, job: LiveJob, fault: Fault, run: int) -> None:
        with self._engine.lock:
            memory = job.lifecycle.life
            there = memory.run == run and memory.phase in (Phase.STARTING, Phase.RUNNING)
            if there and self._engine.faults.fire(fault):
                self._engine.deliver(job, OF_JOB[fault.name](fault))

    def _strike_replica(self, job: LiveJob, fault: Fault, replica: str, run: int, attempt: int) -> None:
        with self._engine.lock:
            memory = job.lifecycle.life
            same = memory.run == run and memory.attempts.get(replica) == attempt
            if same and job.lifecycle.movable(replica) and self._engine.faults.fire(fault):
                self._engine.deliver(job, OF_REPLICA[fault.name](replica))


def _replica_of(job: LiveJob, fault: Fault) -> str:
    return str(fault.options.get("replica", job.lifecycle.plan.primary))
