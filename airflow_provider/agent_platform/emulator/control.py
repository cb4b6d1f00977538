"""The control API: faults, quotas, events, counts, reset. On the REST port, below ``/emulator/v1``.

In: JSON. Out: JSON; an error has Google's error body, names the field, the value and what is allowed. It is no
part of Google's API: a client of the service never calls it, and ``calls`` does not count it.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from airflow_provider.agent_platform.emulator.errors import invalid_argument, not_found
from airflow_provider.agent_platform.emulator.faults import FaultError
from airflow_provider.agent_platform.emulator.quota import QuotaError, read_limits
from airflow_provider.agent_platform.emulator.service import Service

MAX_BODY = 1024 * 1024


def router(service: Service) -> APIRouter:
    """The routes."""
    api = APIRouter(prefix="/emulator/v1")
    engine = service.engine

    @api.post("/faults")
    async def add_fault(request: Request) -> dict[str, Any]:
        body = await _body(request)
        try:
            return engine.add_fault(body).to_json()
        except FaultError as error:
            raise invalid_argument(str(error)) from error

    @api.get("/faults")
    async def list_faults() -> list[dict[str, Any]]:
        with engine.lock:
            return [fault.to_json() for fault in engine.faults.all()]

    @api.get("/faults/{fault_id}")
    async def get_fault(fault_id: str) -> dict[str, Any]:
        with engine.lock:
            fault = engine.faults.get(fault_id)
            if fault is None:
                raise not_found(f"There is no fault {fault_id!r}.")
            return fault.to_json()

    @api.delete("/faults")
    async def delete_faults() -> dict[str, Any]:
        engine.clear_faults()
        return {}

    @api.delete("/faults/{fault_id}")
    async def delete_fault(fault_id: str) -> dict[str, Any]:
        if not engine.remove_fault(fault_id):
            raise not_found(f"There is no fault {fault_id!r}.")
        return {}

    @api.get("/jobs/{job_id}/events")
    async def events(job_id: str) -> list[dict[str, Any]]:
        with engine.lock:
            if engine.store.get(job_id) is None:
                raise not_found(f"There is no job {job_id!r}; give the bare id, the last part of its name.")
            found = engine.store.events(job_id)
        return [{"time": _rfc3339(time), "kind": kind, **fields} for time, kind, fields in found]

    @api.get("/calls")
    async def calls() -> dict[str, int]:
        return service.calls.counts()

    @api.get("/quotas")
    async def get_quotas() -> dict[str, dict[str, int]]:
        with engine.lock:
            return engine.quotas.limits

    @api.put("/quotas")
    async def put_quotas(request: Request) -> dict[str, dict[str, int]]:
        body = await _body(request)
        try:
            limits = read_limits(body)
        except QuotaError as error:
            raise invalid_argument(str(error)) from error
        engine.set_quotas(limits)
        return limits

    @api.post("/reset")
    async def reset() -> dict[str, Any]:
        await run_in_threadpool(service.reset)
        return {}

    return api


async def _body(request: Request) -> Any:
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY:
            raise invalid_argument(f"The body is larger than {MAX_BODY} bytes.")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise invalid_argument(f"The body is not JSON: {error}.") from error


def _rfc3339(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")
