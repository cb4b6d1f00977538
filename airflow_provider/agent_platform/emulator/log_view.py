"""A log entry as Cloud Logging shows it.

In: an entry of the log store. Out: its JSON form, from which the gRPC message is made too, so that both
wires show one thing. Times have nine digits always: ``gcloud`` compares them as texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import timestamp_pb2

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.logs import LogEntry

RESOURCE_TYPE = "ml_job"


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as text, to the microsecond."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    stamp = timestamp_pb2.Timestamp(seconds=whole)
    return f"{stamp.ToJsonString().removesuffix('Z')}.{micros:06d}000Z"


def entry_json(entry: LogEntry, project: str) -> dict[str, Any]:
    """The entry's JSON form.

    :param project: the project as the caller named it: id or number.
    """
    service = entry.task_name == "service"
    log = f"ml.googleapis.com%2F{entry.job_id}" if service else entry.task_name
    view: dict[str, Any] = {
        "insertId": entry.insert_id,
        "logName": f"projects/{project}/logs/{log}",
        "resource": {
            "type": RESOURCE_TYPE,
            "labels": {"job_id": entry.job_id, "project_id": project, "task_name": entry.task_name},
        },
        "labels": {"ml.googleapis.com/endpoint": f"{entry.region}-aiplatform.googleapis.com"},
        "timestamp": rfc3339(entry.time),
        "receiveTimestamp": rfc3339(entry.visible_at),
        "severity": entry.severity,
    }
    if entry.trial:
        view["labels"]["ml.googleapis.com/trial_id"] = entry.trial
    if entry.fields is not None:
        view["jsonPayload"] = dict(entry.fields)
    else:
        view["textPayload"] = entry.text or ""
    return view
