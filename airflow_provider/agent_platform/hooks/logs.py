"""The last lines that a worker wrote, for the message a person reads.

In: a job, a replica. Out: lines, or none. It is never a reason to fail: whatever goes wrong is a debug line.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Any

from airflow_provider.agent_platform.jobs.console import JobName, logs_filter

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

log = logging.getLogger(__name__)

_SERVICE = "logging.googleapis.com"
_MAX_LINE = 2_000


def last_lines(
    hook: TrainingJobHook, job_name: str, replica: str | None, n: int = 20, bound: float = 10.0
) -> list[str]:
    """Return the last lines of a replica's log, oldest first; [] when they cannot be had. Never raises.

    :param hook: whose identity reads the log.
    :param job_name: resource name of the job; for a trial, of its custom job.
    :param replica: for example ``workerpool0-0``; None reads all lines of the job, the service's own as well.
    :param n: number of lines.
    :param bound: seconds that this may take in all, credentials and connection included.
    """
    if n < 1:
        return []
    answers: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def read() -> None:
        try:
            answers.put(_read(hook, job_name, replica, n, bound))
        except BaseException as error:
            log.debug("The log of %s cannot be read: %s: %s", job_name, type(error).__name__, error)
            answers.put([])

    # A daemon thread: a call that hangs beyond its deadline must not keep the task from ending.
    threading.Thread(target=read, name="training-job-log", daemon=True).start()
    try:
        return answers.get(timeout=bound)
    except queue.Empty:
        log.debug("The log of %s could not be read within %s s.", job_name, bound)
        return []


def _read(hook: TrainingJobHook, job_name: str, replica: str | None, n: int, bound: float) -> list[str]:
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client, transports

    from airflow_provider.agent_platform.hooks.clients import blocking_channel
    from airflow_provider.agent_platform.hooks.endpoint import Endpoint

    parsed = JobName.parse(job_name)
    endpoint = hook.endpoint(parsed.region)
    if not endpoint.emulator:
        endpoint = Endpoint(target=_SERVICE, emulator=False, source="Cloud Logging")
    channel = blocking_channel(endpoint, hook.credentials())
    try:
        client = LoggingServiceV2Client(transport=transports.LoggingServiceV2GrpcTransport(channel=channel))
        pager = client.list_log_entries(
            request={
                "resource_names": [f"projects/{parsed.project}"],
                "filter": logs_filter(job_name, replica),
                "order_by": "timestamp desc",
                "page_size": n,
            },
            retry=None,
            timeout=bound,
        )
        entries = list(pager.entries)[:n]  # one page: the newest n
    finally:
        channel.close()
    lines: list[str] = []
    for entry in reversed(entries):
        lines.extend(line[:_MAX_LINE] for line in _text(entry).splitlines())
    return lines[-n:]


def _text(entry: Any) -> str:
    if entry.text_payload:
        return str(entry.text_payload)
    payload = entry.json_payload
    if not payload:
        return ""
    fields = dict(payload)
    return str(fields.get("message") or fields)
