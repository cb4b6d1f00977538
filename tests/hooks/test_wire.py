"""What goes over the wire: credentials only under TLS, every field of the request, both kinds of job."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_provider.agent_platform.hooks import connected
from airflow_provider.agent_platform.hooks.training_job import TUNING_JOB, TrainingJobHook
from airflow_provider.agent_platform.jobs.messages import plain
from tests.hooks.samples import PROJECT, REGION, custom_job, tuning_job
from tests.hooks.secured import Token, connect, trust, use
from tests.hooks.wire import serve


def test_under_tls_every_call_carries_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(tls=True) as wire:
        connect(monkeypatch, wire, "https")
        trust(monkeypatch, wire)
        use(monkeypatch, Token())
        with TrainingJobHook("wire") as hook:
            name = hook.create(custom_job(), project_id=PROJECT, region=REGION).name
            hook.get(name)
            hook.list_jobs(project_id=PROJECT, region=REGION)
            hook.cancel(name)
    assert wire.methods() == [
        "CreateCustomJob", "GetCustomJob", "ListCustomJobs", "ListCustomJobs", "CancelCustomJob",
    ]  # fmt: skip
    for _, _, metadata in wire.requests:
        assert metadata["authorization"] == "Bearer hunter2"
        assert metadata["x-goog-request-params"]


async def test_the_asynchronous_calls_carry_it_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    token = Token()
    with serve(tls=True) as wire:
        connect(monkeypatch, wire, "https")
        trust(monkeypatch, wire)
        use(monkeypatch, token)
        hook = TrainingJobHook("wire")
        await hook.aget(f"projects/{PROJECT}/locations/{REGION}/customJobs/7")
        await hook.aclose()
    assert [metadata["authorization"] for _, _, metadata in wire.requests] == ["Bearer hunter2"]
    assert threading.get_ident() not in token.threads


def test_without_tls_no_credentials_are_made_or_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(info: Any, chain: Any) -> Any:
        raise AssertionError("credentials were made for an endpoint without TLS")

    monkeypatch.setattr(connected, "load_credentials", load)
    with serve() as wire:
        connect(monkeypatch, wire, "http")
        with TrainingJobHook("wire") as hook:
            hook.create(custom_job(), project_id=PROJECT, region=REGION)
    ((_, _, metadata),) = wire.requests
    assert "authorization" not in metadata


def test_a_tuning_job_is_created_read_listed_and_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = tuning_job()
    with serve() as wire:
        connect(monkeypatch, wire, "http")
        with TrainingJobHook("wire") as hook:
            where: dict[str, Any] = {"project_id": PROJECT, "region": REGION, "job_type": TUNING_JOB}
            created = hook.create(payload, **where)
            assert created.name == f"projects/{PROJECT}/locations/{REGION}/hyperparameterTuningJobs/7"
            assert hook.get(created.name).state == 3
            assert [job.display_name for job in hook.list_jobs(**where)] == [
                "first-0", "first-1", "second-0", "second-1",
            ]  # fmt: skip
            assert hook.cancel(created.name) is True
    assert wire.methods() == [
        "CreateHyperparameterTuningJob",
        "GetHyperparameterTuningJob",
        "ListHyperparameterTuningJobs",
        "ListHyperparameterTuningJobs",
        "CancelHyperparameterTuningJob",
    ]
    assert plain(wire.requests[0][1].hyperparameter_tuning_job) == payload


async def test_tuning_jobs_are_read_in_an_event_loop_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve() as wire:
        connect(monkeypatch, wire, "http")
        hook = TrainingJobHook("wire")
        where: dict[str, Any] = {"project_id": PROJECT, "region": REGION, "job_type": TUNING_JOB}
        names = [job.display_name async for job in hook.alist(**where, read_mask=["name"])]
        assert names == ["first-0", "first-1", "second-0", "second-1"]
        name = f"projects/{PROJECT}/locations/{REGION}/hyperparameterTuningJobs/7"
        assert (await hook.aget(name)).state == 3
        assert await hook.acancel(name) is True
        await hook.aclose()
    assert list(wire.requests[0][1].read_mask.paths) == ["name"]


def test_the_request_holds_what_was_given_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = custom_job(labels={"team": "a"}, strategy="SPOT", run_timeout="PT1H")
    with serve() as wire:
        connect(monkeypatch, wire, "http")
        with TrainingJobHook("wire") as hook:
            hook.create(payload, project_id=PROJECT, region=REGION)
            hook.list_jobs(
                project_id=PROJECT, region=REGION, filter='labels.a="b"', read_mask=["name"], page_size=7
            )
    request = wire.requests[0][1]
    assert request.parent == f"projects/{PROJECT}/locations/{REGION}"
    assert plain(request.custom_job) == payload
    listed = wire.requests[1][1]
    assert (listed.filter, listed.page_size, list(listed.read_mask.paths)) == ('labels.a="b"', 7, ["name"])


def test_both_kinds_of_calls_use_the_same_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def load(info: Any, chain: Any) -> Any:
        made.append(chain)
        return Token(), "p"

    monkeypatch.setattr(connected, "load_credentials", load)
    hook = TrainingJobHook("google_cloud_default", ["a@p", "b@p"])
    assert hook.credentials() is hook.credentials()
    assert hook.project_id() == "p"
    assert made == [["a@p", "b@p"]]
