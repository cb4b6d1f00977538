"""
What is known about an end (:class:`FailureEvidence`) and what it means (:class:`Outcome`): two records.

Not here: the way from one to the other (``failures.classify``).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.agent_platform.policy.kinds import EndedBy, FailureKind, FailurePhase


@dataclass(frozen=True, kw_only=True)
class FailureEvidence:
    """
    What the platform and our own watching say about one end.

    :param state: the job's state, the number of the API. Read in phase JOB only.
    :param code: the gRPC code of the error; None when there is no error (yet).
    :param message: the error's text; empty when there is none (yet).
    :param phase: where the error was met.
    :param strategy: the job's scheduling strategy, "SPOT", "STANDARD", "FLEX_START"; None is the platform's
        default, STANDARD.
    :param ever_started: whether the job has a ``start_time``, that is, was RUNNING once.
    :param region: where the job was, or was refused.
    :param disable_retries: whether the job was submitted with ``scheduling.disable_retries``.
    :param cancelled_by_us: whether the cancel is known to be our own (a duplicate, a kill).
    :param ended_by: what our own clocks and reads know beyond the state.
    :param run_seconds: seconds from ``start_time`` to ``end_time``; None when it never started.
    :param timeout_seconds: the job's ``scheduling.timeout`` in seconds; None when not known. Told apart from
        a cancel from outside by ``run_seconds``, since the service names no end state for it.
    """

    state: int
    code: int | None = None
    message: str = ""
    phase: FailurePhase = FailurePhase.JOB
    strategy: str | None = None
    ever_started: bool = False
    region: str | None = None
    disable_retries: bool = False
    cancelled_by_us: bool = False
    ended_by: EndedBy | None = None
    run_seconds: float | None = None
    timeout_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class FoundError:
    """One numbered line of the platform's "List of found errors"."""

    field: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """
    How a job ended, classified.

    :param kind: None is success.
    :param row: id of the row of the table that matched.
    :param phase: where the error was met.
    :param runs_happened: runs of the whole job this end stands for; an upper bound, since the API has no
        attempt counter.
    :param runs_charged: runs it charges when the checkpoint did not advance.
    :param replica: the first failing replica ("workerpool1-0") or pool ("workerpool0").
    :param replicas: every replica or pool that the text names, first failing one first.
    :param exit_code: exit code of the first failing replica.
    :param signal: name of the signal that ended it, "SIGKILL", from the text or from the exit code.
    :param termination_reason: the container's reason in the text, "Error", "StartError".
    :param region: where it happened.
    :param quota_metrics: quota metrics the text names, in its order.
    :param found_errors: fields and messages of a "List of found errors".
    :param hint: what a person can do about it; empty when there is nothing to say.
    :param message: the platform's text as it came.
    :param code: the error's gRPC code as it came.
    :param state: the job's state as it came.
    """

    kind: FailureKind | None
    row: str
    phase: FailurePhase = FailurePhase.JOB
    runs_happened: int = 1
    runs_charged: int = 0
    replica: str | None = None
    replicas: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: str | None = None
    termination_reason: str | None = None
    region: str | None = None
    quota_metrics: tuple[str, ...] = ()
    found_errors: tuple[FoundError, ...] = ()
    hint: str = ""
    message: str = ""
    code: int | None = None
    state: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether this is a success."""
        return self.kind is None
