"""Who may cancel a job when a deferred task is killed. Filled in below; names are fixed.

In: the identity of a trigger's task instance and the job it waits for. Out: at most one cancel of that job.
"""

from __future__ import annotations

from typing import Any, Final

OWNER_XCOM_KEY: Final = "training_job_owner"
"""XCom key with the try that owns the job. Renaming it makes kills of tasks in flight keep their jobs."""

LIVE_XCOM_KEY: Final = "training_job"
"""XCom key of the live state. Renaming it breaks pages and tasks that read it."""


def owner_value(*, try_number: int, job_name: str) -> dict[str, Any]:
    """Answer what the operator pushes under ``OWNER_XCOM_KEY`` before each deferral."""
    return {"try": try_number, "job": job_name}
