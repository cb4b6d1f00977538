"""The service core: what each method of the API does, whichever wire it came by.

In: request messages of ``google.cloud.aiplatform_v1`` and ``google.longrunning``, bare protobuf (a wrapped one
is unwrapped). Out: bare protobuf answers; :class:`ApiError` for a refusal; :class:`CallHangs` for a call that
shall never be answered. Both wires go through :meth:`Service.call`, which counts calls and lets faults hit
them, and find the methods there are in :attr:`Service.methods`.

It starts no process and knows no state: a resource's controller (``Collection``) does. Custom jobs come with
their :class:`Engine`; a tuning controller adds its collection with :meth:`Service.add_collection`.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from google.cloud.aiplatform_v1 import types
from google.longrunning import operations_pb2  # type: ignore[import-untyped]  # ships no types
from google.protobuf import empty_pb2, field_mask_pb2
from google.rpc import code_pb2

from airflow_provider.agent_platform.emulator import filters, validation
from airflow_provider.agent_platform.emulator.calls import Calls
from airflow_provider.agent_platform.emulator.engine import Engine
from airflow_provider.agent_platform.emulator.errors import (
    ApiError,
    failed_precondition,
    invalid_argument,
    not_found,
    unimplemented,
)
from airflow_provider.agent_platform.emulator.faults import Target
from airflow_provider.agent_platform.emulator.job import CustomJob
from airflow_provider.agent_platform.emulator.operations import Operations
from airflow_provider.agent_platform.emulator.resources import (
    CUSTOM_JOBS,
    Parent,
    new_id,
    parse_job,
    parse_parent,
)
from airflow_provider.agent_platform.emulator.states import ENDS, State, state_name
from airflow_provider.agent_platform.emulator.store import Row

JOB_SERVICE = "google.cloud.aiplatform.v1.JobService"
OPERATIONS = "google.longrunning.Operations"

LIST_SECONDS = 30.0
"""Real seconds that one List may look for matches; with an ordinary filter 100,000 jobs take a tenth of one."""
SLICE_SECONDS = 0.02
"""Real seconds that it may do so while all others wait."""

OUTPUT_ONLY = (
    "name",
    "state",
    "create_time",
    "start_time",
    "end_time",
    "update_time",
    "error",
    "web_access_uris",
    "trials",
)
"""Fields of a job that a request may hold and the service does not read."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One call of the API.

    :param service: full name of its gRPC service.
    :param request: bare protobuf class of the request.
    :param response: bare protobuf class of the answer.
    """

    name: str
    service: str
    request: Any
    response: Any
    run: Callable[[Any], Any]


class Collection(Protocol):
    """What the service asks of the controller of a kind of job."""

    kind: str
    message: Any
    """Bare protobuf class of the resource, with the fields that CustomJob and HyperparameterTuningJob share."""

    def validate(self, message: Any, region: str) -> None:
        """Refuse what the service refuses; raises ApiError."""

    def submit(self, row: Row, message: Any) -> None:
        """Store the row and begin."""

    def cancel(self, job_id: str) -> None:
        """Begin to cancel a live job."""

    def reset(self) -> None:
        """Forget all jobs of this kind; the engine forgets their rows."""


class CustomJobs:
    """The collection of custom jobs: an engine, and the validation."""

    kind = CUSTOM_JOBS
    message = CustomJob

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def validate(self, message: Any, region: str) -> None:
        """Refuse what the service refuses."""
        validation.validate_custom_job(message, region=region)

    def submit(self, row: Row, message: Any) -> None:
        """Store the row and begin."""
        self._engine.submit(row, message)

    def cancel(self, job_id: str) -> None:
        """Begin to cancel."""
        self._engine.cancel(job_id)

    def reset(self) -> None:
        """The engine does it all."""


class Service:
    """All methods, over one engine and its store."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.operations = Operations()
        self.calls = Calls(engine.faults, engine.lock, engine.clock, rate_limits=engine.config["rate_limits"])
        self.methods: dict[str, Method] = {}
        engine.faults.methods = self.methods
        self.collections: dict[str, Collection] = {}
        self._add_operations()
        self.add_collection(CustomJobs(engine))

    def call(self, method: str, request: Any) -> Any:
        """Run a method.

        :param method: its bare name, e.g. ``GetCustomJob``.
        :raises ApiError: a refusal, by the service or by a fault; UNIMPLEMENTED for a method that is not there.
        :raises CallHangs: see ``calls``.
        """
        found = self.methods.get(method)
        if found is None:
            self.calls.count(method)
            raise unimplemented(f"{method} is not emulated; these are: {', '.join(sorted(self.methods))}.")
        bare = validation.bare(request)
        return self.calls.run(method, _target(method, bare), lambda: found.run(bare))

    def reset(self) -> None:
        """Forget all jobs, faults, quotas, operations and counts; end all workers."""
        for collection in self.collections.values():
            collection.reset()
        self.engine.reset()
        self.operations.clear()
        self.calls.reset()

    # --- methods of every collection ---

    def add_collection(self, collection: Collection) -> None:
        """Offer Create, Get, List, Cancel and Delete of a kind of job."""
        name = collection.message.DESCRIPTOR.name
        field = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
        self.collections[collection.kind] = collection
        empty = empty_pb2.Empty
        operation = operations_pb2.Operation
        listed = getattr(types, f"List{name}sResponse").pb()
        table: list[tuple[str, Any, Callable[[Any], Any]]] = [
            (f"Create{name}", collection.message, lambda request: self._create(collection, request.parent, getattr(request, field))),
            (f"Get{name}", collection.message, lambda request: self._get(collection, request.name)),
            (f"List{name}s", listed, lambda request: self._list(collection, request, listed)),
            (f"Cancel{name}", empty, lambda request: self._cancel(collection, request.name)),
            (f"Delete{name}", operation, lambda request: self._delete(collection, request.name)),
        ]  # fmt: skip
        for method, response, run in table:
            request = getattr(types, f"{method}Request").pb()
            self.methods[method] = Method(
                name=method, service=JOB_SERVICE, request=request, response=response, run=run
            )

    def _create(self, collection: Collection, parent_text: str, sent: Any) -> Any:
        parent = parse_parent(parent_text)
        validation.require_region(parent.region)
        message = collection.message()
        message.CopyFrom(sent)
        for name in OUTPUT_ONLY:
            if name in message.DESCRIPTOR.fields_by_name:
                message.ClearField(name)
        collection.validate(message, parent.region)
        return self.store_new(collection, parent, message)

    def store_new(self, collection: Collection, parent: Parent, message: Any) -> Any:
        """Give a valid job its name and times, store it and begin; also for the children of a tuning job."""
        engine = self.engine
        with engine.lock:
            job_id = new_id()
            row = Row(
                id=job_id,
                sequence=engine.store.next_sequence(),
                kind=collection.kind,
                project=parent.project,
                region=parent.region,
                display_name=message.display_name,
                state=State.QUEUED,
                created_ns=int(engine.clock.wall() * 1e9),
                labels=dict(message.labels),
                payload=b"",
            )
            message.name = row.name
            message.state = State.QUEUED
            message.create_time.FromNanoseconds(row.created_ns)
            message.update_time.FromNanoseconds(row.created_ns)
            row.payload = message.SerializeToString()
            collection.submit(row, message)
            return collection.message.FromString(row.payload)

    def row(self, collection: Collection, name: str) -> Row:
        """The stored job of a name.

        :raises ApiError: INVALID_ARGUMENT or NOT_FOUND.
        """
        parent, job_id = parse_job(name, collection.kind)
        row = self.engine.store.get(job_id)
        if row is None or (row.kind, row.project, row.region) != (
            collection.kind,
            parent.project,
            parent.region,
        ):
            raise not_found(f"The {collection.message.DESCRIPTOR.name} {name} does not exist.")
        return row

    def _get(self, collection: Collection, name: str) -> Any:
        with self.engine.lock:
            return collection.message.FromString(self.row(collection, name).payload)

    def _list(self, collection: Collection, request: Any, response: Any) -> Any:
        parent = parse_parent(request.parent)
        validation.require_region(parent.region)
        predicate = filters.parse(request.filter)
        check_mask(request.read_mask, collection.message)
        before = _read_token(request.page_token)
        most = self.engine.config["max_page_size"]
        if request.page_size < 0:
            raise invalid_argument(f"Field: page_size; Message: {request.page_size} is negative.")
        size = min(request.page_size or most, most)
        answer, engine = response(), self.engine
        with engine.lock:
            hidden = self._lagging(f"List{collection.message.DESCRIPTOR.name}s", parent)
        page, payloads = self._page(collection.kind, parent, predicate, before, size, hidden)
        listed = getattr(answer, response.DESCRIPTOR.fields[0].name)
        for payload in payloads:
            if request.read_mask.paths:
                request.read_mask.MergeMessage(collection.message.FromString(payload), listed.add())
            else:
                listed.add().MergeFromString(payload)
        if len(page) > size:
            answer.next_page_token = _token(page[size - 1].sequence)
        return answer

    def _page(
        self,
        kind: str,
        parent: Parent,
        predicate: filters.Predicate,
        before: int | None,
        size: int,
        hidden: Callable[[Row], bool],
    ) -> tuple[list[Row], list[bytes]]:
        """The rows of a page and one more, if there is one, and the messages of the page.

        A long filter over very many jobs takes seconds: others are let in between.
        """
        engine, page, payloads = self.engine, list[Row](), list[bytes]()
        last_moment = time.monotonic() + LIST_SECONDS
        while len(page) <= size:
            with engine.lock:
                end = time.monotonic() + SLICE_SECONDS
                found, before = engine.store.search(
                    kind, parent.project, parent.region, predicate, before,
                    lambda rows: len(rows) > size or time.monotonic() > end,  # noqa: B023 - called in this round only
                )  # fmt: skip
                shown = [row for row in found if not hidden(row)]
                page += shown
                payloads += [row.payload for row in shown]
            if before is None:
                break
            if time.monotonic() > last_moment:
                raise ApiError(
                    code_pb2.DEADLINE_EXCEEDED,
                    f"Field: filter; Message: looking for matches took more than {LIST_SECONDS:g} seconds; "
                    "shorten the filter.",
                )
            # Python's locks are not fair: without a pause this thread would have it again before anybody wakes up.
            time.sleep(0.001)
        return page[: size + 1], payloads[:size]

    def _lagging(self, method: str, parent: Parent) -> Callable[[Row], bool]:
        """Whether the fault ``list_lag`` hides a job from this call."""
        engine = self.engine
        call = Target(method=method, region=parent.region)
        lags = [
            (fault, int((engine.clock.wall() - fault.options["seconds"] / engine.clock.speed) * 1e9))
            for fault in engine.faults.all()
            if fault.name == "list_lag" and fault.matches_call(call) and engine.faults.fire(fault)
        ]
        return lambda row: any(
            row.created_ns > oldest and fault.matches_job(Target(job=row.id, display_name=row.display_name))
            for fault, oldest in lags
        )

    def _cancel(self, collection: Collection, name: str) -> Any:
        with self.engine.lock:
            row = self.row(collection, name)
            if row.state not in ENDS:
                collection.cancel(row.id)
            elif self.engine.config["cancel_ended"] == "refuse":
                raise failed_precondition(
                    f"{name} has ended as {state_name(row.state)} and cannot be cancelled."
                )
            return empty_pb2.Empty()

    def _delete(self, collection: Collection, name: str) -> Any:
        engine = self.engine
        with engine.lock:
            row = self.row(collection, name)
            if row.state not in ENDS:
                if engine.config["delete_live"] == "refuse":
                    raise failed_precondition(
                        f"{name} is {state_name(row.state)}: cancel it and wait for its end before you delete it."
                    )
                collection.cancel(row.id)
                if row.state not in ENDS:
                    engine.delete_at_end(row)
            if row.state in ENDS:
                engine.store.delete(row)
            return self.operations.done(Parent(project=row.project, region=row.region), engine.clock.wall())

    # --- operations ---

    def _add_operations(self) -> None:
        pb = operations_pb2
        empty = empty_pb2.Empty
        table: Mapping[str, tuple[Any, Any, Callable[[Any], Any]]] = {
            "GetOperation": (pb.GetOperationRequest, pb.Operation, lambda request: self._operation(request.name)),
            "WaitOperation": (pb.WaitOperationRequest, pb.Operation, lambda request: self._operation(request.name)),
            "ListOperations": (pb.ListOperationsRequest, pb.ListOperationsResponse, self._list_operations),
            "CancelOperation": (pb.CancelOperationRequest, empty, lambda request: self._end_operation(request.name, False)),
            "DeleteOperation": (pb.DeleteOperationRequest, empty, lambda request: self._end_operation(request.name, True)),
        }  # fmt: skip
        for name, (request, response, run) in table.items():
            self.methods[name] = Method(
                name=name, service=OPERATIONS, request=request, response=response, run=run
            )

    def _operation(self, name: str) -> Any:
        head, _, operation_id = name.rpartition("/operations/")
        # A resource's own operations are asked for below it: .../customJobs/1/operations/2.
        parent = parse_parent("/".join(head.split("/")[:4]))
        return self.operations.get(
            f"projects/{parent.project}/locations/{parent.region}/operations/{operation_id}"
        )

    def _list_operations(self, request: Any) -> Any:
        parent = parse_parent("/".join(request.name.removesuffix("/operations").split("/")[:4]))
        most = self.engine.config["max_page_size"]
        found = self.operations.list(f"projects/{parent.project}/locations/{parent.region}")
        start = _read_token(request.page_token) or 0
        size = min(request.page_size, most) if request.page_size > 0 else most
        answer = operations_pb2.ListOperationsResponse(operations=found[start : start + size])
        if len(found) > start + size:
            answer.next_page_token = _token(start + size)
        return answer

    def _end_operation(self, name: str, forget: bool) -> Any:
        operation = self._operation(name)
        if forget:
            self.operations.delete(operation.name)
        return empty_pb2.Empty()


def check_mask(mask: field_mask_pb2.FieldMask, message: Any) -> None:
    """Refuse a read mask that names a field which is not there.

    :raises ApiError: INVALID_ARGUMENT, naming the path.
    """
    for path in mask.paths:
        if path != "*" and not field_mask_pb2.FieldMask(paths=[path]).IsValidForDescriptor(
            message.DESCRIPTOR
        ):
            raise invalid_argument(
                f"Field: read_mask; Message: {path!r} is no field of {message.DESCRIPTOR.name}; its fields are "
                f"{', '.join(field.name for field in message.DESCRIPTOR.fields)}."
            )
    if "*" in mask.paths:
        mask.ClearField("paths")


def _target(method: str, request: Any) -> Target:
    """What the faults of calls are matched against."""
    parts = str(getattr(request, "parent", "") or getattr(request, "name", "")).split("/")
    display_name = ""
    for field in ("custom_job", "hyperparameter_tuning_job"):
        display_name = display_name or str(getattr(getattr(request, field, None), "display_name", ""))
    return Target(
        method=method,
        display_name=display_name,
        region=parts[3] if len(parts) > 3 else "",
        job=parts[5] if len(parts) > 5 else "",
    )


def _token(number: int) -> str:
    return base64.urlsafe_b64encode(f"after:{number}".encode()).decode()


def _read_token(token: str) -> int | None:
    if not token:
        return None
    try:
        word, _, number = (
            base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode().partition(":")
        )
        if word == "after":
            return int(number)
    except (binascii.Error, ValueError):
        pass
    raise invalid_argument(f"Field: page_token; Message: {token[:80]!r} is no page token of this service.")


__all__ = ["ApiError", "Collection", "CustomJobs", "Method", "Service"]
