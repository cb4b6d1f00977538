"""Messages made plain: what is set and nothing else, without importing protobuf."""

from __future__ import annotations

import datetime
import subprocess
import sys

import pytest
from google.cloud import aiplatform_v1 as api
from google.protobuf import duration_pb2

from airflow_provider.agent_platform.jobs.messages import is_message, message_name, plain

SCHEDULING = api.Scheduling(timeout=datetime.timedelta(hours=1), strategy="SPOT")


def test_only_what_is_set_is_read() -> None:
    assert plain(SCHEDULING) == {"timeout": "3600s", "strategy": "SPOT"}
    assert plain(api.Scheduling()) == {}


def test_raw_messages_read_as_wrapped_ones() -> None:
    assert plain(api.Scheduling.pb(SCHEDULING)) == plain(SCHEDULING)


def test_messages_inside_dicts_and_lists_are_read() -> None:
    pool = api.WorkerPoolSpec(replica_count=2, container_spec={"image_uri": "i", "args": ["a"]})
    assert plain({"pools": [pool, {}], "t": (SCHEDULING,)}) == {
        "pools": [{"replica_count": 2, "container_spec": {"image_uri": "i", "args": ["a"]}}, {}],
        "t": [{"timeout": "3600s", "strategy": "SPOT"}],
    }


def test_the_views_of_a_message_are_read() -> None:
    job = api.CustomJob(labels={"a": "b"}, job_spec={"reserved_ip_ranges": ["x"], "worker_pool_specs": [{}]})
    assert plain(job.labels) == {"a": "b"}
    assert plain(job.job_spec.reserved_ip_ranges) == ["x"]
    assert plain(job.job_spec.worker_pool_specs) == [{}]
    assert plain(job) == {
        "labels": {"a": "b"},
        "job_spec": {"reserved_ip_ranges": ["x"], "worker_pool_specs": [{}]},
    }


def test_wrapped_values_and_times_are_read() -> None:
    stopping = api.StudySpec.StudyStoppingConfig(
        should_stop_asap=True,
        max_num_trials=3,
        maximum_runtime_constraint={
            "end_time": datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)
        },
    )
    assert plain(stopping) == {
        "should_stop_asap": True,
        "max_num_trials": 3,
        "maximum_runtime_constraint": {"end_time": "2026-11-30T00:00:00+00:00"},
    }


def test_an_enum_without_a_name_stays_a_number() -> None:
    raw = api.Scheduling.pb(api.Scheduling())
    raw.strategy = 99
    assert plain(raw) == {"strategy": 99}


@pytest.mark.parametrize("value", ["a", 1, None, {"a": 1}, [1], api.Scheduling, object], ids=repr)
def test_other_values_are_no_messages(value: object) -> None:
    assert not is_message(value)
    assert message_name(value) is None
    assert plain(value) == value


def test_names_are_without_their_package() -> None:
    assert message_name(SCHEDULING) == "Scheduling"
    assert message_name(api.StudySpec.MetricSpec()) == "StudySpec.MetricSpec"
    assert message_name(duration_pb2.Duration()) == "google.protobuf.Duration"


def test_nothing_of_google_is_imported_for_it() -> None:
    probe = (
        "import sys; from airflow_provider.agent_platform.jobs import messages, spec, pools, console;"
        "messages.plain({'a': [1]});"
        "print([m for m in sys.modules if m.startswith(('google.protobuf', 'proto', 'grpc', 'airflow.'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
