"""
One exception class per failure kind, for users' own retry policies and callbacks.

::

    AirflowException
    └── TrainingJobError
        ├── UserCodeError
        ├── CrashError
        ├── CannotStartError
        ├── OutOfMemoryError
        ├── OutOfDiskError
        ├── StockoutError
        ├── PreemptedError
        ├── QuotaError
        ├── InternalError
        ├── InvalidRequestError
        ├── PermissionDeniedError
        ├── CancelledError
        ├── RunTimeoutError
        ├── QueueTimeoutError
        ├── JobLostError
        └── UnknownFailureError

Enters: an outcome and the decision about it. Leaves: an error that carries data, not only text, and pickles.
Match on the class or on ``kind``, never on the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowException

from airflow_provider.agent_platform.policy.kinds import FailureKind

if TYPE_CHECKING:
    from airflow_provider.agent_platform.policy.decision import Decision
    from airflow_provider.agent_platform.policy.outcome import Outcome


class TrainingJobError(AirflowException):
    """
    A training job did not succeed.

    :param message: what a person reads (``policy.report.failure_message``).
    :param kind: the failure kind; default: the class's own.
    :param job_name: full resource name; None when the submit was refused.
    :param replica: first failing replica or pool.
    :param exit_code: its exit code.
    :param error_code: gRPC code of the platform's error.
    :param decision: what follows, as our policy decided it.
    :param console_url: link to the job.
    """

    default_kind: ClassVar[FailureKind] = FailureKind.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind | None = None,
        job_name: str | None = None,
        replica: str | None = None,
        exit_code: int | None = None,
        error_code: int | None = None,
        decision: Decision | None = None,
        console_url: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind or self.default_kind
        self.job_name = job_name
        self.replica = replica
        self.exit_code = exit_code
        self.error_code = error_code
        self.decision = decision
        self.console_url = console_url

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException pickles by its positional arguments alone; the fields are keyword-only.
        return _rebuild, (type(self), str(self), dict(self.__dict__))


def _rebuild(cls: type[TrainingJobError], message: str, fields: dict[str, Any]) -> TrainingJobError:
    error = cls(message)
    error.__dict__.update(fields)
    return error


class UserCodeError(TrainingJobError):
    """The training code ended with a non-zero exit code."""

    default_kind = FailureKind.USER_CODE


class CrashError(TrainingJobError):
    """A replica aborted or hit a segmentation fault (exit 6, 134, 11, 139)."""

    default_kind = FailureKind.CRASH


class CannotStartError(TrainingJobError):
    """A container could not be started (StartError, exit 126, 127, 128)."""

    default_kind = FailureKind.CANNOT_START


class OutOfMemoryError(TrainingJobError):
    """A replica ran out of memory."""

    default_kind = FailureKind.OUT_OF_MEMORY


class OutOfDiskError(TrainingJobError):
    """A replica ran out of disk."""

    default_kind = FailureKind.OUT_OF_DISK


class StockoutError(TrainingJobError):
    """The region had no capacity, and the job did not start."""

    default_kind = FailureKind.STOCKOUT


class PreemptedError(TrainingJobError):
    """A Spot job lost its machines after it had started."""

    default_kind = FailureKind.PREEMPTED


class QuotaError(TrainingJobError):
    """The project's quota does not allow the job now."""

    default_kind = FailureKind.QUOTA


class InternalError(TrainingJobError):
    """An error inside the platform."""

    default_kind = FailureKind.INTERNAL


class InvalidRequestError(TrainingJobError):
    """The platform refused the job as it was asked for."""

    default_kind = FailureKind.INVALID_REQUEST


class PermissionDeniedError(TrainingJobError):
    """The caller, or the job's service account, may not do what was asked."""

    default_kind = FailureKind.PERMISSION_DENIED


class CancelledError(TrainingJobError):
    """Somebody else cancelled the job. Not ``asyncio.CancelledError``."""

    default_kind = FailureKind.CANCELLED


class RunTimeoutError(TrainingJobError):
    """The job ran longer than it may."""

    default_kind = FailureKind.RUN_TIMEOUT


class QueueTimeoutError(TrainingJobError):
    """The job did not start in time, over all its attempts."""

    default_kind = FailureKind.QUEUE_TIMEOUT


class JobLostError(TrainingJobError):
    """The job is gone from the platform (404)."""

    default_kind = FailureKind.LOST


class UnknownFailureError(TrainingJobError):
    """The platform's text is not one we know."""

    default_kind = FailureKind.UNKNOWN


ERROR_CLASSES: Mapping[FailureKind, type[TrainingJobError]] = MappingProxyType(
    {cls.default_kind: cls for cls in TrainingJobError.__subclasses__()}
)
"""The class of each kind."""


def error_for(
    outcome: Outcome,
    decision: Decision | None,
    *,
    job_name: str | None,
    message: str,
    console_url: str | None = None,
) -> TrainingJobError:
    """
    Make the exception of an outcome: of the decision's kind where there is one (a stockout that ran out of
    time is a QUEUE_TIMEOUT).

    :param outcome: how the job ended; must not be a success.
    :raises ValueError: for a success.
    """
    kind = decision.kind if decision is not None and decision.kind is not None else outcome.kind
    if kind is None:
        raise ValueError("error_for got a success (kind None); only a failed outcome has an error")
    return ERROR_CLASSES[kind](
        message,
        kind=kind,
        job_name=job_name,
        replica=outcome.replica,
        exit_code=outcome.exit_code,
        error_code=outcome.code,
        decision=decision,
        console_url=console_url,
    )
