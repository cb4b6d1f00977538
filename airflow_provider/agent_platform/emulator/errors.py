"""The one error the service core raises, and what both wires make of it.

In: a ``google.rpc`` code, a text, optional detail messages. Out: a ``google.rpc.Status`` for gRPC, an HTTP
status and Google's error JSON for REST. This module does not decide *when* something is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf import any_pb2, json_format
from google.rpc import code_pb2, status_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

HTTP_STATUS = {
    code_pb2.OK: 200,
    code_pb2.CANCELLED: 499,
    code_pb2.UNKNOWN: 500,
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 400,
    code_pb2.UNIMPLEMENTED: 501,
    code_pb2.INTERNAL: 500,
    code_pb2.UNAVAILABLE: 503,
    code_pb2.DATA_LOSS: 500,
    code_pb2.UNAUTHENTICATED: 401,
}
"""HTTP status of each ``google.rpc`` code, as the comments of ``google/rpc/code.proto`` map them."""


class ApiError(Exception):
    """A call refused by the service.

    :param code: a ``google.rpc.Code`` number, e.g. 3 for INVALID_ARGUMENT.
    :param message: what the caller reads; names the field, the value and what is allowed.
    :param details: messages packed into ``Status.details``.
    """

    def __init__(self, code: int, message: str, details: Sequence[Message] = ()) -> None:
        super().__init__(code, message, details)
        self.code = code
        self.message = message
        self.details = tuple(details)

    def __str__(self) -> str:
        return f"{self.status_name}: {self.message}"

    @property
    def status_name(self) -> str:
        """The code's name, e.g. ``INVALID_ARGUMENT``; ``UNKNOWN`` for a number that is no code."""
        return code_pb2.Code.Name(self.code) if self.code in HTTP_STATUS else "UNKNOWN"

    @property
    def http_status(self) -> int:
        """The HTTP status this error travels with."""
        return HTTP_STATUS.get(self.code, 500)

    def to_status(self) -> status_pb2.Status:
        """The error as ``google.rpc.Status``."""
        status = status_pb2.Status(code=self.code, message=self.message)
        for detail in self.details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        return status

    def to_json(self) -> dict[str, Any]:
        """Google's JSON error body: ``{"error": {"code", "message", "status", "details"}}``."""
        error: dict[str, Any] = {
            "code": self.http_status,
            "message": self.message,
            "status": self.status_name,
            "details": [json_format.MessageToDict(detail) for detail in self.to_status().details],
        }
        return {"error": error}


def invalid_argument(message: str) -> ApiError:
    """INVALID_ARGUMENT: what was sent is wrong whatever the state of the service."""
    return ApiError(code_pb2.INVALID_ARGUMENT, message)


def not_found(message: str) -> ApiError:
    """NOT_FOUND."""
    return ApiError(code_pb2.NOT_FOUND, message)


def failed_precondition(message: str) -> ApiError:
    """FAILED_PRECONDITION: right in itself, but not in this state."""
    return ApiError(code_pb2.FAILED_PRECONDITION, message)


def unimplemented(message: str) -> ApiError:
    """UNIMPLEMENTED: the real service may do it, the emulator does not."""
    return ApiError(code_pb2.UNIMPLEMENTED, message)
