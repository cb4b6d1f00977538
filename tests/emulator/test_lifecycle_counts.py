"""Platform facts, sections 1 to 3: how often the platform tries again, and how it ends.

On a clock that stands still, with simulated workers, through Google's client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Make = Callable[..., dict[str, Any]]
STOCKOUT = "Resources are insufficient in region: us-central1. Please try a different region or use a different accelerator."
INTERNAL = "Internal error occurred for the current attempt."


def exits(code: int) -> dict[str, str]:
    return {"EMULATE_EXIT_CODE": str(code), "EMULATE_RUN_SECONDS": "5"}


# --- section 1 ---


def test_a_job_goes_from_queued_over_pending_and_running_to_its_success(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="5")))
    assert still.states(found.name) == ["QUEUED", "PENDING", "RUNNING", "SUCCEEDED"]
    assert found.start_time.timestamp() == pytest.approx(found.create_time.timestamp() + 1, abs=0.01)
    assert found.end_time.timestamp() == pytest.approx(found.start_time.timestamp() + 5, abs=0.01)
    assert not found.error.code


def test_create_answers_pending(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    answer = still.client.create_custom_job(parent=parent, custom_job=make_job(make_pool()))
    assert answer.state.name == "JOB_STATE_PENDING"
    assert not answer.start_time


def test_running_means_that_all_workers_are_there(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("slow_start", replica="workerpool1-0", seconds=600)
    body = make_job(make_pool(EMULATE_RUN_SECONDS="9000"), make_pool(EMULATE_RUN_SECONDS="9000"))
    name = still.create(body)
    still.advance(300)
    assert still.get(name).state.name == "JOB_STATE_PENDING"
    assert [event["replica"] for event in still.events(name, "worker_start")] == ["workerpool0-0"]
    still.advance(310)
    assert still.get(name).state.name == "JOB_STATE_RUNNING"


def test_a_worker_that_fails_before_running_takes_the_job_from_pending_to_failed(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("slow_start", replica="workerpool1-0", seconds=6000)
    found = still.run(make_job(make_pool(**exits(1)), make_pool()))
    assert still.states(found.name) == ["QUEUED", "PENDING", "FAILED"]
    assert not found.start_time


def test_a_primary_that_is_done_before_running_waits_for_it(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("slow_start", replica="workerpool1-0", seconds=100)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="1"), make_pool(EMULATE_RUN_SECONDS="9000")))
    assert still.states(found.name) == ["QUEUED", "PENDING", "RUNNING", "SUCCEEDED"]


def test_the_primarys_exit_zero_ends_the_job_and_the_other_workers(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    body = make_job(make_pool(EMULATE_RUN_SECONDS="5"), make_pool(replicas=2, EMULATE_RUN_SECONDS="9000"))
    found = still.run(body, 60)
    assert found.state.name == "JOB_STATE_SUCCEEDED"
    killed = {event["replica"] for event in still.events(found.name, "worker_kill")}
    assert killed == {"workerpool1-0", "workerpool1-1"}


def test_another_workers_exit_zero_does_not_end_the_job(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool(EMULATE_RUN_SECONDS="900"), make_pool(EMULATE_RUN_SECONDS="5")))
    still.advance(100)
    assert still.get(name).state.name == "JOB_STATE_RUNNING"
    assert not still.events(name, "worker_restart")


def test_the_error_comes_a_minute_after_the_end(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool(**exits(1))))
    still.advance(20)
    found = still.get(name)
    assert (found.state.name, found.error.code, found.error.message) == ("JOB_STATE_FAILED", 0, "")
    still.advance(60)
    assert still.get(name).error.code == 3
    assert still.events(name)[-1]["kind"] == "error"


def test_start_time_is_the_first_running(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("preempt", after_seconds=100)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="500"), scheduling={"strategy": "SPOT"}))
    assert still.states(found.name) == ["QUEUED", "PENDING", "RUNNING", "PENDING", "RUNNING", "SUCCEEDED"]
    assert found.start_time.timestamp() == pytest.approx(found.create_time.timestamp() + 1, abs=0.01)


@pytest.mark.parametrize("moment", [0.0, 0.5, 3.0])
def test_a_cancel_ends_a_live_job_with_code_1(
    moment: float, still: Any, make_job: Make, make_pool: Make
) -> None:
    name = still.create(make_job(make_pool(EMULATE_RUN_SECONDS="500")))
    still.advance(moment)
    still.client.cancel_custom_job(name=name)
    still.advance(1)
    found = still.get(name)
    assert (found.state.name, found.error.code) == ("JOB_STATE_CANCELLED", 1)
    assert found.end_time
    assert still.states(name)[-2:] == ["CANCELLING", "CANCELLED"]


def test_a_cancel_of_an_ended_job_does_nothing(still: Any, make_job: Make, make_pool: Make) -> None:
    found = still.run(make_job(make_pool()))
    still.client.cancel_custom_job(name=found.name)
    still.advance(10)
    assert still.get(found.name).state.name == "JOB_STATE_SUCCEEDED"


def test_a_cancel_too_late_may_still_end_in_failed(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool(**exits(1))))
    still.advance(6.5)
    still.client.cancel_custom_job(name=name)
    still.advance(100)
    assert still.states(name)[-2:] == ["CANCELLING", "FAILED"]
    assert still.get(name).error.code == 3


def test_the_timeout_counts_from_running_and_cancels_with_code_1(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("stockout", times=3)
    body = make_job(make_pool(EMULATE_RUN_SECONDS="90000"), scheduling={"timeout": "600s"})
    name = still.create(body)
    still.advance(4 + 599)
    assert still.get(name).state.name == "JOB_STATE_RUNNING"
    still.advance(2)
    found = still.get(name)
    assert (found.state.name, found.error.code) == ("JOB_STATE_CANCELLED", 1)


def test_the_timeout_counts_over_all_runs(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("preempt", after_seconds=400)
    body = make_job(
        make_pool(EMULATE_RUN_SECONDS="90000"), scheduling={"timeout": "600s", "strategy": "SPOT"}
    )
    found = still.run(body, 620)
    assert found.state.name == "JOB_STATE_CANCELLED"
    assert still.runs(found.name) == 2


def test_without_a_timeout_a_job_may_run_seven_days(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool(EMULATE_RUN_SECONDS="9000000")))
    still.advance(7 * 86400)
    assert still.get(name).state.name == "JOB_STATE_RUNNING"
    still.advance(10)
    assert still.get(name).state.name == "JOB_STATE_CANCELLED"


# --- section 2 ---


@pytest.mark.parametrize("code", [1, 2, 126, 127, 128, 137, 143, 255])
def test_a_plain_exit_is_permanent_but_the_worker_is_seen_to_restart(
    code: int, still: Any, make_job: Make, make_pool: Make
) -> None:
    found = still.run(make_job(make_pool(**exits(code))))
    assert found.state.name == "JOB_STATE_FAILED"
    assert found.error.code == 3
    assert f"The replica workerpool0-0 exited with a non-zero status of {code}." in found.error.message
    assert still.runs(found.name) == 1
    kinds = [event["kind"] for event in still.events(found.name)]
    assert kinds.index("worker_exit") < kinds.index("worker_restart") < kinds.index("error")
    assert still.events(found.name, "worker_exit")[0]["exit_code"] == code


@pytest.mark.parametrize("code", [6, 134, 11, 139])
def test_a_crash_is_run_four_times(code: int, still: Any, make_job: Make, make_pool: Make) -> None:
    found = still.run(make_job(make_pool(**exits(code))))
    assert (found.state.name, found.error.code) == ("JOB_STATE_FAILED", 3)
    assert still.runs(found.name) == 4
    assert still.states(found.name).count("PENDING") == 4
    assert "Job will not be retried, max error retry attempts reached." in still.lines(found.name, "service")


@pytest.mark.parametrize(
    ("times", "runs", "state"), [(1, 2, "SUCCEEDED"), (3, 4, "SUCCEEDED"), (4, 4, "FAILED")]
)
def test_a_stockout_is_tried_four_times(
    times: int, runs: int, state: str, still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("stockout", times=times)
    found = still.run(make_job(make_pool()))
    assert (found.state.name, still.runs(found.name)) == (f"JOB_STATE_{state}", runs)
    if state == "FAILED":
        assert (found.error.code, found.error.message) == (8, STOCKOUT)
        assert still.states(found.name) == ["QUEUED", "PENDING", "FAILED"]
        assert not found.start_time


@pytest.mark.parametrize(("times", "runs", "state"), [(6, 7, "SUCCEEDED"), (7, 7, "FAILED")])
def test_spot_restarts_six_times_and_then_reports_a_stockout(
    times: int, runs: int, state: str, still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("preempt", times=times, after_seconds=10)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="60"), scheduling={"strategy": "SPOT"}))
    assert (found.state.name, still.runs(found.name)) == (f"JOB_STATE_{state}", runs)
    if state == "FAILED":
        assert (found.error.code, found.error.message) == (8, STOCKOUT)
        assert found.start_time


@pytest.mark.parametrize("after", [None, 10])
@pytest.mark.parametrize(("times", "runs", "state"), [(2, 3, "SUCCEEDED"), (3, 3, "FAILED")])
def test_an_internal_error_is_tried_three_times(
    after: int | None, times: int, runs: int, state: str, still: Any, make_job: Make, make_pool: Make
) -> None:
    options = {} if after is None else {"after_seconds": after}
    still.control.add_fault("internal_error", times=times, **options)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="60")))
    assert (found.state.name, still.runs(found.name)) == (f"JOB_STATE_{state}", runs)
    if state == "FAILED":
        assert (found.error.code, found.error.message) == (13, INTERNAL)
        started = 0 if after is None else 3
        assert len(still.events(found.name, "worker_start")) == started


def test_the_log_of_a_job_whose_attempts_ran_out(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("internal_error", times=3)
    found = still.run(make_job(make_pool()))
    attempt = ["Waiting for job to be provisioned.", INTERNAL, "Job failed."]
    last = "Job will not be retried, max error retry attempts reached."
    assert still.lines(found.name, "service") == [*attempt, *attempt, *attempt, last]


def test_a_lost_node_restarts_the_worker_five_times_in_each_of_four_runs(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("node_loss", replica="workerpool1-0", times=24, after_seconds=10)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="5000"), make_pool(EMULATE_RUN_SECONDS="5000")))
    assert (found.state.name, found.error.code) == ("JOB_STATE_FAILED", 13)
    assert still.runs(found.name) == 4
    restarts = still.events(found.name, "worker_restart")
    assert [event["run"] for event in restarts] == [1] * 5 + [2] * 5 + [3] * 5 + [4] * 5
    assert {event["replica"] for event in restarts} == {"workerpool1-0"}


def test_five_lost_nodes_are_survived_within_one_run(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("node_loss", replica="workerpool1-0", times=5, after_seconds=10)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="500"), make_pool(EMULATE_RUN_SECONDS="5000")))
    assert (found.state.name, still.runs(found.name)) == ("JOB_STATE_SUCCEEDED", 1)
    assert still.states(found.name) == ["QUEUED", "PENDING", "RUNNING", "SUCCEEDED"]


def test_maintenance_moves_the_replica_and_is_not_counted(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("maintenance", replica="workerpool1-0", times=9, after_seconds=10)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="500"), make_pool(EMULATE_RUN_SECONDS="5000")))
    assert (found.state.name, still.runs(found.name)) == ("JOB_STATE_SUCCEEDED", 1)
    assert len(still.events(found.name, "worker_restart")) == 9
    assert {event["signal"] for event in still.events(found.name, "worker_kill")} == {"SIGTERM"}


@pytest.mark.parametrize("fault", ["maintenance", "node_loss"])
def test_restart_job_on_worker_restart_restarts_all(
    fault: str, still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault(fault, replica="workerpool1-0", after_seconds=10)
    scheduling = {"restart_job_on_worker_restart": True}
    body = make_job(
        make_pool(EMULATE_RUN_SECONDS="50"), make_pool(EMULATE_RUN_SECONDS="500"), scheduling=scheduling
    )
    found = still.run(body)
    assert (found.state.name, still.runs(found.name)) == ("JOB_STATE_SUCCEEDED", 2)
    starts = [(event["run"], event["replica"]) for event in still.events(found.name, "worker_start")]
    assert sorted(starts) == [(run, f"workerpool{number}-0") for run in (1, 2) for number in (0, 1)]
    assert still.states(found.name) == ["QUEUED", "PENDING", "RUNNING", "PENDING", "RUNNING", "SUCCEEDED"]


def test_disable_retries_overrides_restart_job_on_worker_restart(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("node_loss", after_seconds=10)
    scheduling = {"restart_job_on_worker_restart": True, "disable_retries": True}
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="50"), scheduling=scheduling))
    assert (found.state.name, still.runs(found.name)) == ("JOB_STATE_SUCCEEDED", 1)


def test_disable_retries_ends_at_the_first_internal_error_of_a_job_that_runs(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("internal_error", after_seconds=10)
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="50"), scheduling={"disable_retries": True}))
    assert (found.state.name, found.error.code, still.runs(found.name)) == ("JOB_STATE_FAILED", 13, 1)


def test_disable_retries_does_not_hold_before_the_job_has_run(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("internal_error", times=2)
    found = still.run(make_job(make_pool(), scheduling={"disable_retries": True}))
    assert (found.state.name, still.runs(found.name)) == ("JOB_STATE_SUCCEEDED", 3)


def test_disable_retries_leaves_crashes_alone_unless_the_switch_says_all(
    still: Any, still_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    body = make_job(make_pool(**exits(134)), scheduling={"disable_retries": True})
    assert still.runs(still.run(body).name) == 4
    strict = still_cloud(switches={"disable_retries_scope": "all"})
    assert strict.runs(strict.run(body).name) == 1


# --- FLEX_START ---


def flex(**more: Any) -> dict[str, Any]:
    return {"strategy": "FLEX_START", "timeout": "3600s", **more}


def gpu(make_pool: Make, **env: str) -> dict[str, Any]:
    made = make_pool(machine="g2-standard-4", **env)
    made["machine_spec"].update(accelerator_type="NVIDIA_L4", accelerator_count=1)
    return made


def test_flex_start_waits_for_machines_as_long_as_max_wait(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    still.control.add_fault("stockout", times=5000)
    body = make_job(gpu(make_pool), scheduling=flex(max_wait_duration="600s"))
    name = still.create(body)
    still.advance(500)
    assert still.get(name).state.name == "JOB_STATE_PENDING"
    still.advance(200)
    found = still.get(name)
    assert (found.state.name, found.error.message) == ("JOB_STATE_FAILED", STOCKOUT)


def test_flex_start_runs_when_machines_come_in_time(still: Any, make_job: Make, make_pool: Make) -> None:
    still.control.add_fault("stockout", times=100)
    found = still.run(make_job(gpu(make_pool), scheduling=flex(max_wait_duration="600s")))
    assert (found.state.name, still.runs(found.name)) == ("JOB_STATE_SUCCEEDED", 1)


def test_flex_start_waits_a_day_by_default_and_for_ever_with_zero(
    still_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    still = still_cloud(switches={"provisioning_seconds": 60})
    still.control.add_fault("stockout", times=1_000_000)
    day = still.create(make_job(gpu(make_pool), scheduling=flex()))
    ever = still.create(make_job(gpu(make_pool), scheduling=flex(max_wait_duration="0s")))
    still.advance(86_000)
    assert still.get(day).state.name == "JOB_STATE_PENDING"
    still.advance(700)
    assert still.get(day).state.name == "JOB_STATE_FAILED"
    assert still.get(ever).state.name == "JOB_STATE_PENDING"


# --- the switches ---


@pytest.mark.parametrize(
    ("switch", "fault", "env", "scheduling", "expected"),
    [
        (
            {"timeout_state": "FAILED"},
            None,
            {"EMULATE_RUN_SECONDS": "900"},
            {"timeout": "60s"},
            ("FAILED", 4, 1),
        ),
        ({"crash_retries": 1}, None, exits(6), {}, ("FAILED", 3, 2)),
        ({"stockout_retries": 0, "stockout_code": 14}, {"fault": "stockout"}, {}, {}, ("FAILED", 14, 1)),
        ({"internal_retries": 0}, {"fault": "internal_error"}, {}, {}, ("FAILED", 13, 1)),
        ({"spot_restarts": 0}, {"fault": "preempt"}, {"EMULATE_RUN_SECONDS": "9"}, {}, ("FAILED", 8, 1)),
        ({"exit_is_permanent": "false"}, None, exits(1), {}, ("FAILED", 13, 4)),
        (
            {"worker_restarts": 1, "worker_job_retries": 0, "exit_is_permanent": False},
            None,
            exits(1),
            {},
            ("FAILED", 13, 1),
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_a_switch_changes_its_fact(
    switch: dict[str, Any],
    fault: dict[str, Any] | None,
    env: dict[str, str],
    scheduling: dict[str, Any],
    expected: tuple[str, int, int],
    still_cloud: Callable[..., Any],
    make_job: Make,
    make_pool: Make,
) -> None:
    cloud = still_cloud(switches=switch)
    if fault:
        cloud.control.add_fault(**fault)
    found = cloud.run(make_job(make_pool(**env), scheduling=scheduling))
    state = found.state.name.removeprefix("JOB_STATE_")
    assert (state, found.error.code, cloud.runs(found.name)) == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("bare", "The replica workerpool0-0 exited with a non-zero status of 1."),
        (
            "logs",
            "The replica workerpool0-0 exited with a non-zero status of 1. To find out more about why your job exited",
        ),
        ("full", "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error."),
    ],
)
def test_the_error_text_has_the_form_that_is_asked_for(
    form: str, expected: str, still_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = still_cloud(switches={"exit_error_form": form})
    message = cloud.run(make_job(make_pool(**exits(1)))).error.message
    assert message.startswith(expected)
    assert (message == expected) is (form == "bare")


def test_several_replicas_that_fail_together_are_named_in_one_message(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    found = still.run(make_job(make_pool(EMULATE_RUN_SECONDS="99"), make_pool(replicas=2, **exits(3))))
    for replica in ("workerpool1-0", "workerpool1-1"):
        assert f"The replica {replica} exited with a non-zero status of 3." in found.error.message
    assert found.error.message.count("https://console.cloud.google.com/logs/viewer?project=") == 1
