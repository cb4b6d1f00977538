"""What is counted about ended jobs and decisions."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.agent_platform.exceptions import UserCodeError
from airflow_provider.agent_platform.operators.steps import WaitForJob, WaitUntil
from airflow_provider.agent_platform.triggers import metrics
from tests.operators.setting import Setting

NO_CAPACITY = "Resources are insufficient in region: us-central1."


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []

    def note(name: str, *_: Any, tags: dict[str, str]) -> None:
        found.append((name, tags))

    monkeypatch.setattr(metrics, "incr", note)
    monkeypatch.setattr(metrics, "seconds", note)
    return found


def test_a_failure_is_measured_once_by_kind_and_region(counted: list[tuple[str, dict[str, str]]]) -> None:
    setting = Setting()
    setting.start()
    name = setting.platform.creates[-1]
    setting.platform.end(name, "FAILED", "The replica workerpool0-0 exited with a non-zero status of 1.", 3)
    with pytest.raises(UserCodeError):
        setting.resume(name)
    tags = {"kind": "USER_CODE", "region": "us-central1"}
    assert counted == [
        (metrics.JOB_QUEUE_SECONDS, tags),
        (metrics.JOB_RUN_SECONDS, tags),
        (metrics.JOB_DECISIONS, {**tags, "action": "FAIL"}),
    ]


def test_a_requeue_is_counted_once_although_it_waits(counted: list[tuple[str, dict[str, str]]]) -> None:
    setting = Setting()
    setting.start()
    name = setting.platform.creates[-1]
    setting.platform.end(name, "FAILED", NO_CAPACITY, 8)
    step = setting.resume(name)
    assert isinstance(step, WaitUntil)
    setting.platform.time.moment = step.moment
    assert isinstance(setting.wait_over(step.carried), WaitForJob)
    names = [name for name, _ in counted]
    assert names.count(metrics.JOB_REQUEUES) == 1
    assert names.count(metrics.JOB_DECISIONS) == 1
