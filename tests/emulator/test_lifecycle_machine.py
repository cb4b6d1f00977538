"""The state machine by itself: whatever happens, in whatever order, some things always hold."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.agent_platform.emulator import life
from airflow_provider.agent_platform.emulator.config import Config
from airflow_provider.agent_platform.emulator.life import Event, JobPlan, Life, Phase
from airflow_provider.agent_platform.emulator.lifecycle import Lifecycle
from airflow_provider.agent_platform.emulator.states import ENDS, State
from airflow_provider.agent_platform.emulator.texts import Exit

SWITCHES = Config().switches
REPLICAS = ("workerpool0-0", "workerpool1-0", "workerpool1-1")

ALLOWED = {
    State.QUEUED: {State.PENDING, State.CANCELLING, State.FAILED},
    State.PENDING: {State.RUNNING, State.CANCELLING, State.FAILED, State.PENDING},
    State.RUNNING: {State.PENDING, State.SUCCEEDED, State.FAILED, State.CANCELLING},
    State.CANCELLING: {State.CANCELLED, State.SUCCEEDED, State.FAILED},
}
"""Platform facts, section 1: the only changes of state there are."""


def plan(**more: Any) -> JobPlan:
    return JobPlan(job_id="1" * 19, project="1", region="us-central1", replicas=REPLICAS, **more)


class World:
    """Does what the lifecycle asks, without time or processes."""

    def __init__(self, made: JobPlan) -> None:
        self.machine = Lifecycle(made, SWITCHES)
        self.states = [State.QUEUED]
        self.alive: set[tuple[str, int, int]] = set()
        self.pending: list[Event] = []
        self.ends = 0

    def happen(self, event: Event) -> None:
        for effect in self.machine.handle(event):
            if isinstance(effect, life.SetState) and effect.state != self.states[-1]:
                self.states.append(effect.state)
            elif isinstance(effect, life.Provision):
                self.pending.append(life.Provisioned(effect.run))
            elif isinstance(effect, life.StartWorker):
                self.alive.add((effect.replica, effect.run, effect.attempt))
                self.pending.append(life.WorkerUp(effect.replica, effect.run))
            elif isinstance(effect, life.StopWorker):
                run = self.machine.life.run
                attempt = self.machine.life.attempts[effect.replica] - 1
                self.pending.append(life.WorkerExited(run, attempt, Exit(replica=effect.replica, code=143)))
            elif isinstance(effect, life.After):
                if not isinstance(effect.event, (life.TimeoutOver, life.MaxWaitOver)):
                    self.pending.append(effect.event)
            elif isinstance(effect, life.End):
                self.ends += 1
        if isinstance(event, life.WorkerExited):
            self.alive.discard((event.exit.replica, event.run, event.attempt))

    def exit(self, replica: str, code: int, reason: str = "Error") -> None:
        memory = self.machine.life
        if replica in memory.alive:
            attempt = memory.attempts[replica] - 1
            self.happen(
                life.WorkerExited(memory.run, attempt, Exit(replica=replica, code=code, reason=reason))
            )

    def settle(self, most: int = 2000) -> None:
        """Let everything that is under way happen."""
        for _ in range(most):
            if not self.pending:
                return
            self.happen(self.pending.pop(0))
        raise AssertionError("it never comes to rest")


replica = st.sampled_from(REPLICAS)
step = st.one_of(
    st.tuples(st.just("settle")),
    st.tuples(st.just("one")),
    st.tuples(st.just("exit"), replica, st.sampled_from([0, 1, 11, 134, 137]), st.sampled_from(["Error", "OOMKilled"])),
    st.tuples(st.just("event"), st.builds(life.NodeLost, replica)),
    st.tuples(st.just("event"), st.builds(life.Maintenance, replica)),
    st.tuples(
        st.just("event"),
        st.sampled_from(
            [life.Preempted(), life.InternalError(), life.JobError(13, "no"), life.CancelAsked(), life.TimeoutOver(),
             life.MaxWaitOver(), life.EmulatorRestarted(), life.Admitted(), life.NoCapacity(1), life.NoCapacity(2)]
        ),
    ),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(step, max_size=60), st.booleans(), st.booleans(), st.booleans())
def test_whatever_happens_the_rules_hold(steps: list[Any], restart: bool, disable: bool, flex: bool) -> None:
    world = World(plan(restart_job_on_worker_restart=restart, disable_retries=disable, flex_start=flex))
    world.happen(life.Admitted())
    for kind, *rest in steps:
        if kind == "settle":
            world.settle()
        elif kind == "one" and world.pending:
            world.happen(world.pending.pop(0))
        elif kind == "exit":
            world.exit(*rest)
        elif kind == "event":
            if isinstance(rest[0], life.EmulatorRestarted):
                world.pending.clear()
                world.alive.clear()
                reread = Life.from_json(json.loads(json.dumps(world.machine.life.to_json())))
                assert reread == world.machine.life
                world.machine.life = reread
            world.happen(rest[0])
        assert world.machine.life.alive <= set(REPLICAS)
    for before, after in zip(world.states, world.states[1:], strict=False):
        assert after in ALLOWED[before], world.states
    assert world.ends == (1 if world.machine.life.phase is Phase.ENDED else 0)
    world.settle()
    # Left alone, a job is waiting for its workers or has ended; a cancel then always ends it.
    world.happen(life.CancelAsked())
    world.settle()
    assert world.machine.life.phase is Phase.ENDED
    assert world.states[-1] in ENDS
    assert not world.alive, "a worker outlived its job"
    assert world.ends == 1
    assert world.machine.handle(life.Preempted()) == []


@given(st.sampled_from([6, 11, 134, 139, 1, 2]), st.integers(1, 30))
def test_runs_are_bounded_whatever_fails(code: int, tries: int) -> None:
    world = World(plan())
    world.happen(life.Admitted())
    for _ in range(tries):
        world.settle()
        world.exit("workerpool1-0", code)
        world.happen(life.Preempted())
        world.happen(life.InternalError())
    assert world.machine.life.run <= 1 + 3 + 6 + 2


def test_what_comes_too_late_changes_nothing() -> None:
    world = World(plan())
    world.happen(life.Admitted())
    world.settle()
    world.happen(life.Preempted())
    world.settle()
    assert world.machine.life.run == 2
    before = world.machine.life.to_json()
    for late in (
        life.Provisioned(1),
        life.NoCapacity(1),
        life.WorkerUp("workerpool0-0", 1),
        life.ShutdownDue(1),
        life.WorkerExited(1, 0, Exit(replica="workerpool0-0", code=0)),
        life.WorkerExited(2, 7, Exit(replica="workerpool0-0", code=0)),
    ):
        assert world.machine.handle(late) == []
    assert world.machine.life.to_json() == before


def test_a_second_cancel_does_nothing() -> None:
    world = World(plan())
    world.happen(life.Admitted())
    world.settle()
    world.happen(life.CancelAsked())
    assert world.machine.handle(life.CancelAsked()) == []
