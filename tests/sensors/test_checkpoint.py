"""The sensor: what it waits for, what it hands to the trigger, what it returns, and how it fails."""

from __future__ import annotations

import datetime
import pickle
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk import Asset, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowSkipException, TaskDeferred

from airflow_provider.agent_platform.checkpoints.store import CheckpointScan
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.sensors import checkpoint as module
from airflow_provider.agent_platform.sensors.checkpoint import CheckpointNotReachedError, CheckpointSensor
from airflow_provider.agent_platform.triggers.checkpoint import (
    CheckpointTrigger,
    UnreadableCheckpointEventError,
)
from tests.checkpoints.looking import NONE, NOON, FakeHook, at

JOB = "projects/1/locations/us-central1/customJobs/77"
REACHED = {
    "version": 1,
    "type": "reached",
    "uri": "gs://b/x/checkpoints/checkpoint-500",
    "step": 500,
    "framework": "plain",
    "time": NOON.isoformat(),
    "job_state": None,
    "message": None,
}


class Accessor:
    def __init__(self) -> None:
        self.extra: dict[str, Any] = {}
        self.partitions: list[str] = []

    def add_partitions(self, key: str) -> None:
        self.partitions.append(key)


@pytest.fixture
def context() -> Any:
    return {"dag_run": SimpleNamespace(run_after=NOON), "outlet_events": {}}


class Looks:
    def __init__(self, found: CheckpointScan) -> None:
        self.found = found
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, base: str, factory: Any, **arguments: Any) -> CheckpointScan:
        self.calls.append((base, arguments))
        return self.found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks = Looks(NONE)
    monkeypatch.setattr(module, "scan", looks)
    return looks


def sensor(hook: FakeHook | None = None, **arguments: Any) -> CheckpointSensor:
    one = CheckpointSensor(task_id="wait", base_output_directory="gs://b/x", **arguments)
    one.hook_factory = hook or FakeHook()  # type: ignore[misc,assignment]
    return one


def deferred(one: CheckpointSensor, context: Any) -> tuple[TaskDeferred, CheckpointTrigger]:
    with pytest.raises(TaskDeferred) as caught:
        one.execute(context)
    trigger = caught.value.trigger
    assert isinstance(trigger, CheckpointTrigger)
    return caught.value, trigger


def test_a_checkpoint_that_is_there_is_returned_without_a_deferral(looks: Looks, context: Any) -> None:
    looks.found = at(60, 500)
    assert sensor(min_step=500).execute(context) == {
        "uri": "gs://b/x/checkpoints/checkpoint-500",
        "step": 500,
        "framework": "plain",
        "time": NOON.add(seconds=60).isoformat(),
    }


def test_it_defers_with_everything_the_trigger_needs(looks: Looks, context: Any) -> None:
    one = sensor(
        min_step="500",
        job_name=JOB,
        gcp_conn_id="c",
        impersonation_chain=["a"],
        poke_interval=30,
        timeout=7200,
        recognisers=["my.recogniser"],
    )
    error, trigger = deferred(one, context)
    assert trigger.serialize()[1] == {
        "version": 1,
        "base_output_directory": "gs://b/x",
        "min_step": 500,
        "newer_than": None,
        "job_name": JOB,
        "training_task_id": None,
        "recognisers": ["my.recogniser"],
        "gcp_conn_id": "c",
        "impersonation_chain": ["a"],
        "poll_interval": 30,
    }
    assert error.method_name == "execute_complete"
    assert error.timeout == datetime.timedelta(hours=2)
    assert looks.calls[0][1]["recognisers"] == ["my.recogniser"]


def test_any_new_checkpoint_is_one_since_the_run_was_due(looks: Looks, context: Any) -> None:
    looks.found = at(-1)
    _, trigger = deferred(sensor(), context)
    assert trigger.newer_than == NOON.isoformat()
    looks.found = at(1)
    assert sensor().execute(context)["step"] == 10


def test_any_new_checkpoint_of_a_job_is_one_since_the_job_was_created(looks: Looks, context: Any) -> None:
    context["dag_run"].run_after = NOON.add(days=1)
    looks.found = at(1)
    assert sensor(job_name=JOB).execute(context)["step"] == 10


def test_a_step_counts_whenever_it_was_reached(looks: Looks, context: Any) -> None:
    looks.found = at(-1_000_000, 500)
    assert sensor(min_step=500).execute(context)["step"] == 500


@pytest.mark.parametrize(
    "moment",
    [
        "2026-01-31T12:00:30Z",
        NOON.add(seconds=30),
        datetime.datetime(2026, 1, 31, 12, 0, 30, tzinfo=datetime.timezone.utc),
    ],
)
def test_a_moment_can_be_given(looks: Looks, context: Any, moment: Any) -> None:
    looks.found = at(10, 500)
    _, trigger = deferred(sensor(min_step=5, newer_than=moment), context)
    assert pendulum.parse(trigger.newer_than or "") == NOON.add(seconds=30)
    assert looks.calls[0][1]["since"] == NOON.add(seconds=30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_step": "many"}, "min_step is 'many'"),
        ({"min_step": -1}, "min_step is -1"),
        ({"min_step": 1.5}, "min_step is 1.5"),
        ({"newer_than": "soon"}, "newer_than is 'soon'"),
        ({"newer_than": datetime.datetime(2026, 1, 1)}, "without a time zone"),  # noqa: DTZ001
    ],
)
def test_an_argument_of_no_use_is_named(
    looks: Looks, context: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sensor(**arguments).execute(context)
    assert not looks.calls


def test_an_empty_directory_after_rendering_is_named(looks: Looks, context: Any) -> None:
    one = sensor()
    one.base_output_directory = ""
    with pytest.raises(ValueError, match="base_output_directory is empty"):
        one.execute(context)


@pytest.mark.parametrize("nothing", [None, "", "None"])
def test_a_step_that_renders_to_nothing_waits_for_any(looks: Looks, context: Any, nothing: Any) -> None:
    assert deferred(sensor(min_step=nothing), context)[1].min_step is None


def test_every_argument_a_user_would_template_is_templated() -> None:
    assert set(CheckpointSensor.template_fields) == {
        "base_output_directory",
        "min_step",
        "newer_than",
        "job_name",
        "partition_key",
        "gcp_conn_id",
        "impersonation_chain",
    }
    for name in CheckpointSensor.template_fields:
        assert hasattr(sensor(), name)


# -- after the wait


def test_the_event_becomes_the_result(context: Any) -> None:
    result = sensor().execute_complete(context, event=REACHED)
    assert result == {name: REACHED[name] for name in ("uri", "step", "framework", "time")}


def test_outlets_get_an_event_with_uri_step_and_partition(context: Any) -> None:
    asset = Asset("gs://b/model")
    accessor = context["outlet_events"][asset] = Accessor()
    sensor(outlets=[asset], partition_key="2026-01-31").execute_complete(context, event=REACHED)
    assert accessor.extra == {"uri": REACHED["uri"], "step": 500}
    assert accessor.partitions == ["2026-01-31"]


def test_an_airflow_without_partitions_says_so_and_goes_on(context: Any) -> None:
    asset = Asset("gs://b/model")
    accessor = context["outlet_events"][asset] = SimpleNamespace(extra={})
    one = sensor(outlets=[asset], partition_key="2026-01-31")
    assert one.execute_complete(context, event=REACHED)["step"] == 500
    assert accessor.extra == {"uri": REACHED["uri"], "step": 500}


def test_no_partition_is_added_when_none_is_given(context: Any) -> None:
    asset = Asset("gs://b/model")
    accessor = context["outlet_events"][asset] = Accessor()
    sensor(outlets=[asset]).execute_complete(context, event=REACHED)
    assert accessor.partitions == []


def test_a_job_that_ended_without_it_fails_the_task_and_says_what_there_is(context: Any) -> None:
    event = REACHED | {
        "type": "job_ended",
        "step": 100,
        "uri": "gs://b/x/checkpoints/checkpoint-100",
        "job_state": "JOB_STATE_FAILED",
        "message": "exited with 1",
    }
    with pytest.raises(CheckpointNotReachedError) as caught:
        sensor(min_step=500, job_name=JOB).execute_complete(context, event=event)
    error = caught.value
    assert str(error) == (
        f"{JOB} ended as JOB_STATE_FAILED without a checkpoint of step 500 or more below gs://b/x. "
        "The newest is gs://b/x/checkpoints/checkpoint-100 (step 100). The job's error: exited with 1"
    )
    assert (error.job_name, error.job_state, error.newest_step) == (JOB, "JOB_STATE_FAILED", 100)
    assert isinstance(error, AirflowException)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.job_name, again.job_state, again.newest_step) == (
        str(error),
        error.job_name,
        error.job_state,
        error.newest_step,
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("job_ended", "There is no complete checkpoint at all."),
        ("job_lost", "There is not a new complete checkpoint below gs://b/x, and there is no job 77."),
        ("unreadable", "cannot be looked at: there is no job 77"),
    ],
)
def test_every_other_end_fails_the_task(context: Any, kind: str, text: str) -> None:
    event = REACHED | {"type": kind, "uri": None, "step": None, "message": "there is no job 77"}
    with pytest.raises(CheckpointNotReachedError) as caught:
        sensor(job_name=JOB).execute_complete(context, event=event)
    assert text in str(caught.value)


def test_an_unreadable_event_is_never_a_success(context: Any) -> None:
    for event in (None, {}, {"version": 9, "type": "reached"}):
        with pytest.raises(UnreadableCheckpointEventError):
            sensor().execute_complete(context, event=event)


def test_soft_fail_skips_when_the_job_ended_without_it(context: Any) -> None:
    one = sensor(soft_fail=True, job_name=JOB)
    with pytest.raises(AirflowSkipException):
        one.resume_execution("execute_complete", {"event": REACHED | {"type": "job_ended"}}, context)


# -- a job that is over before the sensor starts


def test_a_finished_job_without_it_fails_at_once(looks: Looks, context: Any) -> None:
    looks.found = at(0, 100)
    one = sensor(FakeHook((0, int(JobState.SUCCEEDED))), min_step=500, job_name=JOB)
    with pytest.raises(CheckpointNotReachedError, match="ended as JOB_STATE_SUCCEEDED"):
        one.execute(context)


def test_a_job_that_is_gone_fails_at_once(looks: Looks, context: Any) -> None:
    from google.api_core.exceptions import NotFound

    one = sensor(FakeHook((0, NotFound("gone"))), job_name=JOB)  # type: ignore[no-untyped-call]
    with pytest.raises(CheckpointNotReachedError, match="there is no job"):
        one.execute(context)


def test_a_finished_job_whose_checkpoints_cannot_be_seen_is_left_to_the_trigger(
    looks: Looks, context: Any
) -> None:
    looks.found = CheckpointScan(known=False, problem="away")
    deferred(sensor(FakeHook((0, int(JobState.SUCCEEDED))), job_name=JOB), context)


class Instance:
    """A task instance whose run has one training task."""

    dag_id = "dag"
    run_id = "run"

    def __init__(self, state: str | None) -> None:
        self.state = state

    def get_task_states(self, **asked: Any) -> dict[str, Any]:
        assert asked["dag_id"] == "dag"
        assert asked["run_ids"] == ["run"]
        return {"run": {"train": self.state} if asked["task_ids"] == ["train"] else {}}


def test_a_training_task_that_runs_is_waited_for(looks: Looks, context: Any) -> None:
    context["ti"] = Instance("deferred")
    assert deferred(sensor(training_task_id="train"), context)[1].training_task_id == "train"


def test_a_training_task_that_is_over_without_it_fails_at_once(looks: Looks, context: Any) -> None:
    context["ti"] = Instance("failed")
    looks.found = at(0, 100)
    with pytest.raises(CheckpointNotReachedError) as caught:
        sensor(min_step=500, training_task_id="train").execute(context)
    assert str(caught.value).startswith("Task train ended as failed without a checkpoint of step 500 or more")
    assert caught.value.job_state == "failed"


def test_a_training_task_that_is_over_and_reached_it_is_enough(looks: Looks, context: Any) -> None:
    context["ti"] = Instance("failed")
    looks.found = at(0, 500)
    assert sensor(min_step=500, training_task_id="train").execute(context)["step"] == 500


def test_a_training_task_that_the_run_does_not_have_is_named(looks: Looks, context: Any) -> None:
    context["ti"] = Instance("running")
    with pytest.raises(CheckpointNotReachedError, match="this run has no task trian"):
        sensor(training_task_id="trian").execute(context)


def test_poking_asks_for_the_training_task_too(looks: Looks, context: Any) -> None:
    context["ti"] = Instance("success")
    with pytest.raises(CheckpointNotReachedError, match="Task train ended as success"):
        sensor(training_task_id="train", deferrable=False).poke(context)


def test_a_task_and_a_job_cannot_both_say_when_the_training_is_over() -> None:
    with pytest.raises(ValueError, match="training_task_id and job_name"):
        sensor(training_task_id="train", job_name=JOB)


def test_the_hook_is_closed(looks: Looks, context: Any) -> None:
    hook = FakeHook()
    deferred(sensor(hook), context)
    assert hook.closed == 1


# -- poking


def test_without_deferral_it_pokes(looks: Looks, context: Any) -> None:
    one = sensor(min_step=500, deferrable=False)
    assert one.poke(context) is False
    looks.found = at(0, 500)
    answer = one.poke(context)
    assert isinstance(answer, PokeReturnValue)
    assert answer.is_done
    assert (answer.xcom_value or {})["step"] == 500
    assert one.execute(context)["step"] == 500


def test_it_is_a_sensor() -> None:
    assert issubclass(CheckpointSensor, BaseSensorOperator)
    assert sensor().deferrable is True
