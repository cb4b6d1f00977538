"""Clients that mean no good, alone or in crowds: a precise answer, and everybody else goes on as before."""

from __future__ import annotations

import concurrent.futures
import json
import random
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import types

from airflow_provider.agent_platform.emulator import service
from airflow_provider.agent_platform.emulator.client import ControlError
from airflow_provider.agent_platform.emulator.store import Row

Make = Callable[..., dict[str, Any]]
JOBS = "/v1/projects/test-project/locations/us-central1/customJobs"
SERVICE = "/google.cloud.aiplatform.v1.JobService"


# --- filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "(" * 9_000 + 'state="JOB_STATE_RUNNING"' + ")" * 9_000,
        "NOT " * 5_000,
        "-" * 19_000,
        "NOT (" * 3_000 + 'state="JOB_STATE_RUNNING"' + ")" * 3_000,
        "x" * 100_000,
        '"' * 19_999,
        "'\\" * 9_000,
        "labels." + "a." * 9_000 + "=1",
        'state="JOB_STATE_\u0000RUNNING"',
        "state=\u202eJOB_STATE_RUNNING",
        'create_time>"99999-01-01T00:00:00Z"',
        'create_time>"0000-00-00T00:00:00Z"',
        'display_name=~"(a+)+$"',
        "-- only a comment\nstate",
    ],
    ids=range(14),
)
def test_absurd_filters_are_refused_or_answered_at_once(text: str, served: Any, parent: str) -> None:
    begun = time.monotonic()
    try:
        list(served.client.list_custom_jobs({"parent": parent, "filter": text}))
    except exceptions.InvalidArgument as error:
        assert 0 < len(str(error)) < 5_000  # noqa: PT017 - both ends are right
    assert time.monotonic() - begun < 10


def test_a_pattern_of_many_stars_does_not_backtrack(
    served: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    served.create(make_job(make_pool(), name="a" * 128))
    begun = time.monotonic()
    text = f'display_name:"{"*a" * 60}*b"'
    assert list(served.client.list_custom_jobs({"parent": parent, "filter": text})) == []
    assert time.monotonic() - begun < 5


def many_rows(cloud: Any, count: int) -> None:
    """Put jobs into the store by the back door: only their number matters."""
    engine = cloud.emulator.server.engine
    with engine.lock:
        for number in range(count):
            engine.store.add(
                Row(
                    id=str(number),
                    sequence=engine.store.next_sequence(),
                    kind="customJobs",
                    project="1",
                    region="us-central1",
                    display_name="a" * 100,
                    state=4,
                    created_ns=number,
                    labels={},
                    payload=b"",
                )
            )


LONG = " OR ".join(f'display_name:"*a*a*b{number}"' for number in range(600))


def test_a_list_that_takes_long_keeps_nobody_waiting(served: Any, make_job: Make, make_pool: Make) -> None:
    many_rows(served, 20_000)
    name = served.create(make_job(make_pool()))
    listing = served.client.transport.list_custom_jobs.future(
        types.ListCustomJobsRequest(parent="projects/1/locations/us-central1", filter=LONG), timeout=60
    )
    waits = list[float]()
    while not listing.done() and len(waits) < 30:
        begun = time.monotonic()
        served.get(name)
        waits.append(time.monotonic() - begun)
    assert not listing.done()  # else the filter is no longer a long one
    assert sorted(waits)[len(waits) // 2] < 0.5
    listing.cancel()


def test_a_list_that_takes_too_long_is_refused(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LIST_SECONDS", 0.05)
    many_rows(served, 5_000)
    with pytest.raises(exceptions.DeadlineExceeded, match="filter"):
        served.client.list_custom_jobs({"parent": "projects/1/locations/us-central1", "filter": LONG})


@pytest.mark.parametrize(
    "token", ["x", "AAAA", "é", "\u0000", "YWZ0ZXI6eA==", "YWZ0ZXI6MWU5", "/" * 5000, "YWZ0ZXI6LTU="]
)
def test_page_tokens_of_others_are_refused_or_empty(token: str, served: Any, parent: str) -> None:
    try:
        page = served.client.list_custom_jobs({"parent": parent, "page_token": token})
        assert list(page) == []
    except exceptions.InvalidArgument as error:
        assert "page_token" in str(error)  # noqa: PT017 - both ends are right


@pytest.mark.parametrize("token", ["[" * 5_000, "x", "W10=", "bnVsbA==", "WzEuMCwxLCJ4Il0=", "é"])
def test_page_tokens_of_logs_are_refused(token: str, served: Any) -> None:
    import base64

    token = base64.b64encode(token.encode()).decode() if token.startswith("[") else token
    body = json.dumps({"resourceNames": ["projects/test-project"], "pageToken": token})
    status, answer = served.rest("POST", "/v2/entries:list", body)
    assert (status, "page_token" in answer["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    "text",
    [
        'textPayload=~"(a+)+$"',
        'textPayload=~"(a|a)*$"',
        'textPayload=~"(.*a){20}b"',
        'textPayload=~"((a*)*)*b"',
        'textPayload=~"a*a*a*a*a*a*a*a*a*a*b"',
    ],
)
def test_regular_expressions_that_would_never_end_hold_up_nobody(
    text: str, served: Any, make_job: Make, make_pool: Make
) -> None:
    name = served.create(make_job(make_pool(), name="noisy")).rpartition("/")[2]
    served.emulator.server.engine.logs.write(
        "a" * 5_000 + "!", project="1", region="us-central1", job_id=name, task_name="workerpool0-0"
    )
    body = json.dumps({"resourceNames": ["projects/1"], "filter": text})
    begun = time.monotonic()
    status, answer = served.rest("POST", "/v2/entries:list", body)
    assert time.monotonic() - begun < 10
    assert status in (200, 400), answer


# --- what workers write ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        '{"message": "\\ud800", "x": 1}',
        '{"\\ud800": 1}',
        '{"message": "inf", "x": Infinity}',
        '{"message": "nan", "x": NaN}',
        '{"message": "large", "x": 1e999}',
        '{"message": "deep", "x": ' + "[" * 500 + "]" * 500 + "}",
        '{"message": ' + "9" * 4000 + "}",
        '{"message": null, "severity": ["x"]}',
        "\ud800 \x00 \u202e",
    ],
    ids=range(9),
)
def test_an_odd_line_of_a_worker_spoils_no_log(line: str, served: Any) -> None:
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
    from google.cloud.logging_v2.services.logging_service_v2.transports import LoggingServiceV2GrpcTransport

    logs = served.emulator.server.engine.logs
    for text in ("before", line, "after"):
        logs.write(text, project="1", region="us-central1", job_id="7", task_name="workerpool0-0")
    client = LoggingServiceV2Client(transport=LoggingServiceV2GrpcTransport(channel=served.channel))
    asked = {"resource_names": ["projects/1"], "filter": 'resource.labels.job_id="7"'}
    assert len(list(client.list_log_entries(asked))) == 3
    body = json.dumps({"resourceNames": ["projects/1"], "filter": asked["filter"]})
    status, answer = served.rest("POST", "/v2/entries:list", body)
    assert (status, len(answer["entries"])) == (200, 3)
    json.dumps(answer, allow_nan=False)


# --- the control API -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "path", "body", "named"),
    [
        ("POST", "/faults", {}, "fault"),
        ("POST", "/faults", [], "object"),
        ("POST", "/faults", {"fault": ["stockout"]}, "fault"),
        ("POST", "/faults", {"fault": "stockout", "Times": 1}, "Times"),
        ("POST", "/faults", {"fault": "stockout", "times": 0}, "times"),
        ("POST", "/faults", {"fault": "stockout", "times": True}, "times"),
        ("POST", "/faults", {"fault": "stockout", "times": 1.5}, "times"),
        ("POST", "/faults", {"fault": "stockout", "match": "x"}, "match"),
        ("POST", "/faults", {"fault": "stockout", "match": {"name": "x"}}, "match"),
        ("POST", "/faults", {"fault": "stockout", "match": {"display_name": 5}}, "match"),
        ("POST", "/faults", {"fault": "node_loss", "replica": "worker0"}, "replica"),
        ("POST", "/faults", {"fault": "node_loss", "replica": "workerpool²-0"}, "replica"),
        ("POST", "/faults", {"fault": "slow_start"}, "seconds"),
        ("POST", "/faults", {"fault": "slow_start", "seconds": -1}, "seconds"),
        ("POST", "/faults", {"fault": "rpc_error", "code": "NOPE"}, "code"),
        ("POST", "/faults", {"fault": "rpc_error", "code": ["x"]}, "code"),
        ("POST", "/faults", {"fault": "rpc_error", "method": "GetCustomJobs"}, "method"),
        ("POST", "/faults", {"fault": "rpc_hang", "match": {"method": "No"}}, "method"),
        ("PUT", "/quotas", [], "object"),
        ("PUT", "/quotas", {"us-central1": 5}, "us-central1"),
        ("PUT", "/quotas", {"us-central1": {"custom_model_training_cpus": "8"}}, "custom_model_training_cpus"),
        ("PUT", "/quotas", {"us-central1": {"cpus": 8}}, "cpus"),
        ("PUT", "/quotas", {"us-central7": {"custom_model_training_cpus": 8}}, "us-central7"),
    ],
)  # fmt: skip
def test_control_calls_with_wrong_fields_name_the_field(
    verb: str, path: str, body: Any, named: str, served: Any
) -> None:
    with pytest.raises(ControlError) as caught:
        served.control.call(verb, path, body)
    assert caught.value.status == 400
    assert named in str(caught.value)
    assert served.control.faults() == []


# --- unicode ---------------------------------------------------------------------------------------------------

STRANGE = "ünï 日本語 💩 \u202e\u0000 \u200b"


def test_a_name_of_strange_characters_comes_back_as_it_was(
    served: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    body = make_job(
        make_pool(["true", STRANGE], X=STRANGE.replace("\u0000", "")), name=STRANGE, labels={"größe": "日本"}
    )
    name = served.create(body)
    assert served.get(name).display_name == STRANGE
    quoted = STRANGE.replace("\\", "\\\\").replace('"', '\\"')
    for text in (
        f'display_name="{quoted}"',
        'display_name:"*日本語*"',
        'labels.größe="日本"',
        'labels."größe":*',
    ):
        found = list(served.client.list_custom_jobs({"parent": parent, "filter": text}))
        assert [job.name for job in found] == [name], text
    status, answer = served.rest("GET", f"/v1/{name}")
    assert (status, answer["displayName"]) == (200, STRANGE)
    assert served.control.events(name)
    served.control.add_fault("stockout", match={"display_name": "*💩*"})


@pytest.mark.parametrize(
    "project", ["日本", "a b", "..", "-", "a" * 200, "%2e", "p\u0000", "1" * 100, "example.com:proj"]
)
def test_odd_projects_are_refused_or_have_no_jobs(project: str, served: Any) -> None:
    try:
        found = served.client.list_custom_jobs(parent=f"projects/{project}/locations/us-central1")
        assert list(found) == []
    except exceptions.InvalidArgument as error:
        assert "roject" in str(error)  # noqa: PT017 - both ends are right


# --- names of others -------------------------------------------------------------------------------------------


def test_a_job_is_reached_by_its_own_name_only(
    served: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    name = served.create(make_job(make_pool(EMULATE_RUN_SECONDS="60")))
    job_id = name.rpartition("/")[2]
    others = [
        f"projects/other/locations/us-central1/customJobs/{job_id}",
        f"projects/test-project/locations/europe-west4/customJobs/{job_id}",
        f"{parent}/customJobs/{int(job_id) + 1}",
        f"{parent}/customJobs/0{job_id}",
        f"{parent}/customJobs/{job_id}%00",
    ]
    for other in others:
        for call in (
            served.client.get_custom_job,
            served.client.cancel_custom_job,
            served.client.delete_custom_job,
        ):
            with pytest.raises(exceptions.NotFound):
                call(name=other)
    tuning_name = f"{parent}/hyperparameterTuningJobs/{job_id}"
    with pytest.raises(exceptions.NotFound):
        served.client.get_hyperparameter_tuning_job(name=tuning_name)
    with pytest.raises(exceptions.InvalidArgument):
        served.client.get_custom_job(name=tuning_name)
    served.advance(3600)
    assert served.get(name).state.name == "JOB_STATE_SUCCEEDED"


def test_operations_of_another_project_are_not_found(served: Any, make_job: Make, make_pool: Make) -> None:
    name = served.run(make_job(make_pool())).name
    operation = served.client.delete_custom_job(name=name).operation
    elsewhere = operation.name.replace("projects/", "projects/9")
    assert served.rest("GET", f"/v1/{operation.name}")[0] == 200
    assert served.rest("GET", f"/v1/{elsewhere}")[0] == 404


# --- many at once ----------------------------------------------------------------------------------------------


def test_two_hundred_clients_at_once_are_all_served(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make, parent: str
) -> None:
    cloud = fast_cloud(runner="simulated", speed=100)
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own each
    request = types.CreateCustomJobRequest(parent=parent, custom_job=types.CustomJob(make_job(make_pool())))
    data = types.CreateCustomJobRequest.serialize(request)

    def client(number: int) -> str:
        with grpc.insecure_channel(cloud.emulator.grpc_target, options) as channel:
            answer = channel.unary_unary(f"{SERVICE}/CreateCustomJob")(data, timeout=60)
            name = str(types.CustomJob.deserialize(answer).name)
            if number % 2:
                asked = types.GetCustomJobRequest.serialize(types.GetCustomJobRequest(name=name))
                channel.unary_unary(f"{SERVICE}/GetCustomJob")(asked, timeout=60)
            else:
                assert cloud.rest("GET", f"/v1/{name}")[0] == 200
        return name

    with concurrent.futures.ThreadPoolExecutor(200) as threads:
        names = set(threads.map(client, range(200)))
    assert len(names) == 200
    for name in names:
        assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED"


@pytest.mark.parametrize("db", [":memory:", "file"])
@pytest.mark.parametrize("policy", ["refuse", "cancel"])
def test_cancels_and_deletes_that_race_leave_a_sound_store(
    db: str,
    policy: str,
    fast_cloud: Callable[..., Any],
    make_job: Make,
    make_pool: Make,
    parent: str,
    tmp_path: Any,
) -> None:
    path = db if db == ":memory:" else str(tmp_path / "jobs.db")
    cloud = fast_cloud(runner="simulated", speed=1000, db=path, switches={"delete_live": policy})
    dice = random.Random(5)
    names = [
        cloud.create(make_job(make_pool(EMULATE_RUN_SECONDS=str(dice.choice((0, 30, 10_000))))))
        for _ in range(40)
    ]
    calls = [(name, verb) for name in names for verb in ("cancel", "delete", "delete", "get", "cancel")]
    dice.shuffle(calls)

    def act(call: tuple[str, str]) -> str:
        name, verb = call
        try:
            getattr(cloud.client, f"{verb}_custom_job")(name=name)
        except (exceptions.NotFound, exceptions.FailedPrecondition) as error:
            return type(error).__name__
        return "OK"

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        assert set(threads.map(act, calls)) <= {"OK", "NotFound", "FailedPrecondition"}
    engine = cloud.emulator.server.engine
    deadline = time.monotonic() + 30
    while engine.live() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert engine.live() == []
    for job in cloud.client.list_custom_jobs(parent=parent):
        cloud.wait(job.name)
        cloud.client.delete_custom_job(name=job.name)
    assert list(cloud.client.list_custom_jobs(parent=parent)) == []
    assert len(engine.store) == 0
    assert engine._delete_at_end == set()


def test_a_reset_in_the_middle_of_everything_leaves_nothing(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make, parent: str
) -> None:
    cloud = fast_cloud(runner="simulated", speed=1000)
    body = make_job(make_pool(EMULATE_RUN_SECONDS="20"))

    def act(number: int) -> None:
        if number % 25 == 24:
            cloud.control.reset()
            return
        try:
            name = cloud.create(body)
            cloud.client.cancel_custom_job(name=name)
        except exceptions.NotFound:
            pass

    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        list(threads.map(act, range(200)))
    cloud.control.reset()
    assert list(cloud.client.list_custom_jobs(parent=parent)) == []
    assert cloud.wait(cloud.create(body)).state.name == "JOB_STATE_SUCCEEDED"
