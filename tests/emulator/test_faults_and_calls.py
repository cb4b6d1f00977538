"""Faults of calls and of lists, what matches what, and how often a fault fires."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.api_core import exceptions

from airflow_provider.agent_platform.emulator.client import ControlError
from airflow_provider.agent_platform.emulator.faults import (
    FAULTS,
    REQUIRED,
    FaultError,
    Faults,
    Target,
    read_fault,
)

Make = Callable[..., dict[str, Any]]


def count(cloud: Any, parent: str) -> int:
    return len(list(cloud.client.list_custom_jobs(parent=parent, retry=None)))


# --- rpc_error ---


def test_a_call_fails_before_it_took_effect(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    still.control.add_fault("rpc_error", method="CreateCustomJob", code="UNAVAILABLE")
    with pytest.raises(exceptions.ServiceUnavailable, match="currently unavailable"):
        still.create(make_job(make_pool()))
    assert count(still, parent) == 0
    still.create(make_job(make_pool()))
    assert count(still, parent) == 1


def test_a_create_is_stored_and_then_fails(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    still.control.add_fault(
        "rpc_error", method="CreateCustomJob", code="UNAVAILABLE", after_effect=True, message="lost"
    )
    with pytest.raises(exceptions.ServiceUnavailable, match="lost"):
        still.create(make_job(make_pool()))
    assert count(still, parent) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [("INTERNAL", exceptions.InternalServerError), ("RESOURCE_EXHAUSTED", exceptions.TooManyRequests),
     ("DEADLINE_EXCEEDED", exceptions.DeadlineExceeded), ("NOT_FOUND", exceptions.NotFound),
     ("ABORTED", exceptions.Aborted)],
)  # fmt: skip
def test_a_read_fails_with_the_code_that_is_asked_for(
    code: str, kind: type[Exception], still: Any, make_job: Make, make_pool: Make
) -> None:
    name = still.create(make_job(make_pool()))
    still.control.add_fault("rpc_error", method="GetCustomJob", code=code, times=2)
    for _ in range(2):
        with pytest.raises(kind):
            still.client.get_custom_job(name=name, retry=None)
    assert still.get(name).name == name


def test_a_fault_without_a_method_hits_any_call(still: Any, parent: str) -> None:
    still.control.add_fault("rpc_error", times=1)
    with pytest.raises(exceptions.ServiceUnavailable):
        count(still, parent)


def test_a_fault_of_one_region_leaves_the_others(still: Any, parent: str) -> None:
    still.control.add_fault("rpc_error", match={"region": "europe-west4"}, times=None)
    assert count(still, parent) == 0
    with pytest.raises(exceptions.ServiceUnavailable):
        count(still, parent.replace("us-central1", "europe-west4"))


def failed_calls(cloud: Any, parent: str, calls: int) -> list[int]:
    """Which of so many calls failed, counted from 1."""
    failed = []
    for number in range(1, calls + 1):
        try:
            count(cloud, parent)
        except exceptions.ServiceUnavailable:
            failed.append(number)
    return failed


def test_with_every_each_so_many_th_call_fails(still: Any, parent: str) -> None:
    still.control.add_fault("rpc_error", method="ListCustomJobs", every=3, times=None)
    assert failed_calls(still, parent, 10) == [3, 6, 9]


def test_with_every_times_counts_the_calls_that_failed(still: Any, parent: str) -> None:
    still.control.add_fault("rpc_error", method="ListCustomJobs", every=2, times=2)
    assert failed_calls(still, parent, 8) == [2, 4]
    assert [(fault["every"], fault["times"], fault["fired"]) for fault in still.control.faults()] == [
        (2, 0, 2)
    ]


def test_every_counts_the_calls_that_are_meant_and_no_others(still: Any, parent: str) -> None:
    still.control.add_fault("rpc_error", method="ListCustomJobs", match={"region": "us-central1"}, every=2)
    assert failed_calls(still, parent.replace("us-central1", "europe-west4"), 3) == []
    with pytest.raises(exceptions.NotFound):
        still.get(f"{parent}/customJobs/1")
    assert failed_calls(still, parent, 2) == [2]


def test_a_call_that_one_fault_lets_pass_can_be_hit_by_the_next(still: Any, parent: str) -> None:
    still.control.add_fault("rpc_error", every=3, times=None)
    still.control.add_fault("rpc_error", every=4, times=None)
    # The second is not asked about what the first has hit: it meets calls 1, 2, 4 and 5.
    assert failed_calls(still, parent, 6) == [3, 5, 6]


# --- rpc_hang ---


def test_each_so_many_th_call_hangs(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool()))
    still.control.add_fault("rpc_hang", method="GetCustomJob", every=2)
    assert still.client.get_custom_job(name=name, timeout=20, retry=None).name == name
    with pytest.raises(exceptions.DeadlineExceeded):
        still.client.get_custom_job(name=name, timeout=0.5)


def test_a_hanging_call_ends_with_the_callers_deadline_and_harms_no_other(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    name = still.create(make_job(make_pool()))
    still.control.add_fault("rpc_hang", method="GetCustomJob")
    started = time.monotonic()
    with pytest.raises(exceptions.DeadlineExceeded):
        still.client.get_custom_job(name=name, timeout=0.5)
    assert time.monotonic() - started >= 0.45
    assert still.get(name).name == name


def test_a_reset_lets_go_of_hanging_calls(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool()))
    still.control.add_fault("rpc_hang", method="GetCustomJob")
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(still.client.get_custom_job, name=name, timeout=30)
        deadline = time.monotonic() + 10
        while not still.control.faults()[0]["fired"]:
            assert time.monotonic() < deadline
        still.control.reset()
        with pytest.raises(exceptions.ServiceUnavailable):
            pending.result(timeout=10)


# --- job_error ---


def test_a_job_fails_for_good_with_the_error_that_is_asked_for(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("job_error", code="ABORTED", message="Something else went wrong.")
    found = still.run(make_job(make_pool()))
    assert (found.state.name, found.error.code, found.error.message) == (
        "JOB_STATE_FAILED", 10, "Something else went wrong.",
    )  # fmt: skip
    assert (still.runs(found.name), still.events(found.name, "worker_start")) == (1, [])
    assert still.run(make_job(make_pool())).state.name == "JOB_STATE_SUCCEEDED"


def test_a_job_fails_so_after_it_ran(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("job_error", message="No.", after_seconds=20)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="500")))
    assert (found.error.code, found.error.message) == (13, "No.")
    assert found.end_time.timestamp() - found.start_time.timestamp() == pytest.approx(20, abs=0.1)
    assert still.runs(found.name) == 1


# --- list_lag ---


def test_list_does_not_show_young_jobs(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    still.control.add_fault("list_lag", seconds=30)
    name = still.create(make_job(make_pool()))
    assert count(still, parent) == 0
    assert still.get(name).name == name
    still.advance(31)
    assert count(still, parent) == 1


def test_a_lag_of_one_call_is_over_with_the_next(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    still.control.add_fault("list_lag", seconds=30, times=1)
    still.create(make_job(make_pool()))
    assert [count(still, parent), count(still, parent)] == [0, 1]


def test_a_lag_of_some_jobs_shows_the_others(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    still.control.add_fault("list_lag", seconds=30, match={"display_name": "late*"})
    still.create(make_job(make_pool(), name="late-1"))
    still.create(make_job(make_pool(), name="seen"))
    assert [found.display_name for found in still.client.list_custom_jobs(parent=parent)] == ["seen"]


# --- matching and times ---


def test_times_counts_firings_also_repeated_ones_on_one_job(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("stockout", times=3)
    first = still.run(make_job(make_pool()))
    second = still.run(make_job(make_pool()))
    assert (still.runs(first.name), still.runs(second.name)) == (4, 1)
    assert [(fault["times"], fault["fired"]) for fault in still.control.faults()] == [(0, 3)]


def test_a_fault_hits_only_what_it_matches(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("internal_error", match={"display_name": "train-*"}, times=9)
    assert still.runs(still.run(make_job(make_pool(), name="train-1")).name) == 3
    assert still.runs(still.run(make_job(make_pool(), name="serve-1")).name) == 1


@pytest.mark.parametrize("fault", ["preempt", "internal_error", "job_error", "node_loss", "maintenance"])
def test_without_after_seconds_a_fault_on_a_live_job_acts_at_once(
    fault: str, still: Any, make_job: Make, make_pool: Make
) -> None:
    name = still.create(make_job(make_pool(EMULATE_RUN_SECONDS="500")))
    still.advance(100)
    assert not still.events(name, "fault")
    more = {"message": "No."} if fault == "job_error" else {}
    still.control.add_fault(fault, match={"job": name.rpartition("/")[2]}, **more)
    still.advance(0.01)
    assert [event["fault"] for event in still.events(name, "fault")] == [fault]


def test_after_seconds_on_a_live_job_counts_from_running(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool(EMULATE_RUN_SECONDS="500")))
    still.advance(101)
    still.control.add_fault("preempt", after_seconds=150, match={"job": name})
    still.advance(49)
    assert not still.events(name, "fault")
    still.advance(2)
    assert len(still.events(name, "fault")) == 1


def test_a_fault_that_was_deleted_does_not_strike(still: Any, make_job: Make, make_pool: Make) -> None:
    fault = still.control.add_fault("preempt", after_seconds=100)
    name = still.create(make_job(make_pool(EMULATE_RUN_SECONDS="500")))
    still.advance(50)
    still.control.remove_fault(fault)
    still.advance(400)
    assert not still.events(name, "fault")


def test_one_firing_for_two_jobs_strikes_only_one(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("preempt", after_seconds=10)
    names = [still.create(make_job(make_pool(EMULATE_RUN_SECONDS="100"))) for _ in range(2)]
    still.advance(500)
    assert sorted(still.runs(name) for name in names) == [1, 2]


def test_calls_counts_refused_calls_and_no_control_calls(still: Any, parent: str) -> None:
    count(still, parent)
    with pytest.raises(exceptions.NotFound):
        still.get(f"{parent}/customJobs/1")
    with pytest.raises(exceptions.MethodNotImplemented):
        still.client.list_batch_prediction_jobs(parent=parent)
    still.control.faults()
    assert still.control.calls() == {"ListCustomJobs": 1, "GetCustomJob": 1, "ListBatchPredictionJobs": 1}


# --- bad input ---


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("stockout", "object"),
        ({}, "fault"),
        ({"fault": "meteor"}, "meteor"),
        ({"fault": "stockout", "replica": "workerpool0-0"}, "replica"),
        ({"fault": "stockout", "times": 0}, "times"),
        ({"fault": "stockout", "times": "2"}, "times"),
        ({"fault": "stockout", "after_seconds": 3}, "after_seconds"),
        ({"fault": "preempt", "after_seconds": -1}, "after_seconds"),
        ({"fault": "preempt", "after_seconds": float("nan")}, "after_seconds"),
        ({"fault": "node_loss", "replica": "worker-1"}, "replica"),
        ({"fault": "slow_start"}, "seconds"),
        ({"fault": "rpc_error", "code": "OOPS"}, "code"),
        ({"fault": "rpc_error", "every": 0}, "every"),
        ({"fault": "rpc_error", "every": 2.5}, "every"),
        ({"fault": "rpc_hang", "every": True}, "every"),
        ({"fault": "stockout", "every": 2}, "every"),
        ({"fault": "job_error"}, "message"),
        ({"fault": "job_error", "message": ""}, "message"),
        ({"fault": "job_error", "message": "No.", "code": "OK"}, "code"),
        ({"fault": "rpc_error", "after_effect": "yes"}, "after_effect"),
        ({"fault": "stockout", "match": {"name": "x"}}, "match"),
        ({"fault": "stockout", "match": {"job": 7}}, "match"),
        ({"fault": "list_lag", "seconds": True}, "seconds"),
    ],
)
def test_a_fault_that_cannot_be_understood_names_the_field(body: Any, named: str) -> None:
    with pytest.raises(FaultError, match=named):
        read_fault(body, "1")


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_every_fault_takes_the_template_of_the_documents(name: str) -> None:
    values = {"seconds": 1, "message": "No."}
    more = {key: values[key] for key in REQUIRED.get(name, ())}
    fault = read_fault({"fault": name, "match": {}, "times": 1, "after_seconds": 0, **more}, "1")
    assert (fault.name, fault.times) == (name, 1)


def test_a_glob_matches_the_whole_name() -> None:
    faults = Faults()
    faults.add({"fault": "stockout", "match": {"display_name": "a*c"}})
    assert not list(faults.matching("stockout", Target(display_name="abcd")))
    assert list(faults.matching("stockout", Target(display_name="abc")))


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/faults", {"fault": "x"}, 400),
        ("GET", "/faults/9", None, 404),
        ("DELETE", "/faults/9", None, 404),
        ("GET", "/jobs/9/events", None, 404),
        ("PUT", "/quotas", {"us-central1": {"cpus": -1}}, 400),
        ("GET", "/nothing", None, 404),
    ],
)
def test_a_wrong_control_call_is_refused_and_the_emulator_lives_on(
    method: str, path: str, body: Any, status: int, still: Any, parent: str
) -> None:
    with pytest.raises(ControlError) as refused:
        still.control.call(method, path, body)
    assert refused.value.status == status
    assert count(still, parent) == 0
