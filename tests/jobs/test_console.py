"""Links that lead to the job, whatever its name holds."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from airflow_provider.agent_platform.jobs.console import JobName, console_url, logs_filter, logs_url

CUSTOM = "projects/123/locations/us-central1/customJobs/4567890123456789012"
TUNING = "projects/my-project/locations/europe-west4/hyperparameterTuningJobs/99"


def test_a_name_is_taken_apart() -> None:
    assert JobName.parse(CUSTOM) == JobName(
        project="123", region="us-central1", job_type="custom_job", job_id="4567890123456789012"
    )
    assert JobName.parse(TUNING).job_type == "hyperparameter_tuning_job"


@pytest.mark.parametrize(
    "name", ["", "123", f"{CUSTOM}/", f"{CUSTOM}\n", f"x{CUSTOM}", "projects//locations/r/customJobs/1"]
)
def test_what_is_no_name_of_a_job_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="is no name of a training job"):
        JobName.parse(name)


def test_the_console_shows_the_job_as_googles_own_sdk_links_it() -> None:
    assert console_url(CUSTOM) == (
        "https://console.cloud.google.com/agent-platform/locations/us-central1/training/4567890123456789012?project=123"
    )
    assert console_url(TUNING).endswith("/locations/europe-west4/training/99?project=my-project")


def test_a_name_cannot_lead_elsewhere() -> None:
    url = console_url("projects/a?b#c/locations/r/customJobs/1&x=2")
    parts = urlsplit(url)
    assert parts.netloc == "console.cloud.google.com"
    assert (parts.query, parts.fragment) == ("project=a%3Fb%23c", "")


def test_the_log_link_holds_the_filter() -> None:
    url = logs_url(CUSTOM, "workerpool0-0")
    assert url.startswith("https://console.cloud.google.com/logs/query;query=")
    assert logs_filter(CUSTOM, "workerpool0-0") in unquote(url)
    assert url.endswith("?project=123")


def test_the_filter_names_job_and_replica() -> None:
    assert logs_filter(CUSTOM) == 'resource.type="ml_job"\nresource.labels.job_id="4567890123456789012"'
    assert logs_filter(CUSTOM, 'a"b\\').endswith('resource.labels.task_name="a\\"b\\\\"')
