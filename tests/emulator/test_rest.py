"""REST/JSON: the service by plain HTTP, by its URLs, forms and error bodies."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from airflow_provider.agent_platform.emulator import Emulator

PARENT = "/v1/projects/my-project/locations/us-central1"
JOBS = f"{PARENT}/customJobs"

ENDED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(speed=1000, runner="simulated") as emulator:
        yield emulator


@pytest.fixture
def http(emulator: Emulator) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=emulator.rest_url, trust_env=False, timeout=120) as client:
        client.post("/emulator/v1/reset").raise_for_status()
        yield client


def job(**changes: Any) -> dict[str, Any]:
    env = [{"name": "EMULATE_RUN_SECONDS", "value": changes.pop("seconds", "0")}]
    value: dict[str, Any] = {
        "displayName": "digits",
        "jobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "replicaCount": "1",
                    "containerSpec": {"imageUri": "gcr.io/p/i", "env": env},
                }
            ]
        },
    }
    value.update(changes)
    return value


def create(http: httpx.Client, **changes: Any) -> dict[str, Any]:
    answer = http.post(JOBS, json=job(**changes))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def wait(http: httpx.Client, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found: dict[str, Any] = http.get(f"/v1/{name}").json()
        if found["state"] in ENDED:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{name} did not end: {found}")


def error(answer: httpx.Response, status: int, name: str) -> str:
    """The message of an answer that must be Google's error body."""
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "status", "details"}
    assert (answer.status_code, body["error"]["code"], body["error"]["status"]) == (status, status, name)
    message: str = body["error"]["message"]
    return message


def test_a_job_is_created_read_listed_and_deleted(http: httpx.Client) -> None:
    made = create(http, labels={"team": "a"})
    number, region, job_id = (
        made["name"].split("/")[1],
        made["name"].split("/")[3],
        made["name"].split("/")[5],
    )
    assert number.isdigit()
    assert region == "us-central1"
    assert job_id.isdigit()
    assert len(job_id) == 19
    ended = wait(http, made["name"])
    assert ended["state"] == "JOB_STATE_SUCCEEDED"
    assert ended["jobSpec"]["workerPoolSpecs"][0]["replicaCount"] == "1"
    assert {"createTime", "startTime", "endTime", "updateTime"} <= set(ended)
    listed = http.get(JOBS).json()
    assert [one["name"] for one in listed["customJobs"]] == [made["name"]]
    assert "nextPageToken" not in listed
    operation = http.delete(f"/v1/{made['name']}").json()
    assert operation["done"] is True
    assert operation["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    assert "does not exist" in error(http.get(f"/v1/{made['name']}"), 404, "NOT_FOUND")


def test_project_id_and_number_name_the_same_jobs(http: httpx.Client) -> None:
    name = create(http)["name"]
    assert http.get(f"/v1/{name.replace(name.split('/')[1], 'my-project')}").json()["name"] == name
    assert http.get(f"/v1/{name.rsplit('/', 1)[0]}").json()["customJobs"][0]["name"] == name


def test_enums_are_names_or_numbers_as_asked(http: httpx.Client) -> None:
    spec = job()
    spec["jobSpec"]["workerPoolSpecs"][0]["machineSpec"] = {
        "machineType": "n1-standard-4",
        "acceleratorType": 5,
        "acceleratorCount": 1,
    }
    spec["jobSpec"]["scheduling"] = {"strategy": "SPOT"}
    for query in ("alt=json", "", "$alt=json", "%24alt=json"):
        made = http.post(f"{JOBS}?{query}", json=spec).json()
        assert made["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == "NVIDIA_TESLA_T4"
        assert made["jobSpec"]["scheduling"]["strategy"] == "SPOT"
    made = http.post(f"{JOBS}?$alt=json;enum-encoding=int", json=spec).json()
    assert made["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == 5
    assert made["jobSpec"]["scheduling"]["strategy"] == 4
    assert isinstance(made["state"], int)


def test_snake_case_is_understood_and_camel_case_answered(http: httpx.Client) -> None:
    pool = job()["jobSpec"]["workerPoolSpecs"][0]
    snake = {
        "display_name": "x",
        "job_spec": {
            "worker_pool_specs": [
                {"machine_spec": {"machine_type": "n1-standard-4"}, "container_spec": pool["containerSpec"]}
            ],
            "scheduling": {"timeout": "3600.5s"},
        },
    }
    made = http.post(JOBS, json=snake).json()
    assert made["displayName"] == "x"
    assert made["jobSpec"]["scheduling"]["timeout"] == "3600.500s"


def test_output_only_fields_of_a_request_are_not_read(http: httpx.Client) -> None:
    made = create(http, name="projects/x/locations/y/customJobs/1", state="JOB_STATE_SUCCEEDED", seconds="60")
    assert made["name"].startswith("projects/")
    assert not made["name"].endswith("/1")
    assert made["state"] in ("JOB_STATE_QUEUED", "JOB_STATE_PENDING")


def test_lists_are_filtered_paged_and_masked(http: httpx.Client) -> None:
    names = [create(http, labels={"n": str(i), "odd": str(i % 2)})["name"] for i in range(5)]
    query = {"filter": 'labels.odd="0" AND display_name:"dig*"', "pageSize": "2", "readMask": "name,labels"}
    first = http.get(JOBS, params=query).json()
    assert [set(one) for one in first["customJobs"]] == [{"name", "labels"}] * 2
    second = http.get(JOBS, params={**query, "pageToken": first["nextPageToken"]}).json()
    assert "nextPageToken" not in second
    assert [one["name"] for one in first["customJobs"] + second["customJobs"]] == [
        names[4],
        names[2],
        names[0],
    ]


@pytest.mark.parametrize(
    "mask", ["displayName,createTime", "display_name,create_time", "displayName, createTime"]
)
def test_a_read_mask_may_be_camel_or_snake_case(http: httpx.Client, mask: str) -> None:
    create(http)
    (one,) = http.get(JOBS, params={"readMask": mask}).json()["customJobs"]
    assert set(one) == {"displayName", "createTime"}


def test_cancel_answers_an_empty_object(http: httpx.Client) -> None:
    name = create(http, seconds="100000")["name"]
    for body in ("", "{}"):
        answer = http.post(f"/v1/{name}:cancel", content=body)
        assert (answer.status_code, answer.json()) == (200, {})
    assert wait(http, name)["state"] == "JOB_STATE_CANCELLED"


def test_operations_are_found_under_v1_and_ui(http: httpx.Client) -> None:
    name = create(http)["name"]
    wait(http, name)
    operation = http.delete(f"/v1/{name}").json()
    for version in ("v1", "ui"):
        assert http.get(f"/{version}/{operation['name']}").json() == operation
        listed = http.get(f"/{version}/{operation['name'].rsplit('/', 2)[0]}/operations").json()
        assert operation in listed["operations"]
        waited = http.post(f"/{version}/{operation['name']}:wait", json={"timeout": "1s"})
        assert waited.json() == operation
    below = operation["name"].replace("/operations/", "/customJobs/1/operations/")
    assert http.get(f"/v1/{below}").json()["done"] is True


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", f"{PARENT}/models"),
        ("GET", f"{PARENT}/trainingPipelines/1"),
        ("POST", f"{PARENT}/customJobs/1:pause"),
        ("PATCH", f"{JOBS}/1"),
        ("GET", f"{PARENT.replace('v1', 'v1beta1')}/customJobs"),
        ("GET", "/ui/projects/p/locations/us-central1/customJobs"),
        ("POST", "/v2/entries:write"),
        ("GET", "/v2/projects/p/logs"),
        ("GET", f"{JOBS}?fields=name"),
    ],
)
def test_what_is_not_emulated_says_so(http: httpx.Client, verb: str, path: str) -> None:
    assert "not emulated" in error(http.request(verb, path), 501, "UNIMPLEMENTED")


WRONG_BODIES = [
    (b"{", "at line 1 column 2"),
    (b'{"displayName": }', "line 1 column 17"),
    (b"[]", "expected an object, found a list".capitalize()),
    (b"null", "Expected an object, found null"),
    (b"\xff\xfe", "Not UTF-8 at byte 0"),
    (b'{"a": NaN}', "NaN is no JSON value"),
    (b'{"displayName": "a", "displayName": "b"}', "'displayName' is there twice"),
    (b'{"foo": 1}', "Unknown name \"foo\" at 'custom_job': Cannot find field."),
    (
        b'{"jobSpec": {"workerPoolSpecs": [{}, {"machine": 1}]}}',
        "Unknown name \"machine\" at 'custom_job.job_spec.worker_pool_specs[1]'",
    ),
    (b'{"jobSpec": []}', "'custom_job.job_spec' (type.CustomJobSpec): expected an object, found a list"),
    (b'{"jobSpec": {"workerPoolSpecs": {}}}', "worker_pool_specs': expected a list, found an object"),
    (b'{"labels": {"a": 1}}', "'custom_job.labels[a]' (TYPE_STRING): found a number"),
    (b'{"displayName": 5}', "displayName"),
    (b'{"displayName": "\\ud800"}', "surrogate"),
    (b'{"jobSpec": {"scheduling": {"strategy": "FASTEST"}}}', "FASTEST"),
    (b'{"jobSpec": {"scheduling": {"timeout": "1h"}}}', "1h"),
    (b'{"jobSpec": {"workerPoolSpecs": [{"replicaCount": 1.5}]}}', "1.5"),
    (b'{"jobSpec": {"workerPoolSpecs": [{"containerSpec": {}, "pythonPackageSpec": {}}]}}', "oneof"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"jobSpec":' * 1_000 + b"{}" + b"}" * 1_000, "Invalid JSON payload received"),
    (b"", "List of found errors:\t1.Field: display_name; Message: "),
    (b'{"displayName": "x"}', "Field: job_spec.worker_pool_specs; Message: "),
]


@pytest.mark.parametrize(("body", "says"), WRONG_BODIES, ids=[str(body[:40]) for body, _ in WRONG_BODIES])
def test_a_wrong_body_gets_a_precise_error(http: httpx.Client, body: bytes, says: str) -> None:
    assert says.lower() in error(http.post(JOBS, content=body), 400, "INVALID_ARGUMENT").lower()
    assert http.get(JOBS).json() == {}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("filter=foo=1", "unknown field 'foo'"),
        ("filter=state=RUNNING", "no job state"),
        ("pageSize=many", "many"),
        ("pageSize=-1", "negative"),
        ("pageToken=abc", "page token"),
        ("readMask=nothing", "'nothing' is no field of CustomJob"),
        ("orderBy=name", 'Unknown name "orderBy": Cannot bind query parameter'),
        ("alt=proto", "'proto' for alt"),
        ("$alt=json;enum-encoding=hex", "for $alt"),
        ("parent=projects/other/locations/us-east1", ""),
    ],
)
def test_a_wrong_parameter_gets_a_precise_error(http: httpx.Client, query: str, says: str) -> None:
    answer = http.get(f"{JOBS}?{query}")
    if says:
        assert says in error(answer, 400, "INVALID_ARGUMENT")
    else:
        assert answer.json() == {}  # the path wins over a parameter


def test_get_takes_no_read_mask(http: httpx.Client) -> None:
    name = create(http)["name"]
    assert 'Unknown name "readMask"' in error(http.get(f"/v1/{name}?readMask=name"), 400, "INVALID_ARGUMENT")


def test_system_parameters_are_taken(http: httpx.Client) -> None:
    answer = http.get(f"{JOBS}?prettyPrint=false&key=abc&quotaUser=me&$.xgafv=2&access_token=t")
    assert answer.status_code == 200
    assert answer.text == "{}"


def test_an_unknown_region_and_a_wrong_name_are_refused(http: httpx.Client) -> None:
    path = "/v1/projects/my-project/locations/mars-north1/customJobs"
    assert "Unsupported region" in error(http.post(path, json=job()), 400, "INVALID_ARGUMENT")
    message = error(
        http.get("/v1/projects/Bad_Project/locations/us-central1/customJobs"), 400, "INVALID_ARGUMENT"
    )
    assert "Bad_Project" in message


def test_ten_megabytes_are_refused_before_they_are_read(http: httpx.Client) -> None:
    large = json.dumps(job(displayName="x" * (10 * 1024 * 1024))).encode()
    message = error(http.post(JOBS, content=large), 400, "INVALID_ARGUMENT")
    assert message == "Request payload size exceeds the limit: 10485760 bytes."

    def chunks() -> Iterator[bytes]:
        for _ in range(11):
            yield b" " * (1024 * 1024)

    message = error(http.post(JOBS, content=chunks()), 400, "INVALID_ARGUMENT")
    assert "exceeds the limit" in message


def test_a_spec_of_many_megabytes_is_refused_by_its_size(http: httpx.Client) -> None:
    spec = job()
    spec["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"] = [{"name": "A", "value": "x" * 6_000_000}]
    message = error(http.post(JOBS, json=spec), 400, "INVALID_ARGUMENT")
    assert "at most 4194304 bytes" in message
    assert len(message) < 1_000


@pytest.mark.parametrize("name", ["Origin", "Host"])
@pytest.mark.parametrize("path", [JOBS, "/v2/entries:list", "/emulator/v1/calls"])
def test_a_web_page_is_refused(http: httpx.Client, name: str, path: str) -> None:
    value = {"Origin": "http://evil.example", "Host": "evil.example:8086"}[name]
    answer = http.get(path, headers={name: value})
    assert value.split("//")[-1] in error(answer, 403, "PERMISSION_DENIED")


def test_garbage_and_half_requests_leave_the_emulator_alive(emulator: Emulator, http: httpx.Client) -> None:
    host, port = emulator.rest_url.removeprefix("http://").split(":")
    for garbage in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        f"POST {JOBS} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n{{".encode(),
        f"POST {JOBS} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(garbage)
    assert http.get(JOBS).json() == {}


def test_a_path_that_is_no_api_is_not_found(http: httpx.Client) -> None:
    error(http.get("/"), 404, "NOT_FOUND")
    error(http.get("/emulator/v1/nothing"), 404, "NOT_FOUND")


def test_faults_hit_rest_calls_too_and_they_are_counted(http: httpx.Client) -> None:
    http.post(
        "/emulator/v1/faults",
        json={"fault": "rpc_error", "match": {"method": "ListCustomJobs"}, "code": "UNAVAILABLE"},
    ).raise_for_status()
    message = error(http.get(JOBS), 503, "UNAVAILABLE")
    assert message == "The service is currently unavailable."
    assert http.get(JOBS).status_code == 200
    assert http.get("/emulator/v1/calls").json() == {"ListCustomJobs": 2}


def test_a_hanging_call_hangs_until_the_caller_leaves(http: httpx.Client) -> None:
    http.post(
        "/emulator/v1/faults", json={"fault": "rpc_hang", "match": {"method": "ListCustomJobs"}}
    ).raise_for_status()
    with pytest.raises(httpx.ReadTimeout):
        http.get(JOBS, timeout=0.5)
    assert http.get(JOBS).status_code == 200


def test_logs_of_a_job_are_listed_over_rest(http: httpx.Client) -> None:
    name = create(http)["name"]
    wait(http, name)
    asked = {
        "resourceNames": ["projects/my-project"],
        "filter": f'resource.type="ml_job" AND resource.labels.job_id="{name.rsplit("/", 1)[1]}"',
        "orderBy": "timestamp asc",
        "pageSize": 1000,
    }
    entries = http.post("/v2/entries:list", json=asked).json()["entries"]
    said = [
        entry["textPayload"] for entry in entries if entry["resource"]["labels"]["task_name"] == "service"
    ]
    assert said[:3] == ["Waiting for job to be provisioned.", "Job is preparing.", "Job is running."]
    assert said[-1] == "Job completed successfully."
    first = http.post("/v2/entries:list", json={**asked, "pageSize": "1"}).json()
    second = http.post("/v2/entries:list", json={**asked, "pageToken": first["nextPageToken"]}).json()
    assert first["entries"] + second["entries"] == entries


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "at least one resource"),
        ({"resourceNames": "projects/p"}, "'resource_names': expected list"),
        ({"resourceNames": [1]}, "'resource_names': expected list"),
        ({"resourceNames": ["projects/p"], "pageSize": "x"}, "'page_size': expected int"),
        ({"resourceNames": ["projects/p"], "filter": "severity>=LOUD"}, "no severity"),
        ({"resourceNames": ["projects/p"], "limit": 1}, 'Unknown name "limit"'),
    ],
)
def test_a_wrong_log_request_gets_a_precise_error(
    http: httpx.Client, body: dict[str, Any], says: str
) -> None:
    assert says in error(http.post("/v2/entries:list", json=body), 400, "INVALID_ARGUMENT")
