"""Cloud Logging over the jobs' log store, asked by google-cloud-logging itself over gRPC."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.api_core.exceptions import InvalidArgument
from google.auth.credentials import AnonymousCredentials
from google.cloud import logging as cloud_logging
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
from google.cloud.logging_v2.services.logging_service_v2.transports import LoggingServiceV2GrpcTransport
from google.cloud.logging_v2.types import ListLogEntriesRequest, TailLogEntriesRequest

from airflow_provider.agent_platform.emulator.errors import ApiError
from airflow_provider.agent_platform.emulator.log_api import LogApi
from airflow_provider.agent_platform.emulator.log_view import rfc3339
from airflow_provider.agent_platform.emulator.logs import LogStore
from airflow_provider.agent_platform.emulator.resources import project_number
from airflow_provider.agent_platform.emulator.wire_logging_grpc import logging_handler

PROJECT = "my-project"
NUMBER = project_number(PROJECT)


class Wall:
    """A clock that a test sets; each look is a microsecond later, as in life."""

    def __init__(self) -> None:
        self.now = 1_779_105_600.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(wall: Wall) -> LogStore:
    return LogStore(wall)


@pytest.fixture
def api(store: LogStore) -> LogApi:
    return LogApi(store)


@pytest.fixture
def target(api: LogApi) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    handler = logging_handler(api)
    assert handler is not None
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


@pytest.fixture
def client(target: str) -> Iterator[LoggingServiceV2Client]:
    with grpc.insecure_channel(target) as channel:
        yield LoggingServiceV2Client(transport=LoggingServiceV2GrpcTransport(channel=channel))


def write(
    store: LogStore, line: str, job_id: str = "1", task_name: str = "workerpool0-0", **more: Any
) -> None:
    store.write(line, project=NUMBER, region="us-central1", job_id=job_id, task_name=task_name, **more)


def texts(entries: list[dict[str, Any]]) -> list[str]:
    return [entry.get("textPayload") or entry["jsonPayload"]["message"] for entry in entries]


def test_an_entry_has_the_shape_that_clients_of_the_service_read(api: LogApi, store: LogStore) -> None:
    write(store, "Job is running.", task_name="service", severity="INFO")
    write(store, '{"message": "step", "severity": "ERROR", "step": 3}')
    service, structured = api.list_entries(resource_names=[f"projects/{PROJECT}"]).entries
    assert service["resource"] == {
        "type": "ml_job",
        "labels": {"job_id": "1", "project_id": PROJECT, "task_name": "service"},
    }
    assert service["textPayload"] == "Job is running."
    assert service["logName"] == f"projects/{PROJECT}/logs/ml.googleapis.com%2F1"
    assert service["timestamp"] == "2026-05-18T12:00:00.000000000Z"
    assert structured["severity"] == "ERROR"
    assert structured["jsonPayload"]["step"] == 3
    assert "textPayload" not in structured


def test_entries_of_one_job_come_oldest_first_in_pages(api: LogApi, store: LogStore, wall: Wall) -> None:
    for number in range(7):
        wall.now += 1
        write(store, f"line {number}")
        write(store, f"other {number}", job_id="2")
    found, token = [], ""
    for _ in range(4):
        page = api.list_entries(
            resource_names=[f"projects/{NUMBER}"],
            filter='resource.labels.job_id="1"',
            page_size=2,
            page_token=token,
        )
        found += texts(page.entries)
        token = page.next_page_token
    assert found == [f"line {number}" for number in range(7)]
    assert token == ""


def test_the_newest_come_first_when_asked_so(api: LogApi, store: LogStore, wall: Wall) -> None:
    for number in range(3):
        wall.now += 1
        write(store, f"line {number}")
    first = api.list_entries(resource_names=["projects/my-project"], order_by="timestamp desc", page_size=2)
    second = api.list_entries(
        resource_names=["projects/my-project"],
        order_by="timestamp desc",
        page_size=2,
        page_token=first.next_page_token,
    )
    assert texts(first.entries + second.entries) == ["line 2", "line 1", "line 0"]


def test_pages_do_not_shift_when_entries_arrive_in_between(api: LogApi, store: LogStore) -> None:
    for number in range(4):
        write(store, f"line {number}")
    first = api.list_entries(resource_names=["projects/my-project"], page_size=2)
    write(store, "late")
    second = api.list_entries(
        resource_names=["projects/my-project"], page_size=10, page_token=first.next_page_token
    )
    assert texts(second.entries) == ["line 2", "line 3", "late"]


def test_a_project_sees_its_own_entries_only(api: LogApi, store: LogStore) -> None:
    write(store, "mine")
    assert api.list_entries(resource_names=["projects/other"]).entries == []
    both = api.list_entries(resource_names=["projects/other", "projects/my-project/locations/global"])
    assert texts(both.entries) == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"resource_names": []}, "at least one resource"),
        ({"resource_names": ["folders/1"]}, "must begin with projects/"),
        ({"resource_names": ["projects/p"], "order_by": "severity"}, "timestamp asc"),
        ({"resource_names": ["projects/p"], "page_size": -1}, "must not be negative"),
        ({"resource_names": ["projects/p"], "page_token": "!"}, "not one that this service gave"),
        ({"resource_names": ["projects/p"] * 101}, "at most 100"),
    ],
)
def test_a_wrong_request_is_refused_precisely(api: LogApi, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ApiError) as caught:
        api.list_entries(**arguments)
    assert caught.value.code == 3
    assert says in caught.value.message


def test_a_page_token_of_another_query_is_refused(api: LogApi, store: LogStore) -> None:
    write(store, "a")
    write(store, "b")
    token = api.list_entries(resource_names=["projects/my-project"], page_size=1).next_page_token
    with pytest.raises(ApiError, match="belongs to another request"):
        api.list_entries(resource_names=["projects/my-project"], filter="severity>=ERROR", page_token=token)


def test_times_are_texts_of_one_length_that_sort_as_times() -> None:
    moments = [0.0, 0.1, 1.0, 1.000001, 1_800_000_000.999999]
    found = [rfc3339(moment) for moment in moments]
    assert found == sorted(found)
    assert {len(text) for text in found} == {30}


def test_google_cloud_logging_lists_the_entries_of_a_job(target: str, store: LogStore, wall: Wall) -> None:
    wall.now = time.time() - 60
    write(store, "Job is preparing.", task_name="service", severity="INFO")
    write(store, '{"message": "bad", "severity": "ERROR"}')
    transport: Any = LoggingServiceV2GrpcTransport(channel=grpc.insecure_channel(target))
    # The library has no types: Any.
    client: Any = cloud_logging.Client(project=PROJECT, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    client._logging_api = _wrap(transport, client)
    entries = list(client.list_entries(filter_='resource.type="ml_job" AND resource.labels.job_id="1"'))
    assert [entry.payload for entry in entries] == [
        "Job is preparing.",
        {"message": "bad", "severity": "ERROR"},
    ]
    assert [entry.severity for entry in entries] == ["INFO", "ERROR"]
    assert entries[1].resource.labels["task_name"] == "workerpool0-0"
    transport.close()


def _wrap(transport: LoggingServiceV2GrpcTransport, client: Any) -> Any:
    from google.cloud.logging_v2 import _gapic

    api: Any = _gapic._LoggingAPI
    return api(LoggingServiceV2Client(transport=transport), client)


def test_the_generated_client_pages_by_itself(client: LoggingServiceV2Client, store: LogStore) -> None:
    for number in range(5):
        write(store, f"line {number}")
    request = ListLogEntriesRequest(resource_names=["projects/my-project"], page_size=2)
    assert [entry.text_payload for entry in client.list_log_entries(request)] == [
        f"line {i}" for i in range(5)
    ]


def test_a_wrong_filter_is_invalid_argument_over_grpc(client: LoggingServiceV2Client) -> None:
    with pytest.raises(InvalidArgument, match="no severity"):
        client.list_log_entries(
            ListLogEntriesRequest(resource_names=["projects/p"], filter="severity>=LOUD"), timeout=10
        )


def test_tail_shows_what_is_written_from_now_on(client: LoggingServiceV2Client, store: LogStore) -> None:
    write(store, "before")
    stop = threading.Event()

    def keep_writing() -> None:
        number = 0
        while not stop.wait(0.05):
            write(store, f"other {number}", job_id="2")
            write(store, f"line {number}")
            number += 1

    request = TailLogEntriesRequest(
        resource_names=["projects/my-project"], filter='resource.labels.job_id="1"'
    )
    writer = threading.Thread(target=keep_writing)
    writer.start()
    found: list[str] = []
    try:
        # The call itself returns with the first answer only: the client library reads one ahead.
        stream: Any = client.tail_log_entries(iter([request]))
        for response in stream:
            found += [entry.text_payload for entry in response.entries]
            if len(found) >= 3:
                break
        stream.cancel()
    finally:
        stop.set()
        writer.join()
    assert all(text.startswith("line ") for text in found)
    numbers = [int(text.split()[1]) for text in found]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_tail_with_a_wrong_filter_is_refused(client: LoggingServiceV2Client) -> None:
    with pytest.raises(InvalidArgument):
        list(
            client.tail_log_entries(
                iter([TailLogEntriesRequest(resource_names=["projects/p"], filter="severity>=LOUD")])
            )
        )


def test_a_tail_in_many_batches_loses_nothing(api: LogApi, store: LogStore) -> None:
    rounds = iter([True] * 6)
    tail = api.tail_entries(
        resource_names=["projects/my-project"], active=lambda: next(rounds, False), wait_seconds=0.2
    )
    batches: list[list[dict[str, Any]]] = []
    reader = threading.Thread(target=lambda: batches.extend(tail))
    reader.start()
    time.sleep(0.05)
    for number in range(1_200):
        write(store, f"line {number}")
    reader.join()
    found = [text for batch in batches for text in texts(batch)]
    assert found == [f"line {number}" for number in range(1_200)]
    assert len(batches) > 1
