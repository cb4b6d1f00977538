"""What Airflow will replace before the task runs, and what is final already."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider.agent_platform.jobs.templating import holds_template, is_template


@pytest.mark.parametrize("value", ["{{ ds }}", "gs://b/{{ run_id }}", "{% if x %}a{% endif %}", "{# note #}"])
def test_text_with_jinja_is_a_template(value: str) -> None:
    assert is_template(value)


@pytest.mark.parametrize("value", ["", "plain", "{x}", 3, None, True, [], {}, str, b"{{"], ids=repr)
def test_other_values_are_final(value: Any) -> None:
    assert not is_template(value)


def test_what_another_task_returns_is_a_template() -> None:
    with DAG("d", schedule=None):

        @task
        def prepare() -> str:
            return "gs://bucket/data"

        output = prepare()
        assert is_template(output)
        assert is_template(output["key"])  # type: ignore[index]  # an XComArg while the DAG is parsed


def test_a_function_is_a_template_because_airflow_calls_it() -> None:
    assert is_template(lambda context, jinja_env: "x")


def test_a_template_is_found_at_any_depth() -> None:
    assert holds_template({"a": [{"b": ("x", "{{ y }}")}]})
    assert not holds_template({"a": [{"b": ("x", "y")}], "{{ key }}": 1})
