"""The README's DAG is a DAG, and its links lead somewhere."""

from __future__ import annotations

import re

import pytest
from airflow.sdk import DAG

from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator
from tests.harness.laptop import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
EXAMPLE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_dag_in_the_readme_is_one_and_is_short() -> None:
    (code,) = EXAMPLE
    assert len(code.splitlines()) <= 15

    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)

    dag = names["dag"]
    assert isinstance(dag, DAG)
    assert [type(task) for task in dag.tasks] == [ContainerTrainingOperator]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_a_link_in_the_readme_leads_to_a_file(target: str) -> None:
    assert (REPOSITORY / target).is_file()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make (\w+)", README))))
def test_a_make_target_in_the_readme_is_one(target: str) -> None:
    assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
