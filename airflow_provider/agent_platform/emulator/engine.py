"""Makes the lifecycle of custom jobs happen.

In: jobs from ``service``, reports from a runner, time from the clock, faults. Out: states in the store, events,
log lines, starts and stops of workers. What follows from what is said in ``lifecycle``; this module carries it
out, under one lock.

A controller of other jobs (tuning) makes child jobs with :meth:`Engine.submit`, giving a ``Child``, and hears of
every change of state through :attr:`Engine.listeners`; it gets quota of its own with :meth:`Engine.ask_quota`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider.agent_platform.emulator import catalog, life, texts
from airflow_provider.agent_platform.emulator.armed import ArmedFaults
from airflow_provider.agent_platform.emulator.clock import BaseClock
from airflow_provider.agent_platform.emulator.cluster import Ports
from airflow_provider.agent_platform.emulator.config import Config
from airflow_provider.agent_platform.emulator.environment import Child
from airflow_provider.agent_platform.emulator.errors import ApiError
from airflow_provider.agent_platform.emulator.faults import Fault, Faults
from airflow_provider.agent_platform.emulator.job import CustomJob, LiveJob, launch_of, plan_of
from airflow_provider.agent_platform.emulator.life import Life, Phase, Verdict
from airflow_provider.agent_platform.emulator.lifecycle import Lifecycle
from airflow_provider.agent_platform.emulator.logs import LogStore
from airflow_provider.agent_platform.emulator.quota import QuotaBook
from airflow_provider.agent_platform.emulator.runners.base import Launch, Runner
from airflow_provider.agent_platform.emulator.states import ENDS, State, state_name
from airflow_provider.agent_platform.emulator.store import MemoryStore, Row

MINIMUM_GRACE = 1.0
"""Real seconds between SIGTERM and SIGKILL, whatever the speed: a process needs real time to write a file."""

logger = logging.getLogger(__name__)


class Engine:
    """All live custom jobs.

    :param runner: starts the workers.
    """

    def __init__(self, config: Config, clock: BaseClock, store: MemoryStore, runner: Runner) -> None:
        self.config = config
        self.clock = clock
        self.store = store
        self.runner = runner
        self.lock = threading.RLock()
        self.faults = Faults()
        self.quotas = QuotaBook()
        self.logs = LogStore(clock.wall)
        self.listeners: list[Callable[[Row], None]] = []
        self._jobs: dict[str, LiveJob] = {}
        self._admitted: dict[str, Callable[[], None]] = {}
        self._ports = Ports()
        self._armed = ArmedFaults(self)
        self._closed = False
        self._delete_at_end: set[str] = set()
        self._effects: Mapping[type, Callable[[LiveJob, Any], None]] = {
            life.SetState: lambda job, effect: self.set_state(job.row, effect.state),
            life.Provision: self._provision,
            life.StartWorker: self._start_worker,
            life.StopWorker: self._stop_worker,
            life.After: lambda job, effect: self.later(
                job, max(effect.seconds, effect.real * clock.speed), lambda: self.deliver(job, effect.event)
            ),
            life.Say: lambda job, effect: self.say(job.row, effect.text, effect.severity),
            life.Note: lambda job, effect: self.note(job.row, effect.kind, **effect.fields),
            life.End: lambda job, effect: self._ended(job, effect.verdict),
        }

    # --- what the service asks ---

    def submit(
        self, row: Row, message: Any, *, child: Child | None = None, holds_quota: bool = False
    ) -> None:
        """Take in a new job whose row is not stored yet.

        :param child: it is a trial of a tuning job.
        :param holds_quota: its parent holds the quota already.
        :raises ApiError: RESOURCE_EXHAUSTED, over quota and the switch says ``refuse``.
        """
        with self.lock:
            use = {} if holds_quota else catalog.quota_use(message.job_spec)
            missing = self.quotas.missing(row.region, use) if self.config["over_quota"] != "queue" else []
            if missing and self.config["over_quota"] == "refuse":
                raise ApiError(8, texts.quota(missing))
            plan = plan_of(row, message.job_spec, self.config, tuple(missing))
            job = LiveJob(
                row=row, spec=message.job_spec, child=child, lifecycle=Lifecycle(plan, self.config.switches)
            )
            row.launch = child.to_json() if child else None
            row.life = job.lifecycle.life.to_json() if self.store.durable else {}
            self.store.add(row)
            self._jobs[row.id] = job
            self.note(row, "state", state=state_name(row.state))
            self.ask_quota(
                row.id, row.region, {} if missing else use, lambda: self.deliver(job, life.Admitted())
            )

    def cancel(self, job_id: str) -> None:
        """Begin to cancel a live job; nothing when it has ended."""
        with self.lock:
            job = self._jobs.get(job_id)
            if job is not None:
                self.note(job.row, "cancel")
                self.deliver(job, life.CancelAsked())

    def ask_quota(
        self, owner: str, region: str, use: Mapping[str, int], admitted: Callable[[], None]
    ) -> None:
        """Stand in line for quota; ``admitted`` is called, once, when it is there."""
        self._admitted[owner] = admitted
        self.quotas.ask(owner, region, use)
        self._admit()

    def give_back_quota(self, owner: str) -> None:
        """The owner has ended."""
        self._admitted.pop(owner, None)
        self.quotas.give_back(owner)
        self._admit()

    def set_quotas(self, limits: dict[str, dict[str, int]]) -> None:
        """Replace the limits; what now fits begins."""
        with self.lock:
            self.quotas.limits = limits
            self.store.set_document("quotas", limits)
            self._admit()

    def _admit(self) -> None:
        for owner in self.quotas.admit():
            admitted = self._admitted.pop(owner, None)
            if admitted is not None:
                admitted()

    def add_fault(self, body: Any) -> Fault:
        """Arm a fault, also for jobs that are live.

        :raises FaultError: it cannot be understood.
        """
        with self.lock:
            fault = self.faults.add(body)
            for job in list(self._jobs.values()):
                self._armed.arm_live(job, fault)
            return fault

    def remove_fault(self, fault_id: str) -> bool:
        """Disarm a fault; False when there is none of that id."""
        with self.lock:
            return self.faults.remove(fault_id)

    def clear_faults(self) -> None:
        """Disarm every fault."""
        with self.lock:
            self.faults.clear()

    def delete_at_end(self, row: Row) -> None:
        """Forget a live job as soon as it has ended."""
        self._delete_at_end.add(row.id)

    def delete_if_asked(self, row: Row) -> None:
        """Forget a job that has ended now, if :meth:`delete_at_end` was called for it."""
        if row.id in self._delete_at_end:
            self._delete_at_end.discard(row.id)
            self.store.delete(row)

    def live(self) -> list[LiveJob]:
        """Jobs that have not ended."""
        return list(self._jobs.values())

    # --- carrying out ---

    def deliver(self, job: LiveJob, event: life.Event) -> None:
        """Let something happen to a job, and carry out what follows."""
        with self.lock:
            if self._closed or self._jobs.get(job.row.id) is not job:
                return
            effects = job.lifecycle.handle(event)
            for effect in effects:
                self._effects[type(effect)](job, effect)
            if self.store.durable and job.row.id in self._jobs:
                job.row.life = job.lifecycle.life.to_json()
                self.store.save(job.row, job.row.state)

    def later(self, job: LiveJob, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after seconds of the platform, unless the job has ended by then."""
        job.keep(self.clock.call_later(seconds, callback))

    def _provision(self, job: LiveJob, effect: life.Provision) -> None:
        job.running_since, job.up_since = None, {}
        self.later(job, self.config["provisioning_seconds"], lambda: self._provisioned(job, effect.run))

    def _provisioned(self, job: LiveJob, run: int) -> None:
        with self.lock:
            memory = job.lifecycle.life
            if memory.phase is not Phase.PROVISIONING or memory.run != run:
                return
            if self.faults.take("stockout", job.target):
                self.deliver(job, life.NoCapacity(run))
            else:
                self.deliver(job, self._armed.take_before_start(job) or life.Provisioned(run))

    def _start_worker(self, job: LiveJob, effect: life.StartWorker) -> None:
        slow = self._armed.take_slow_start(job, effect.replica)
        delay = slow + (self.config["provisioning_seconds"] if effect.new_machine else 0)
        if delay:
            self.later(job, delay, lambda: self._launch(job, effect))
        else:
            self._launch(job, effect)

    def _launch(self, job: LiveJob, effect: life.StartWorker) -> None:
        with self.lock:
            memory = job.lifecycle.life
            stale = memory.run != effect.run or memory.phase not in (Phase.STARTING, Phase.RUNNING)
            if self._closed or self._jobs.get(job.row.id) is not job or stale:
                return
            if job.cluster is None and self.runner.wants_addresses:
                job.cluster = self._ports.take(job.lifecycle.plan.replicas)
            launch = launch_of(
                job,
                self.config,
                effect.replica,
                run=effect.run,
                attempt=effect.attempt,
                new_machine=effect.new_machine,
            )
            job.workers[effect.replica] = (launch, self.runner.start(launch, self))

    def _stop_worker(self, job: LiveJob, effect: life.StopWorker) -> None:
        found = job.workers.get(effect.replica)
        memory = job.lifecycle.life
        attempt = memory.attempts[effect.replica] - 1
        if found is None or found[0].run != memory.run or found[0].attempt != attempt:
            # It was still waiting for its machine: there is nothing to kill.
            gone = life.WorkerExited(memory.run, attempt, texts.Exit(replica=effect.replica, code=137))
            self.later(job, 0, lambda: self.deliver(job, gone))
            return
        found[1].stop(0 if effect.at_once else self.grace)

    @property
    def grace(self) -> float:
        """Real seconds between SIGTERM and SIGKILL."""
        return max(MINIMUM_GRACE, float(self.config["stop_grace_seconds"]) / self.clock.speed)

    def _ended(self, job: LiveJob, verdict: Verdict) -> None:
        row = job.row
        del self._jobs[row.id]
        for timer in job.timers:
            timer.cancel()
        self._release(job)
        row.life = None
        if verdict.code:
            name = "cancel_error_delay_seconds" if verdict.state is State.CANCELLED else "error_delay_seconds"
            delay = self.config[name]
            if delay:
                row.life = {"error": [verdict.code, verdict.message]}
                self.clock.call_later(delay, lambda: self.set_error(row, verdict.code, verdict.message))
            else:
                self.set_error(row, verdict.code, verdict.message)
        self.store.save(row, row.state)
        self.delete_if_asked(row)
        self.give_back_quota(row.id)

    def _release(self, job: LiveJob) -> None:
        if job.cluster is not None:
            self._ports.give_back(job.cluster)
        if job.workers:
            self.runner.forget(job.row.id)

    # --- what is written ---

    def set_state(self, row: Row, state: State) -> None:
        """Show a state, with the times that go with it."""
        if row.state == state:
            return
        old, row.state = row.state, int(state)
        message = CustomJob.FromString(row.payload)
        message.state = int(state)
        now = int(self.clock.wall() * 1e9)
        message.update_time.FromNanoseconds(now)
        if state is State.RUNNING and not message.HasField("start_time"):
            message.start_time.FromNanoseconds(now)
        if state in ENDS:
            message.end_time.FromNanoseconds(now)
        self._keep(row, message, old)
        job = self._jobs.get(row.id)
        run = {"run": job.lifecycle.life.run} if job is not None and job.lifecycle.life.run else {}
        self.note(row, "state", state=state_name(state), **run)
        if job is not None and state is State.RUNNING:
            job.running_since = self.clock.monotonic()
            self._armed.job_running(job)
        for listener in list(self.listeners):
            listener(row)

    def set_error(self, row: Row, code: int, message: str) -> None:
        """Show the error of an ended job."""
        with self.lock:
            if self._closed or self.store.get(row.id) is not row:
                return
            job = CustomJob.FromString(row.payload)
            job.error.code, job.error.message = code, message
            job.update_time.FromNanoseconds(int(self.clock.wall() * 1e9))
            row.life = None
            self._keep(row, job, row.state)
            self.note(row, "error", code=code, message=message)
            for listener in list(self.listeners):
                listener(row)

    def _keep(self, row: Row, message: Any, old_state: int) -> None:
        row.payload = message.SerializeToString()
        self.store.save(row, old_state)

    def note(self, row: Row, kind: str, **fields: Any) -> None:
        """Add to the job's story."""
        self.store.add_event(row.id, self.clock.wall(), kind, fields)

    def say(self, row: Row, text: str, severity: str = "INFO") -> None:
        """Write a line of the service to the job's log."""
        self._write(row, text, "service", severity, structured=False)

    def _write(self, row: Row, text: str, task: str, severity: str, structured: bool = True) -> None:
        delay = self.config["log_delay_seconds"] / self.clock.speed
        self.logs.write(
            text, project=row.project, region=row.region, job_id=row.id, task_name=task, kind=row.kind,
            severity=severity, delay=delay, structured=structured,
        )  # fmt: skip

    # --- what the runner reports (runners.base.Listener) ---

    def worker_up(self, launch: Launch) -> None:
        """A replica's code runs."""
        with self.lock:
            job = self._current(launch)
            if job is None:
                return
            fields = {"run": launch.run, "replica": launch.replica, "attempt": launch.attempt}
            self.note(job.row, "worker_start", **fields)
            job.up_since[launch.replica] = self.clock.monotonic()
            self.deliver(job, life.WorkerUp(launch.replica, launch.run))
            self._armed.replica_up(job, launch.replica)

    def worker_exited(self, launch: Launch, exit: texts.Exit) -> None:
        """A replica and all it had started are gone."""
        with self.lock:
            job = self._current(launch)
            if job is None:
                return
            fields = {"run": launch.run, "replica": launch.replica, "exit_code": exit.code}
            reason = {} if exit.reason == "Error" else {"reason": exit.reason}
            self.note(job.row, "worker_exit", **fields, **reason)
            self.deliver(job, life.WorkerExited(launch.run, launch.attempt, exit))

    def worker_killed(self, launch: Launch, signal: str) -> None:
        """A signal was sent to a replica."""
        with self.lock:
            job = self._current(launch)
            if job is not None:
                self.note(job.row, "worker_kill", run=launch.run, replica=launch.replica, signal=signal)

    def worker_line(self, launch: Launch, stream: str, line: str) -> None:
        """A replica wrote a line."""
        job = self._jobs.get(launch.job_id)
        if job is None or self._closed:
            return
        self._write(job.row, line, launch.replica, "ERROR" if stream == "stderr" else "INFO")
        self._armed.line(job, line)

    def _current(self, launch: Launch) -> LiveJob | None:
        job = None if self._closed else self._jobs.get(launch.job_id)
        return job if job is not None and job.lifecycle.life.run == launch.run else None

    # --- start and end of the engine ---

    def recover(self) -> None:
        """Go on with the jobs of an earlier process, whose workers are gone."""
        with self.lock:
            self.quotas.limits = self.store.document("quotas") or {}
            for row in self.store.rows():
                if row.kind != "customJobs" or row.life is None:
                    continue
                if "error" in row.life:
                    self.set_error(row, *row.life["error"])
                else:
                    self._recover_job(row)
            self._admit()

    def _recover_job(self, row: Row) -> None:
        message = CustomJob.FromString(row.payload)
        child = Child.from_json(row.launch)
        memory = Life.from_json(row.life)
        plan = plan_of(row, message.job_spec, self.config)
        lifecycle = Lifecycle(plan, self.config.switches, memory)
        job = LiveJob(row=row, spec=message.job_spec, child=child, lifecycle=lifecycle)
        self._jobs[row.id] = job
        use = {} if child else catalog.quota_use(message.job_spec)
        if memory.phase is Phase.QUEUED:
            self._admitted[row.id] = lambda: self.deliver(job, life.Admitted())
            self.quotas.ask(row.id, row.region, use)
            return
        self.quotas.hold(row.id, row.region, use)
        passed = self.clock.wall() - message.start_time.seconds if message.HasField("start_time") else 0.0
        if memory.started:
            self.later(
                job, plan.timeout - passed * self.clock.speed, lambda: self.deliver(job, life.TimeoutOver())
            )
        elif plan.max_wait:
            self.later(job, plan.max_wait, lambda: self.deliver(job, life.MaxWaitOver()))
        self.deliver(job, life.EmulatorRestarted())

    def reset(self) -> None:
        """Forget everything; end all workers and wait for that."""
        with self.lock:
            jobs, self._jobs = list(self._jobs.values()), {}
            self._admitted.clear()
            for job in jobs:
                for timer in job.timers:
                    timer.cancel()
            self.faults.clear()
            self.quotas.clear()
            self.store.clear()
            self.logs.clear()
        for job in jobs:
            for _, worker in job.workers.values():
                worker.stop(0)
            self._release(job)
        self.runner.drain()

    def close(self) -> None:
        """Stop acting, then end every worker: the jobs stay as they are in the store."""
        with self.lock:
            self._closed = True
        started = time.monotonic()
        self.runner.close()
        logger.debug("All workers ended after %.2f s", time.monotonic() - started)
