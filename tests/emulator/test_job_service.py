"""The API's methods over gRPC, as Google's client sees them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1
from google.longrunning import operations_pb2  # type: ignore[import-untyped]  # ships no types
from google.protobuf import field_mask_pb2

Make = Callable[..., dict[str, Any]]
NAME = re.compile(r"projects/(\d+)/locations/us-central1/customJobs/(\d{19})")


def listed(still: Any, parent: str, **more: Any) -> list[str]:
    request = aiplatform_v1.ListCustomJobsRequest(parent=parent, **more)
    return [found.display_name for found in still.client.list_custom_jobs(request)]


def test_names_answer_with_the_project_number_and_19_digits(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    name = still.create(make_job(make_pool()))
    found = NAME.fullmatch(name)
    assert found
    by_id = f"{parent}/customJobs/{found[2]}"
    assert still.get(by_id).name == still.get(name).name == name
    assert still.create(make_job(make_pool()), f"projects/{found[1]}/locations/us-central1").startswith(
        name[:30]
    )


@pytest.mark.parametrize(
    "name",
    ["projects/other/locations/us-central1/customJobs/{id}", "projects/test-project/locations/us-east1/customJobs/{id}",
     "projects/test-project/locations/us-central1/customJobs/1"],
)  # fmt: skip
def test_a_job_of_another_project_region_or_id_is_not_found(
    name: str, still: Any, make_job: Make, make_pool: Make
) -> None:
    job_id = still.create(make_job(make_pool())).rpartition("/")[2]
    with pytest.raises(exceptions.NotFound):
        still.get(name.format(id=job_id))


@pytest.mark.parametrize(
    "name",
    ["x", "projects/p/locations/us-central1/batchPredictionJobs/1", "projects//locations/x/customJobs/1"],
)
def test_what_is_no_name_is_invalid(name: str, still: Any) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        still.get(name)


def test_the_service_alone_sets_its_fields(still: Any, make_job: Make, make_pool: Make) -> None:
    body = {**make_job(make_pool()), "name": "mine", "state": "JOB_STATE_SUCCEEDED", "error": {"code": 5}}
    found = still.get(still.create(body))
    assert NAME.fullmatch(found.name)
    assert (found.state.name, found.error.code) == ("JOB_STATE_PENDING", 0)


def test_an_invalid_job_is_refused_and_not_stored(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        still.create(make_job(make_pool(machine="n1-nothing-4")))
    assert listed(still, parent) == []


def test_a_region_that_is_not_there_is_refused(still: Any, make_job: Make, make_pool: Make) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="mars-north1"):
        still.create(make_job(make_pool()), "projects/p/locations/mars-north1")


def test_lists_are_newest_first_and_apart_by_region(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    for number in range(3):
        still.create(make_job(make_pool(), name=f"job-{number}"))
    elsewhere = parent.replace("us-central1", "europe-west4")
    still.create(make_job(make_pool(), name="elsewhere"), elsewhere)
    assert listed(still, parent) == ["job-2", "job-1", "job-0"]
    assert listed(still, elsewhere) == ["elsewhere"]


def test_pages_show_each_job_once_while_others_are_created(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    for number in range(7):
        still.create(make_job(make_pool(), name=f"job-{number}"))
    seen: list[str] = []
    token, pages = "", 0
    while True:
        request = aiplatform_v1.ListCustomJobsRequest(parent=parent, page_size=3, page_token=token)
        page = next(still.client.list_custom_jobs(request).pages)
        seen += [found.display_name for found in page.custom_jobs]
        still.create(make_job(make_pool(), name="new"))
        token, pages = page.next_page_token, pages + 1
        if not token:
            break
    assert (seen, pages) == ([f"job-{number}" for number in range(6, -1, -1)], 3)


def test_a_page_has_100_at_most(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    for _ in range(101):
        still.create(make_job(make_pool()))
    for size in (0, 100, 5000):
        page = next(
            still.client.list_custom_jobs(
                aiplatform_v1.ListCustomJobsRequest(parent=parent, page_size=size)
            ).pages
        )
        assert len(page.custom_jobs) == 100
        assert page.next_page_token


@pytest.mark.parametrize(
    "more", [{"page_token": "zz"}, {"page_token": "YWZ0ZXI6eA=="}, {"page_size": -1}, {"filter": "bogus = 1"}]
)
def test_a_list_that_makes_no_sense_is_refused(more: dict[str, Any], still: Any, parent: str) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        listed(still, parent, **more)


def test_a_filter_by_state_and_label(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    still.run(make_job(make_pool(), name="old", labels={"airflow-ti": "a"}))
    still.create(make_job(make_pool(), name="new", labels={"airflow-ti": "a"}))
    still.create(make_job(make_pool(), name="other", labels={"airflow-ti": "b"}))
    assert listed(still, parent, filter='labels.airflow-ti="a"') == ["new", "old"]
    assert listed(still, parent, filter='labels.airflow-ti=a AND state="JOB_STATE_SUCCEEDED"') == ["old"]
    assert listed(still, parent, filter='NOT state="JOB_STATE_SUCCEEDED"') == ["other", "new"]


def test_a_read_mask_leaves_the_rest_out(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    still.create(make_job(make_pool()))
    mask = field_mask_pb2.FieldMask(paths=["name", "state", "job_spec.scheduling"])
    request = aiplatform_v1.ListCustomJobsRequest(parent=parent, read_mask=mask)
    (found,) = still.client.list_custom_jobs(request)
    assert found.name
    assert found.state
    assert not found.display_name
    assert not found.job_spec.worker_pool_specs


def test_a_read_mask_of_an_unknown_field_is_refused(still: Any, parent: str) -> None:
    mask = field_mask_pb2.FieldMask(paths=["name", "colour"])
    with pytest.raises(exceptions.InvalidArgument, match="colour"):
        list(
            still.client.list_custom_jobs(aiplatform_v1.ListCustomJobsRequest(parent=parent, read_mask=mask))
        )


def test_delete_answers_an_operation_that_is_done(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    name = still.run(make_job(make_pool())).name
    operation = still.client.delete_custom_job(name=name)
    assert operation.result(timeout=5) is not None
    assert operation.metadata is not None
    with pytest.raises(exceptions.NotFound):
        still.get(name)
    assert listed(still, parent) == []
    again = still.client.get_operation(operations_pb2.GetOperationRequest(name=operation.operation.name))
    assert again.done


def test_a_live_job_cannot_be_deleted(still: Any, make_job: Make, make_pool: Make) -> None:
    name = still.create(make_job(make_pool()))
    with pytest.raises(exceptions.FailedPrecondition, match="cancel it"):
        still.client.delete_custom_job(name=name)
    assert still.get(name).name == name


def test_a_live_job_is_cancelled_and_forgotten_when_the_switch_says_so(
    still_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = still_cloud(switches={"delete_live": "cancel"})
    name = cloud.create(make_job(make_pool(EMULATE_RUN_SECONDS="600")))
    cloud.advance(10)
    cloud.client.delete_custom_job(name=name).result(timeout=5)
    cloud.advance(10)
    with pytest.raises(exceptions.NotFound):
        cloud.get(name)


def test_a_job_that_was_deleted_before_its_late_error_stays_deleted(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    name = still.create(make_job(make_pool(EMULATE_EXIT_CODE="1")))
    still.advance(10)
    still.client.delete_custom_job(name=name)
    still.advance(100)
    with pytest.raises(exceptions.NotFound):
        still.get(name)


def test_an_operation_that_is_not_there_is_not_found(still: Any, parent: str) -> None:
    with pytest.raises(exceptions.NotFound):
        still.client.get_operation(operations_pb2.GetOperationRequest(name=f"{parent}/operations/1"))


def test_operations_are_listed(still: Any, make_job: Make, make_pool: Make, parent: str) -> None:
    for _ in range(2):
        still.client.delete_custom_job(name=still.run(make_job(make_pool())).name)
    request = operations_pb2.ListOperationsRequest(name=parent)
    assert len(still.client.list_operations(request).operations) == 2


def test_a_refused_cancel_by_switch(still_cloud: Callable[..., Any], make_job: Make, make_pool: Make) -> None:
    cloud = still_cloud(switches={"cancel_ended": "refuse"})
    name = cloud.run(make_job(make_pool())).name
    with pytest.raises(exceptions.FailedPrecondition):
        cloud.client.cancel_custom_job(name=name)


def test_rate_limits_by_switch(still_cloud: Callable[..., Any], make_job: Make, make_pool: Make) -> None:
    cloud = still_cloud(switches={"rate_limits": True})
    for _ in range(60):
        cloud.create(make_job(make_pool()))
    with pytest.raises(exceptions.ResourceExhausted, match="60 creates and deletes a minute"):
        cloud.create(make_job(make_pool()))
    cloud.advance(61)
    cloud.create(make_job(make_pool()))


@pytest.mark.parametrize("method", ["ListNasJobs", "NoSuchMethod"])
def test_a_method_that_is_not_emulated_is_unimplemented(method: str, still: Any) -> None:
    call = still.channel.unary_unary(f"/google.cloud.aiplatform.v1.JobService/{method}")
    with pytest.raises(grpc.RpcError) as refused:
        call(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_garbage_in_a_message_is_refused_and_the_emulator_lives_on(still: Any, parent: str) -> None:
    call = still.channel.unary_unary("/google.cloud.aiplatform.v1.JobService/CreateCustomJob")
    with pytest.raises(grpc.RpcError):
        call(b"\xff\xff\xff\xff garbage")
    assert listed(still, parent) == []
