"""The button "Training job" on a task instance: the console's page of the job the task runs now.

In: the operator, which knows the job it waits for. Out: a URL. Airflow computes it in the worker whenever the task
defers or ends and stores it as an XCom, so the button is right while the job runs, and again after each requeue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from airflow_provider.agent_platform.jobs.console import console_url

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class TrainingJobLink(BaseOperatorLink):
    """Link to the console page of the current job of a training task."""

    name = "Training job"

    @property
    def xcom_key(self) -> str:
        """Where Airflow stores the link; renaming it breaks the button of tasks that ran before."""
        return "training_job_link"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the console URL of the job the operator submitted, adopted or ended with; "" when there is none.

        :param operator: an operator of this package; it carries ``job_name``.
        :param ti_key: not used: the link is computed in the worker, where the operator knows its job.
        """
        job_name = getattr(operator, "job_name", None)
        return console_url(job_name) if job_name else ""
