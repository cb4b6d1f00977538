"""What a replica is told: addresses, ranks, outputs; and what it executes."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from google.cloud import aiplatform_v1
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.agent_platform.emulator import environment
from airflow_provider.agent_platform.emulator.cluster import Cluster, Ports
from airflow_provider.agent_platform.emulator.environment import Child

Make = Callable[..., dict[str, Any]]


def spec_of(job: dict[str, Any]) -> Any:
    return aiplatform_v1.CustomJob.pb(aiplatform_v1.CustomJob(job)).job_spec


def variables(job: dict[str, Any], replica: str, child: Child | None = None) -> dict[str, str]:
    spec = spec_of(job)
    names = environment.replica_names(spec)
    cluster = Cluster(ports={name: 2000 + number for number, name in enumerate(names)}, master_port=3000)
    return environment.service_variables(
        spec,
        job_id="1" * 19,
        project="123",
        region="us-central1",
        replica=replica,
        cluster=cluster,
        child=child,
    )


def test_replicas_of_all_pools_are_in_the_cluster(make_job: Make, make_pool: Make) -> None:
    job = make_job(make_pool(), make_pool(replicas=2), make_pool(), make_pool())
    spec = json.loads(variables(job, "workerpool1-1")["CLUSTER_SPEC"])
    assert spec["cluster"] == {
        "workerpool0": ["127.0.0.1:2000"],
        "workerpool1": ["127.0.0.1:2001", "127.0.0.1:2002"],
        "workerpool2": ["127.0.0.1:2003"],
        "workerpool3": ["127.0.0.1:2004"],
    }
    assert spec["task"] == {"type": "workerpool1", "index": 1}


def test_a_skipped_pool_has_no_key(make_job: Make, make_pool: Make) -> None:
    job = make_job(make_pool(), {}, make_pool())
    found = variables(job, "workerpool2-0")
    assert list(json.loads(found["CLUSTER_SPEC"])["cluster"]) == ["workerpool0", "workerpool2"]
    assert json.loads(found["TF_CONFIG"])["cluster"] == {
        "chief": ["127.0.0.1:2000"],
        "ps": ["127.0.0.1:2001"],
    }


@pytest.mark.parametrize(
    ("replica", "task"),
    [
        ("workerpool0-0", {"type": "chief", "index": 0}),
        ("workerpool1-1", {"type": "worker", "index": 1}),
        ("workerpool2-0", {"type": "ps", "index": 0}),
        ("workerpool3-0", {"type": "evaluator", "index": 0}),
    ],
)
def test_tf_config_names_the_task_and_never_the_evaluators(
    replica: str, task: dict[str, Any], make_job: Make, make_pool: Make
) -> None:
    job = make_job(make_pool(), make_pool(replicas=2), make_pool(), make_pool())
    found = json.loads(variables(job, replica)["TF_CONFIG"])
    assert found["task"] == task
    assert list(found["cluster"]) == ["chief", "worker", "ps"]


def test_ranks_are_over_pools_0_and_1(make_job: Make, make_pool: Make) -> None:
    job = make_job(make_pool(), make_pool(replicas=3), make_pool())
    found = [variables(job, replica) for replica in ("workerpool0-0", "workerpool1-0", "workerpool1-2")]
    assert [one["RANK"] for one in found] == ["0", "1", "3"]
    assert {(one["WORLD_SIZE"], one["MASTER_ADDR"], one["MASTER_PORT"]) for one in found} == {
        ("4", "127.0.0.1", "3000")
    }
    assert "RANK" not in variables(job, "workerpool2-0")


def test_a_single_replica_has_no_tf_config(make_job: Make, make_pool: Make) -> None:
    assert "TF_CONFIG" not in variables(make_job(make_pool()), "workerpool0-0")


def test_a_trial_has_its_own_directories_and_names(make_job: Make, make_pool: Make) -> None:
    # The tuning job writes the trial's directory into the child's spec, as the API's comments say.
    job = make_job(make_pool(), base_output_directory={"output_uri_prefix": "gs://b/base/7"})
    found = variables(job, "workerpool0-0", Child(trial="7", metric_file="/m/output.metrics"))
    assert found["AIP_MODEL_DIR"] == "gs://b/base/7/model/"
    assert (found["CLOUD_ML_TRIAL_ID"], found["CLOUD_ML_HP_METRIC_FILE"]) == ("7", "/m/output.metrics")
    assert json.loads(found["CLUSTER_SPEC"])["task"]["trial"] == "7"


def test_a_trials_parameters_are_appended_to_the_arguments(make_job: Make, make_pool: Make) -> None:
    made = make_pool(["run"])
    made["container_spec"]["args"] = ["--epochs=2"]
    pool = spec_of(make_job(made)).worker_pool_specs[0]
    child = Child(trial="1", arguments=("--lr", "0.1"))
    assert environment.command(pool, child) == ("run", "--epochs=2", "--lr", "0.1")
    assert Child.from_json(json.loads(json.dumps(child.to_json()))) == child


def test_a_python_package_is_run_as_a_module() -> None:
    package = {
        "executor_image_uri": "i",
        "package_uris": ["gs://b/p.tar.gz"],
        "python_module": "trainer.task",
        "args": ["-v"],
    }
    spec = aiplatform_v1.WorkerPoolSpec.pb(aiplatform_v1.WorkerPoolSpec({"python_package_spec": package}))
    assert environment.command(spec) == ("python3", "-m", "trainer.task", "-v")


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.text(alphabet="AB$()x", max_size=12)), max_size=4))
def test_expansion_never_fails_and_leaves_plain_text_alone(pairs: list[tuple[str, str]]) -> None:
    found = environment.expand(pairs, {"A": "1"})
    for name, value in pairs:
        if "$" not in value and [key for key, _ in pairs].count(name) == 1:
            assert found[name] == value


def test_a_hostname_stays_within_what_dns_allows() -> None:
    assert (
        environment.hostname("1234567890123456789", "workerpool1-2")
        == "cmle-training-workerpool1-0123456789-2"
    )


# --- ports ---


def test_ports_can_be_bound_and_are_given_once() -> None:
    ports = Ports()
    first, second = ports.take(["workerpool0-0", "workerpool1-0"]), ports.take(["workerpool0-0"])
    numbers = [*first.ports.values(), first.master_port, *second.ports.values(), second.master_port]
    assert len(set(numbers)) == 5
    for number in numbers:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", number))


def test_ports_of_ended_jobs_are_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.agent_platform.emulator.cluster._bindable", lambda port: True)
    monkeypatch.setattr("airflow_provider.agent_platform.emulator.cluster.LAST_PORT", 15_002)
    ports = Ports()
    ports._next = 15_000
    first = ports.take(["workerpool0-0"])
    with pytest.raises(OSError, match="No free port"):
        ports.take(["workerpool0-0"])
    ports = Ports()
    ports._next = 15_000
    first = ports.take(["workerpool0-0"])
    ports.give_back(first)
    assert ports.take(["workerpool0-0"]).ports
