"""Metrics: Airflow's own, by fixed names, and never in the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.triggers import live_state, metrics, supervisor
from airflow_provider.agent_platform.triggers.poller_registry import poller_for
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.view import JobView
from tests.triggers.fake_airflow import TaskInstance
from tests.triggers.fake_service import FakeService, api_error, job_name
from tests.triggers.virtual_time import run


class Stats:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, float, dict[str, str]]] = []

    def __getattr__(self, method: str) -> Any:
        return lambda name, value, tags: self.calls.append((method, name, value, tags))


def test_a_loop_counts_its_calls_errors_and_jobs_by_kind_and_region(monkeypatch: Any) -> None:
    stats, service = Stats(), FakeService()
    monkeypatch.setattr(metrics, "_stats", lambda: stats)

    async def scenario() -> None:
        key = PollKey.of(job_name(1), gcp_conn_id="c")
        service.fail(api_error("ServiceUnavailable", "503"), times=1)
        with poller_for(key, reader_factory=service.reader).subscribe(
            service.put(1, JobState.RUNNING), interval=30
        ):
            await asyncio.sleep(100)

    run(scenario())
    made = [call for call in stats.calls if call[1] == "agent_platform.poll.calls"]
    assert len(made) == sum(service.calls.values())
    assert [call[1] for call in stats.calls].count("agent_platform.poll.errors") == 1
    assert ("gauge", "agent_platform.poll.jobs", 1, made[0][3]) in stats.calls
    assert any(call[1] == "agent_platform.poll.lag_seconds" and 0 <= call[2] < 5 for call in stats.calls)
    assert {tuple(sorted(call[3].items())) for call in stats.calls} == {
        (("kind", "custom_job"), ("region", "us-central1"))
    }


def test_metrics_that_fail_disturb_nothing(monkeypatch: Any) -> None:
    def broken() -> Any:
        raise RuntimeError("no statsd")

    monkeypatch.setattr(metrics, "_stats", broken)
    metrics.incr("a", tags={})
    metrics.gauge("a", 1.0, tags={})
    metrics.seconds("a", 1.0, tags={})


def test_airflows_stats_take_what_we_give() -> None:
    stats = metrics._stats()
    for method in ("incr", "gauge", "timing"):
        assert callable(getattr(stats, method))
    stats.incr(metrics.POLL_CALLS, 1, tags={"kind": "custom_job"})
    stats.gauge(metrics.POLL_JOBS, 1.0, tags={"kind": "custom_job"})
    stats.timing(metrics.JOB_RUN_SECONDS, 1.0, tags={"kind": "custom_job"})


@pytest.mark.parametrize("ti", [None, TaskInstance()])
def test_live_states_that_pile_up_are_left_out(monkeypatch: Any, ti: Any) -> None:
    async def scenario() -> int:
        hanging = asyncio.Event()

        async def write(*arguments: Any) -> None:
            await hanging.wait()

        monkeypatch.setattr(supervisor, "set_xcom", write)
        view = JobView(name=job_name(1), state=JobState.RUNNING)
        started = sum(live_state.publish(ti, view) for _ in range(100))
        hanging.set()
        await asyncio.sleep(1)
        assert not live_state._WRITING
        return started

    assert run(scenario()) == (0 if ti is None else live_state.WRITES_AT_ONCE)
