"""What the demo and the system tests ask of a running emulator: faults, events, and the jobs as the service
shows them.

In: the emulator's REST address. Out: plain dictionaries. Not here: the emulator's process (``services``).
"""

from __future__ import annotations

from typing import Any, cast

import httpx


class EmulatorApi:
    """The control API and the REST form of the training service.

    :param rest_url: ``http://127.0.0.1:PORT``.
    """

    def __init__(self, rest_url: str) -> None:
        self._http = httpx.Client(base_url=rest_url, timeout=60.0, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def is_ready(self) -> bool:
        """Whether the emulator answers."""
        return self._http.get("/emulator/v1/faults").is_success

    def add_fault(self, fault: str, **options: Any) -> str:
        """Set a fault and return its id.

        :param fault: a name of the control API (``preempt``, ``stockout``, ...).
        :param options: ``match``, ``times``, ``after_seconds``, ``after_log`` and so on.
        """
        return str(self._call("POST", "/emulator/v1/faults", json={"fault": fault, **options})["id"])

    def remove_faults(self) -> None:
        """Forget every fault."""
        self._call("DELETE", "/emulator/v1/faults")

    def faults(self) -> list[dict[str, Any]]:
        """Return every fault, with how often it has fired."""
        return cast("list[dict[str, Any]]", self._call("GET", "/emulator/v1/faults"))

    def set_quotas(self, limits: dict[str, dict[str, int]]) -> None:
        """Replace the limits of every region; what is over them waits in QUEUED."""
        self._call("PUT", "/emulator/v1/quotas", json=limits)

    def reset(self) -> None:
        """Forget jobs, faults, quotas and counters, and end all workers."""
        self._call("POST", "/emulator/v1/reset")

    def calls(self) -> dict[str, int]:
        """Return the number of calls by method since the last reset."""
        return cast("dict[str, int]", self._call("GET", "/emulator/v1/calls"))

    def jobs(self, project: str, region: str, filter_text: str = "") -> list[dict[str, Any]]:
        """Return the custom jobs of a region, oldest first, as the service's REST API shows them."""
        found: list[dict[str, Any]] = []
        params = {"filter": filter_text, "pageSize": "100"}
        while True:
            page = self._call("GET", f"/v1/projects/{project}/locations/{region}/customJobs", params=params)
            found.extend(page.get("customJobs", []))
            if not page.get("nextPageToken"):
                return sorted(found, key=lambda job: str(job["createTime"]))
            params["pageToken"] = page["nextPageToken"]

    def events(self, job_name: str) -> list[dict[str, Any]]:
        """Return what happened to a job, in order: states, runs, starts and exits of workers."""
        job_id = job_name.rpartition("/")[2]
        return cast("list[dict[str, Any]]", self._call("GET", f"/emulator/v1/jobs/{job_id}/events"))

    def log_lines(self, project: str, job_name: str) -> list[str]:
        """Return what the workers of a job have printed, oldest first, as Cloud Logging would hold it."""
        job_id = job_name.rpartition("/")[2]
        body: dict[str, Any] = {
            "resourceNames": [f"projects/{project}"],
            "filter": f'resource.labels.job_id="{job_id}" AND resource.labels.task_name!="service"',
            "orderBy": "timestamp asc",
            "pageSize": 1000,
        }
        lines: list[str] = []
        while True:
            page = self._call("POST", "/v2/entries:list", json=body)
            lines.extend(str(entry.get("textPayload", "")) for entry in page.get("entries", []))
            if not page.get("nextPageToken"):
                return lines
            body["pageToken"] = page["nextPageToken"]

    def _call(self, method: str, path: str, **options: Any) -> Any:
        answer = self._http.request(method, path, **options)
        if answer.is_error:
            raise httpx.HTTPStatusError(
                f"{method} {path}: {answer.status_code} {answer.text}",
                request=answer.request,
                response=answer,
            )
        return answer.json() if answer.content else None
