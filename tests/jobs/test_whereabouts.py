"""Where the jobs of a task may be: plain JSON there and back, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts, chain_of_argument

STORED: dict[str, Any] = {
    "key": "k",
    "job_type": "custom_job",
    "project_id": "p",
    "regions": ["us-central1", "europe-west4"],
    "gcp_conn_id": "gpus",
    "impersonation_chain": None,
}


@pytest.mark.parametrize("chain", [None, "a@x", "a@x,b@x", ["a@x", "b@x"], []])
def test_there_and_back(chain: Any) -> None:
    stored = {**STORED, "impersonation_chain": chain}
    where = Whereabouts.parse(stored)
    assert where is not None
    assert json.loads(json.dumps(where.to_dict())) == stored
    assert {where: "can be a key"}


@pytest.mark.parametrize(
    "stored",
    [
        None,
        "text",
        [],
        {},
        *(
            {name: value for name, value in STORED.items() if name != left_out}
            for left_out in list(STORED)[:5]
        ),
        {**STORED, "regions": "us-central1"},
        {**STORED, "regions": [1]},
        {**STORED, "project_id": ""},
        {**STORED, "impersonation_chain": {"a": 1}},
    ],
)
def test_anything_else_says_nothing(stored: Any) -> None:
    assert Whereabouts.parse(stored) is None


@pytest.mark.parametrize(
    ("argument", "stored"),
    [(None, None), ("a@x", "a@x"), (["a@x"], ("a@x",)), ([], ()), (("a", "b"), ("a", "b"))],
)
def test_the_argument_of_an_operator_is_kept_as_it_was_meant(argument: Any, stored: Any) -> None:
    assert chain_of_argument(argument) == stored
