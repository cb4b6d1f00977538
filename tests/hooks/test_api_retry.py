"""Which errors are repeated, and after which a job may exist: the errors that Google's clients really raise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.api_core import exceptions as untyped_api_errors
from google.auth import exceptions as untyped_auth_errors
from google.rpc import error_details_pb2

from airflow_provider.agent_platform.hooks import api_retry

# Google annotates the attributes of its errors but not their constructors.
api_errors: Any = untyped_api_errors
auth_errors: Any = untyped_auth_errors

QUOTA = "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
REVOKED = "invalid_grant: Invalid JWT Signature."
RATE = (
    "Quota exceeded for quota metric 'Create requests' and limit 'Create requests per minute per region' of service "
    "'aiplatform.googleapis.com' for consumer 'project_number:123'."
)


class RawError(grpc.RpcError):  # type: ignore[misc]  # grpc ships no types
    """What a bare grpc stub raises."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "connection reset"


def aio_error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="stream removed")


ERRORS: list[tuple[BaseException, int, bool, bool]] = [
    # error, code, repeated on a read, job may exist after a create
    (api_errors.ServiceUnavailable("The service is currently unavailable."), 14, True, True),
    (api_errors.InternalServerError("Internal error encountered."), 13, True, True),
    (api_errors.DeadlineExceeded("Deadline Exceeded"), 4, True, True),
    (api_errors.GatewayTimeout("timeout"), 4, True, True),
    (api_errors.ResourceExhausted(RATE), 8, True, False),
    (api_errors.ResourceExhausted(QUOTA), 8, True, False),
    (api_errors.TooManyRequests("429"), 8, True, False),
    (api_errors.Aborted("try again"), 10, True, True),
    (api_errors.Unknown("Stream removed"), 2, True, True),
    (api_errors.Cancelled("Locally cancelled"), 1, False, True),
    (api_errors.InvalidArgument("bad"), 3, False, False),
    (api_errors.NotFound("gone"), 5, False, False),
    (api_errors.AlreadyExists("twice"), 6, False, False),
    (api_errors.PermissionDenied("no"), 7, False, False),
    (api_errors.Forbidden("no"), 7, False, False),
    (api_errors.FailedPrecondition("bucket"), 9, False, False),
    (api_errors.OutOfRange("page"), 11, False, False),
    (api_errors.MethodNotImplemented("no"), 12, False, False),
    (api_errors.Unauthenticated("who"), 16, False, False),
    (api_errors.BadGateway("proxy"), 2, True, True),
    (RawError(), 14, True, True),
    (aio_error(grpc.StatusCode.INTERNAL), 13, True, True),
    (auth_errors.RefreshError("token"), 16, True, False),
    (auth_errors.RefreshError(REVOKED, {"error": "invalid_grant"}), 16, False, False),
    (
        api_errors.ServiceUnavailable(f"Getting metadata from plugin failed with error: ('{REVOKED}')"),
        16,
        False,
        False,
    ),
    (
        api_errors.ServiceUnavailable("Getting metadata from plugin failed with error: timed out"),
        14,
        True,
        True,
    ),
    (auth_errors.TransportError("metadata server"), 14, True, False),
    (auth_errors.DefaultCredentialsError("none"), 16, False, False),
    (ConnectionResetError("reset"), 14, True, True),
    (TimeoutError("socket"), 4, True, True),
    (asyncio.TimeoutError(), 4, True, True),
    (ValueError("a bug"), 2, False, False),
]


@pytest.mark.parametrize(
    ("error", "code", "repeated", "ambiguous"), ERRORS, ids=lambda value: type(value).__name__
)
def test_each_error_has_its_answer(error: BaseException, code: int, repeated: bool, ambiguous: bool) -> None:
    assert api_retry.api_error_parts(error)[0] == code
    assert api_retry.is_transient(error) is repeated
    assert api_retry.is_ambiguous_create(error) is ambiguous
    assert api_retry.is_gone(error) is (code == 5)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(143)], ids=repr)
def test_an_interrupted_create_may_have_left_a_job_and_is_never_repeated(error: BaseException) -> None:
    assert api_retry.is_ambiguous_create(error)
    assert not api_retry.is_transient(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            api_errors.InvalidArgument("List of found errors:\t1.Field: x"),
            "List of found errors:\t1.Field: x",
        ),
        (RawError(), "connection reset"),
        (aio_error(grpc.StatusCode.UNKNOWN), "stream removed"),
        (ConnectionResetError("reset"), "reset"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_text_is_the_services_own(error: BaseException, text: str) -> None:
    assert api_retry.api_error_parts(error)[1] == text


def with_reason(message: str, reason: str) -> Exception:
    info = error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com")
    error: Exception = api_errors.ResourceExhausted(message, details=[info], error_info=info)
    return error


@pytest.mark.parametrize(
    ("error", "limited"),
    [
        (api_errors.ResourceExhausted(RATE), True),
        (api_errors.TooManyRequests("Too many requests, slow down."), True),
        (api_errors.ResourceExhausted("Resource has been exhausted (e.g. check quota)."), True),
        (with_reason("Slow down.", "RATE_LIMIT_EXCEEDED"), True),
        (api_errors.ResourceExhausted(QUOTA), False),
        (with_reason(QUOTA, "RATE_LIMIT_EXCEEDED"), False),
        (api_errors.ResourceExhausted("Replicas low on memory: workerpool0."), False),
        (api_errors.ServiceUnavailable("Too many requests"), False),
        (ValueError("Too many requests"), False),
    ],
)
def test_a_rate_limit_is_not_a_quota(error: BaseException, limited: bool) -> None:
    assert api_retry.is_rate_limited(error) is limited


class Time:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)

    def clock(self) -> float:
        return self.now


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [times]

    def call() -> str:
        if left[0]:
            left[0] -= 1
            raise error
        return "answer"

    return call


def test_a_read_is_repeated_until_it_answers() -> None:
    time = Time()
    retrying = api_retry.read_retrying(bound=300, sleep=time.sleep, clock=time.clock)
    assert retrying(failing(6, api_errors.ServiceUnavailable("x"))) == "answer"
    assert len(time.slept) == 6
    assert all(0 <= seconds <= 30 for seconds in time.slept)


def test_a_read_gives_up_at_its_bound_with_the_services_own_error() -> None:
    time = Time()
    error = api_errors.ServiceUnavailable("x")
    retrying = api_retry.read_retrying(bound=100, sleep=time.sleep, clock=time.clock)
    with pytest.raises(api_errors.ServiceUnavailable) as caught:
        retrying(failing(10**6, error))
    assert caught.value is error
    assert 100 <= time.now <= 130


def test_an_error_that_will_not_mend_is_not_repeated() -> None:
    time = Time()
    retrying = api_retry.read_retrying(bound=100, sleep=time.sleep, clock=time.clock)
    with pytest.raises(api_errors.NotFound):
        retrying(failing(1, api_errors.NotFound("x")))
    assert time.slept == []


async def test_an_asynchronous_read_is_repeated_the_same_way() -> None:
    time = Time()
    call = failing(3, api_errors.InternalServerError("x"))

    async def acall() -> str:
        return call()

    retrying = api_retry.async_read_retrying(bound=100, sleep=time.asleep, clock=time.clock)
    answer: Any = await retrying(acall)
    assert answer == "answer"
    assert len(time.slept) == 3
