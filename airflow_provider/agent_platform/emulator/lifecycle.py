"""The lifecycle of one job: a pure state machine.

In: an event (``life.Event``). Out: the effects that follow (``life.Effect``), in order. It reads no clock,
starts no process and locks nothing: ``engine`` does. Rules and counts are those of the service's documents;
``config.SWITCHES`` names each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider.agent_platform.emulator import life, texts
from airflow_provider.agent_platform.emulator.life import Cause, Effect, JobPlan, Life, Phase, Verdict
from airflow_provider.agent_platform.emulator.states import State
from airflow_provider.agent_platform.emulator.texts import Exit

CRASHES = frozenset({6, 134, 11, 139})
"""SIGABRT and SIGSEGV, as a process and as a custom container report them: the only exits worth a retry."""

SEEN_SECONDS = 0.25
"""Real seconds, whatever the speed, that a replica's restart is let run before a permanent failure ends the job: what
it does in its first moments can be seen then, as on the service."""

RETRY_SWITCH: Mapping[Cause, str] = {
    Cause.CRASH: "crash_retries",
    Cause.WORKER: "worker_job_retries",
    Cause.STOCKOUT: "stockout_retries",
    Cause.PREEMPTED: "spot_restarts",
    Cause.INTERNAL: "internal_retries",
}
"""Which switch says how often the whole job is tried again."""

_BEFORE_STOP = (Phase.PROVISIONING, Phase.STARTING, Phase.RUNNING)
_WITH_WORKERS = (Phase.STARTING, Phase.RUNNING)


class Lifecycle:
    """One job's plan, its memory and the rules."""

    def __init__(self, plan: JobPlan, switches: Mapping[str, Any], memory: Life | None = None) -> None:
        self.plan = plan
        self.life = memory or Life()
        self._switches = switches
        self._effects: list[Effect] = []

    def handle(self, event: life.Event) -> list[Effect]:
        """Let one thing happen; whatever comes too late has no effect."""
        self._effects = []
        if self.life.phase is not Phase.ENDED:
            _HANDLERS[type(event)](self, event)
        return self._effects

    # --- start ---

    def _admitted(self, event: life.Admitted) -> None:
        if self.life.phase is not Phase.QUEUED:
            return
        self._do(life.SetState(State.PENDING))
        if self.plan.max_wait:
            self._do(life.After(self.plan.max_wait, life.MaxWaitOver()))
        self._next_run()

    def _next_run(self) -> None:
        memory = self.life
        memory.phase, memory.verdict, memory.doomed = Phase.PROVISIONING, None, None
        memory.run += 1
        memory.attempts, memory.failures = {}, []
        for group in (memory.up, memory.done, memory.alive, memory.replacing):
            group.clear()
        self._note("run", run=memory.run)
        self._do(life.Say(texts.WAITING), life.Provision(memory.run))

    def _provisioned(self, event: life.Provisioned) -> None:
        memory = self.life
        if memory.phase is not Phase.PROVISIONING or event.run != memory.run:
            return
        if self.plan.quota_refused:
            self._stop(self._end(Cause.QUOTA, State.FAILED, 8, texts.quota(self.plan.quota_refused)))
            return
        memory.phase = Phase.STARTING
        self._do(life.Say(texts.PREPARING))
        for replica in self.plan.replicas:
            self._start(replica)

    def _no_capacity(self, event: life.NoCapacity) -> None:
        if self.life.phase is not Phase.PROVISIONING or event.run != self.life.run:
            return
        if self.plan.flex_start:
            # Flex-start waits for machines, for max_wait_duration; nothing is counted.
            self._do(life.Provision(self.life.run))
        else:
            self._note("fault", fault="stockout", run=self.life.run)
            self._stop(self._retry(Cause.STOCKOUT))

    def _start(self, replica: str, *, new_machine: bool = False) -> None:
        memory = self.life
        attempt = memory.attempts.get(replica, 0)
        memory.attempts[replica] = attempt + 1
        memory.alive.add(replica)
        self._do(life.StartWorker(replica, memory.run, attempt, new_machine))

    def _worker_up(self, event: life.WorkerUp) -> None:
        memory = self.life
        if event.run != memory.run or memory.phase not in _WITH_WORKERS:
            return
        memory.up.add(event.replica)
        if memory.phase is Phase.STARTING and len(memory.up) == len(self.plan.replicas):
            memory.phase = Phase.RUNNING
            if not memory.cancelling:
                self._do(life.SetState(State.RUNNING))
            self._do(life.Say(texts.RUNNING))
            if not memory.started and self.plan.timeout:
                self._do(life.After(self.plan.timeout, life.TimeoutOver()))
            memory.started = True
            if self.plan.primary in memory.done and memory.doomed is None:
                self._stop(self._end(Cause.SUCCESS, State.SUCCEEDED))
        if memory.doomed is not None and any(failed.replica == event.replica for failed in memory.failures):
            self._shut_down_soon()

    # --- ends of workers ---

    def _worker_exited(self, event: life.WorkerExited) -> None:
        memory, replica = self.life, event.exit.replica
        if event.run != memory.run or event.attempt != memory.attempts.get(replica, 0) - 1:
            return
        memory.alive.discard(replica)
        if memory.phase is Phase.STOPPING:
            self._exited_while_stopping(event.exit)
        elif memory.doomed is not None and any(failed.replica == replica for failed in memory.failures):
            # It has restarted and ended again: there is nothing more to see.
            self._stop(self._doom())
        elif replica in memory.replacing:
            memory.replacing.discard(replica)
            if memory.doomed is None:
                self._restart(replica, "replaced", new_machine=True)
        elif event.exit.code == 0:
            self._exited_zero(replica)
        else:
            self._exited_badly(event.exit)

    def _exited_zero(self, replica: str) -> None:
        memory = self.life
        memory.done.add(replica)
        # RUNNING means that all workers were there; a primary that is faster than that waits for it.
        if replica == self.plan.primary and memory.phase is Phase.RUNNING and memory.doomed is None:
            self._stop(self._end(Cause.SUCCESS, State.SUCCEEDED))

    def _exited_badly(self, failed: Exit) -> None:
        memory = self.life
        own = failed.reason == "Error"
        if (
            memory.doomed is None
            and own
            and failed.code not in CRASHES
            and not self._switches["exit_is_permanent"]
        ):
            self._worker_failed(failed.replica, "exit")
            return
        if memory.doomed is None:
            cause = Cause.CRASH if own and failed.code in CRASHES else Cause.EXIT
            memory.doomed = Verdict(cause=cause, state=State.FAILED)
        memory.failures.append(failed)
        if own:
            # The shutdown is due when the restart has been seen: _worker_up asks for it.
            self._restart(failed.replica, "exit")
        else:
            self._shut_down_soon()

    def _shut_down_soon(self) -> None:
        due = life.ShutdownDue(self.life.run)
        self._do(life.After(self._switches["shutdown_delay_seconds"], due, SEEN_SECONDS))

    def _shutdown_due(self, event: life.ShutdownDue) -> None:
        if self.life.doomed is not None and event.run == self.life.run and self.life.phase in _WITH_WORKERS:
            self._stop(self._doom())

    def _doom(self) -> Verdict:
        """The verdict on a run with permanent failures or crashes, when all are known."""
        memory = self.life
        killed = [failed.replica for failed in memory.failures if failed.reason == "OOMKilled"]
        if killed:
            message = texts.low_memory(killed, self._switches["low_memory_form"])
            return self._end(Cause.EXIT, State.FAILED, 8, message)
        message = texts.exits(
            memory.failures,
            form=self._switches["exit_error_form"],
            project=self.plan.project,
            job_id=self.plan.job_id,
        )
        if memory.doomed is not None and memory.doomed.cause is Cause.CRASH:
            return self._retry(Cause.CRASH, 3, message)
        return self._end(Cause.EXIT, State.FAILED, 3, message)

    def _exited_while_stopping(self, ended: Exit) -> None:
        memory = self.life
        if (
            memory.verdict is not None
            and memory.verdict.cause is Cause.CANCEL
            and ended.replica == self.plan.primary
            and ended.code == 0
            and self._switches["exit_zero_while_cancelling"] == "SUCCEEDED"
        ):
            memory.verdict = self._end(Cause.SUCCESS, State.SUCCEEDED)
        if not memory.alive:
            self._conclude()

    # --- what happens to machines ---

    def _node_lost(self, event: life.NodeLost) -> None:
        if self.movable(event.replica):
            self._note("fault", fault="node_loss", run=self.life.run, replica=event.replica)
            self._worker_failed(event.replica, "node_loss")

    def _maintenance(self, event: life.Maintenance) -> None:
        if not self.movable(event.replica):
            return
        self._note("fault", fault="maintenance", run=self.life.run, replica=event.replica)
        if self._restarts_job():
            self._stop(Verdict(cause=Cause.WORKER_RESTART, state=None))
        else:
            self.life.replacing.add(event.replica)
            self._do(life.StopWorker(event.replica))

    def movable(self, replica: str) -> bool:
        """Whether a replica runs and is not being moved already."""
        memory = self.life
        there = replica in memory.alive and replica not in memory.replacing
        return there and memory.phase in _WITH_WORKERS and memory.doomed is None

    def _worker_failed(self, replica: str, reason: str) -> None:
        """A failure that is no common error: the worker restarts, then the whole job, then it is over."""
        memory = self.life
        used = memory.worker_restarts.get(replica, 0)
        memory.worker_restarts[replica] = used + 1
        if used >= self._switches["worker_restarts"]:
            memory.worker_restarts = {}
            self._stop(self._retry(Cause.WORKER))
        elif self._restarts_job():
            self._stop(Verdict(cause=Cause.WORKER_RESTART, state=None))
        elif replica in memory.alive:
            memory.replacing.add(replica)
            self._do(life.StopWorker(replica, at_once=True))
        else:
            self._restart(replica, reason)

    def _restarts_job(self) -> bool:
        return self.plan.restart_job_on_worker_restart and not self.plan.disable_retries

    def _restart(self, replica: str, reason: str, *, new_machine: bool = False) -> None:
        self._note(
            "worker_restart",
            run=self.life.run,
            replica=replica,
            attempt=self.life.attempts[replica],
            reason=reason,
        )
        self._start(replica, new_machine=new_machine)

    def _interruptible(self) -> bool:
        # Once a replica has failed for good, nothing else decides how the run ends.
        return self.life.phase in _BEFORE_STOP and self.life.doomed is None

    def _preempted(self, event: life.Preempted) -> None:
        if self._interruptible():
            self._note("fault", fault="preempt", run=self.life.run)
            self._stop(self._retry(Cause.PREEMPTED))

    def _internal_error(self, event: life.InternalError) -> None:
        if self._interruptible():
            self._note("fault", fault="internal_error", run=self.life.run)
            self._stop(self._retry(Cause.INTERNAL))

    def _job_error(self, event: life.JobError) -> None:
        if self._interruptible():
            self._note("fault", fault="job_error", run=self.life.run)
            self._stop(self._end(Cause.ERROR, State.FAILED, event.code, event.message))

    def _emulator_restarted(self, event: life.EmulatorRestarted) -> None:
        memory = self.life
        memory.alive.clear()
        if memory.phase is Phase.STOPPING:
            self._conclude()
        elif memory.doomed is not None:
            self._stop(self._doom())
        elif memory.phase in _WITH_WORKERS:
            self._note("fault", fault="emulator_restart", run=memory.run)
            self._stop(Verdict(cause=Cause.EMULATOR, state=None))
        elif memory.phase is Phase.PROVISIONING:
            self._do(life.Provision(memory.run))

    # --- limits and cancel ---

    def _cancel_asked(self, event: life.CancelAsked) -> None:
        memory = self.life
        if memory.cancelling:
            return
        memory.cancelling = True
        self._do(life.SetState(State.CANCELLING))
        verdict = self._end(Cause.CANCEL, State.CANCELLED, 1, self._switches["cancel_message"])
        if memory.phase is Phase.STOPPING:
            if memory.verdict is None or memory.verdict.state is None:
                memory.verdict = verdict
        elif memory.doomed is not None:
            doom = self._doom()
            self._stop(doom if doom.state is not None else verdict)
        else:
            self._stop(verdict)

    def _timeout_over(self, event: life.TimeoutOver) -> None:
        self._limit(Cause.TIMEOUT, self._switches["timeout_state"], texts.timeout(self.plan.timeout), 4)

    def _max_wait_over(self, event: life.MaxWaitOver) -> None:
        if self.life.phase is Phase.PROVISIONING and not self.life.started:
            message = texts.stockout(self.plan.region, self._switches["stockout_advice"])
            self._limit(
                Cause.MAX_WAIT, self._switches["max_wait_state"], message, self._switches["stockout_code"]
            )

    def _limit(self, cause: Cause, state: str, message: str, code: int) -> None:
        if self.life.phase is Phase.STOPPING and (
            self.life.verdict is None or self.life.verdict.state is not None
        ):
            return
        verdict = self._end(cause, State[state], 1 if state == "CANCELLED" else code, message)
        if state == "CANCELLED":
            self.life.cancelling = True
            self._do(life.SetState(State.CANCELLING))
        if self.life.phase is Phase.STOPPING:
            self.life.verdict = verdict
        else:
            self._stop(verdict)

    # --- end of a run ---

    def _end(self, cause: Cause, state: State, code: int = 0, message: str = "") -> Verdict:
        return Verdict(cause=cause, state=state, code=code, message=message, retried=bool(self.life.retries))

    def _retry(self, cause: Cause, code: int = 0, message: str = "") -> Verdict:
        """Another run while the cause's count lasts, else FAILED."""
        memory, plan = self.life, self.plan
        allowed = self._switches[RETRY_SWITCH[cause]]
        scope = self._switches["disable_retries_scope"]
        if plan.disable_retries and memory.started and (cause is Cause.INTERNAL or scope == "all"):
            allowed = 0
        if cause in (Cause.STOCKOUT, Cause.PREEMPTED):
            code = self._switches["stockout_code"]
            message = texts.stockout(plan.region, self._switches["stockout_advice"])
        elif cause is Cause.INTERNAL:
            code, message = 13, texts.INTERNAL
        elif cause is Cause.WORKER:
            code, message = self._switches["node_loss_code"], texts.INTERNAL
        used = memory.retries.get(cause.value, 0)
        if used < allowed:
            memory.retries[cause.value] = used + 1
            return Verdict(cause=cause, state=None, message=message)
        return self._end(cause, State.FAILED, code, message)

    def _stop(self, verdict: Verdict) -> None:
        memory = self.life
        memory.phase, memory.verdict, memory.doomed = Phase.STOPPING, verdict, None
        if verdict.state is State.SUCCEEDED:
            self._do(life.Say(texts.TEARING_DOWN))
        for replica in self.plan.replicas:
            if replica in memory.alive:
                self._do(life.StopWorker(replica))
        if not memory.alive:
            self._conclude()

    def _conclude(self) -> None:
        memory = self.life
        verdict = memory.verdict
        if verdict is None:
            return
        if verdict.state is None:
            self._note("retry", run=memory.run, reason=verdict.cause.value)
            self._do(life.Say(verdict.message or texts.INTERNAL, "ERROR"), life.Say(texts.FAILED, "ERROR"))
            if self._switches["retry_state"] == "PENDING":
                self._do(life.SetState(State.PENDING))
            self._next_run()
            return
        memory.phase = Phase.ENDED
        self._do(life.SetState(verdict.state), *_last_words(verdict), life.End(verdict))

    def _note(self, kind: str, **fields: Any) -> None:
        self._do(life.Note(kind, fields))

    def _do(self, *effects: Effect) -> None:
        self._effects += effects


def _last_words(verdict: Verdict) -> list[Effect]:
    if verdict.state is State.SUCCEEDED:
        return [life.Say(texts.TORN_DOWN), life.Say(texts.COMPLETED)]
    if verdict.state is State.CANCELLED:
        return [life.Say(texts.CANCELLED)]
    words: list[Effect] = [life.Say(verdict.message, "ERROR"), life.Say(texts.FAILED, "ERROR")]
    if verdict.retried and verdict.cause in RETRY_SWITCH:
        words.append(life.Say(texts.NO_MORE_RETRIES, "ERROR"))
    return words


_HANDLERS: Mapping[type, Callable[[Lifecycle, Any], None]] = {
    life.Admitted: Lifecycle._admitted,
    life.Provisioned: Lifecycle._provisioned,
    life.NoCapacity: Lifecycle._no_capacity,
    life.WorkerUp: Lifecycle._worker_up,
    life.WorkerExited: Lifecycle._worker_exited,
    life.NodeLost: Lifecycle._node_lost,
    life.Maintenance: Lifecycle._maintenance,
    life.Preempted: Lifecycle._preempted,
    life.InternalError: Lifecycle._internal_error,
    life.JobError: Lifecycle._job_error,
    life.ShutdownDue: Lifecycle._shutdown_due,
    life.CancelAsked: Lifecycle._cancel_asked,
    life.TimeoutOver: Lifecycle._timeout_over,
    life.MaxWaitOver: Lifecycle._max_wait_over,
    life.EmulatorRestarted: Lifecycle._emulator_restarted,
}
