"""Requests that are none, and specs that nobody can run: a precise error, and everybody else goes on as before."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1
from google.cloud.aiplatform_v1 import types

Make = Callable[..., dict[str, Any]]
JOBS = "/v1/projects/test-project/locations/us-central1/customJobs"
SERVICE = "/google.cloud.aiplatform.v1.JobService"


def refused(cloud: Any, body: Any) -> str:
    """What a create is refused with."""
    with pytest.raises(exceptions.InvalidArgument) as caught:
        cloud.create(body)
    return str(caught.value)


# --- bytes that are no request -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["CreateCustomJob", "ListCustomJobs", "GetCustomJob", "CancelCustomJob"])
@pytest.mark.parametrize("data", [b"\xff" * 1000, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xc3\x28", b"{}"])
def test_bytes_that_are_no_message_are_an_error_of_the_call(method: str, data: bytes, served: Any) -> None:
    assert served.raw(method, data).code() in (
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.INVALID_ARGUMENT,
    )


@pytest.mark.parametrize(
    "path",
    [
        f"{SERVICE}/",
        f"{SERVICE}/No such",
        "/google.cloud.aiplatform.v1.PipelineService/CreateTrainingPipeline",
        "/a/b",
    ],
)
def test_methods_that_are_not_there_are_unimplemented(path: str, served: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.channel.unary_unary(path)(b"", timeout=20)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("port", ["grpc", "rest"])
def test_half_requests_that_are_never_finished_hold_up_nobody(port: str, served: Any) -> None:
    server = served.emulator.server
    number = server.port if port == "grpc" else server.rest_port
    halves = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/x HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
    ]
    open_ones = [socket.create_connection(("127.0.0.1", number), timeout=5) for _ in range(60)]
    try:
        for index, connection in enumerate(open_ones):
            connection.sendall(halves[index % len(halves)])
        begun = time.monotonic()
        assert served.rest("GET", JOBS)[0] == 200
        assert len(list(served.client.list_custom_jobs(parent=JOBS[4:].rpartition("/")[0]))) == 1
        assert time.monotonic() - begun < 10
    finally:
        for connection in open_ones:
            connection.close()


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/v1/%00", 501),
        ("GET", "/v1/%ff%fe/../../etc/passwd", 501),
        ("GET", f"{JOBS}/%2e%2e%2f", 501),
        ("GET", f"{JOBS}/{'9' * 5000}", 404),
        ("GET", f"{JOBS}?filter=%ff", 400),
        ("GET", f"{JOBS}?pageSize=99999999999999999999", 400),
        ("GET", f"{JOBS}?pageSize=NaN", 400),
        ("GET", f"{JOBS}?pageToken={quote('é')}", 400),
        ("GET", f"{JOBS}?readMask=a.b.c.d,,,", 400),
        ("TRACE", JOBS, 405),
        ("PUT", JOBS, 501),
        ("GET", "/emulator/v1/jobs/%00%ff/events", 404),
        ("GET", "/emulator/v1/faults/%F0%9F%92%A9", 404),
        ("PATCH", "/emulator/v1/faults", 405),
        ("POST", "/emulator/v1/nothing", 404),
    ],
)
def test_odd_urls_get_googles_error_body(verb: str, path: str, status: int, served: Any) -> None:
    found, body = served.rest(verb, path)
    assert found == status
    assert body["error"]["code"] == status
    assert body["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        "[" * 50_000,
        '{"displayName": ' + "[" * 50_000,
        '{"a":' * 50_000,
        '{"displayName": NaN}',
        '{"displayName": "\\ud800"}',
        '{"labels": {"\\ud800": "x"}, "displayName": "x"}',
        '{"displayName": "x", "displayName": "y"}',
        '{"jobSpec": {"scheduling": {"timeout": "1e9s"}}}',
        '{"jobSpec": {"scheduling": {"timeout": "-9999999999999999s"}}}',
        '{"jobSpec": {"workerPoolSpecs": [{"replicaCount": 1e400}]}}',
        '{"jobSpec": {"workerPoolSpecs": [{"replicaCount": "' + "9" * 5000 + '"}]}}',
        '{"displayName": ' + "9" * 5000 + "}",
        b"\xef\xbb\xbf{}",
        b'{"displayName": "\xff"}',
    ],
    ids=range(14),
)
def test_json_that_is_no_job_is_refused(body: str | bytes, served: Any) -> None:
    status, answer = served.rest("POST", JOBS, body)
    assert status == 400, answer
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    assert len(answer["error"]["message"]) < 5000


def test_a_body_of_very_many_names_with_one_twice_is_refused_at_once(served: Any) -> None:
    body = "{" + ",".join(f'"{number:x}":1' for number in range(200_000)) + ',"30d3f":1}'
    begun = time.monotonic()
    status, answer = served.rest("POST", JOBS, body)
    assert (status, "twice" in answer["error"]["message"]) == (400, True)
    assert time.monotonic() - begun < 15


# --- specs that are too large ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10**12, 2**63 - 1, 100_000])
def test_more_replicas_than_anybody_has_are_refused(
    count: int, served: Any, make_job: Make, make_pool: Make
) -> None:
    text = refused(served, make_job(make_pool(), make_pool(replicas=count)))
    assert "worker_pool_specs[1].replica_count" in text
    assert str(count) in text


def test_a_long_list_of_errors_fits_into_what_grpc_carries(served: Any) -> None:
    request = types.CreateCustomJobRequest.pb()(parent=JOBS[4:].rpartition("/")[0])
    request.custom_job.labels.update({f"Ü{number}": "" for number in range(20_000)})
    error = served.raw("CreateCustomJob", request.SerializeToString())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Field: labels" in error.details()
    assert "shortened" in error.details()
    status, answer = served.rest(
        "POST", JOBS, json.dumps({"labels": {f"Ü{number}": "" for number in range(99)}})
    )
    assert status == 400
    assert "(and 52 more)" in answer["error"]["message"]


@pytest.mark.parametrize("character", ["x", "ü", "💩", "\n"])
def test_an_error_of_any_text_and_length_arrives_as_what_it_is(character: str, served: Any) -> None:
    message = character * 30_000
    served.control.add_fault("rpc_error", code="ABORTED", message=message)
    with pytest.raises(exceptions.Aborted) as caught:
        served.client.list_custom_jobs(parent=JOBS[4:].rpartition("/")[0])
    assert str(caught.value.message).startswith(character * 100)


def test_a_spec_over_the_size_is_refused_by_its_size(served: Any, make_job: Make, make_pool: Make) -> None:
    assert "bytes" in refused(served, make_job(make_pool(["x" * 5_000_000])))


def test_a_timeout_of_ten_thousand_years_stops_no_clock(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(runner="simulated", speed=1, switches={"provisioning_seconds": 0})
    long = make_job(
        make_pool(EMULATE_RUN_SECONDS="1e300"), scheduling={"timeout": {"seconds": 315_576_000_000}}
    )
    first = cloud.create(long)
    cloud.wait(first, lambda job: job.state.name == "JOB_STATE_RUNNING")
    cloud.control.add_fault("internal_error", after_seconds=1e300)
    cloud.control.add_fault("node_loss", after_seconds=1e300)
    second = cloud.create(make_job(make_pool()))
    assert cloud.wait(second).state.name == "JOB_STATE_SUCCEEDED"


def tuning(pool: dict[str, Any], parameter: dict[str, Any], **fields: Any) -> Any:
    """A tuning job with one parameter."""
    study = {"metrics": [{"metric_id": "m", "goal": "MINIMIZE"}], "parameters": [parameter], "algorithm": fields.pop("algorithm", "RANDOM_SEARCH")}  # fmt: skip
    body = {"display_name": "t", "max_trial_count": 1, "parallel_trial_count": 1, "study_spec": study}
    return aiplatform_v1.HyperparameterTuningJob(
        {**body, "trial_job_spec": {"worker_pool_specs": [pool]}, **fields}
    )


UNIT = {"parameter_id": "x", "double_value_spec": {"min_value": 0.0, "max_value": 1.0}}


@pytest.mark.parametrize(
    ("parameter", "fields", "named"),
    [
        (UNIT, {"max_trial_count": 2**31 - 1, "parallel_trial_count": 2**31 - 1}, "parallel_trial_count"),
        ({"parameter_id": "x", "double_value_spec": {"min_value": float("-inf"), "max_value": float("inf")}}, {}, "double_value_spec"),
        ({"parameter_id": "x", "double_value_spec": {"min_value": float("nan"), "max_value": 1.0}}, {}, "double_value_spec"),
        ({"parameter_id": "x", "double_value_spec": {"min_value": -1.7e308, "max_value": 1.7e308}}, {}, "double_value_spec"),
        ({"parameter_id": "x", "discrete_value_spec": {"values": [1.0, float("inf")]}}, {}, "discrete_value_spec"),
    ],
    ids=["parallel", "infinite", "nan", "overflow", "discrete"],
)  # fmt: skip
def test_studies_that_cannot_be_are_refused(
    parameter: Any, fields: Any, named: str, served: Any, make_pool: Make, parent: str
) -> None:
    with pytest.raises(exceptions.InvalidArgument, match=named):
        served.client.create_hyperparameter_tuning_job(
            parent=parent, hyperparameter_tuning_job=tuning(make_pool(), parameter, **fields)
        )


@pytest.mark.parametrize("algorithm", ["ALGORITHM_UNSPECIFIED", "GRID_SEARCH", "RANDOM_SEARCH"])
def test_a_huge_range_of_whole_numbers_is_searched(
    algorithm: str, served: Any, make_pool: Make, parent: str
) -> None:
    parameter = {
        "parameter_id": "x",
        "integer_value_spec": {"min_value": -(2**63), "max_value": 2**63 - 1},
    }
    name = served.client.create_hyperparameter_tuning_job(
        parent=parent, hyperparameter_tuning_job=tuning(make_pool(), parameter, algorithm=algorithm)
    ).name
    served.advance(3600)
    ended = served.client.get_hyperparameter_tuning_job(name=name)
    assert ended.state.name in ("JOB_STATE_FAILED", "JOB_STATE_SUCCEEDED")  # a simulated trial is infeasible
    assert len(ended.trials) == 1
