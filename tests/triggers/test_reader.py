"""What a poll loop calls the service with: the same identity as the worker that submitted the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider.agent_platform.hooks.credentials import chain_of
from airflow_provider.agent_platform.triggers import reader
from airflow_provider.agent_platform.triggers.reader import PollKey
from airflow_provider.agent_platform.triggers.training_job import TrainingJobTrigger
from tests.triggers.fake_service import job_name

CHAINS: list[str | Sequence[str] | None] = [
    None,
    "",
    [],
    (),
    "one@p",
    "mid@p,last@p",
    " mid@p , last@p ",
    ["mid@p", "last@p"],
    ("one@p",),
]


def key(chain: Any) -> PollKey:
    return PollKey.of(job_name(1), gcp_conn_id="c", impersonation_chain=chain)


@pytest.mark.parametrize("chain", CHAINS, ids=repr)
def test_a_triggerer_acts_as_the_account_a_worker_acts_as(chain: str | Sequence[str] | None) -> None:
    used = reader._make_hook(key(chain)).impersonation_chain
    # None, and nothing else, takes the chain of the connection.
    assert (used is None) == (chain is None)
    assert chain_of(used) == chain_of(chain)


def test_one_chain_in_two_spellings_is_one_loop() -> None:
    assert key("mid@p, last@p") == key(["mid@p", "last@p"])
    assert key([]) == key("") != key(None)


def test_a_chain_that_is_none_fails_this_trigger_and_not_the_triggerer() -> None:
    with pytest.raises(TypeError, match="impersonation_chain"):
        TrainingJobTrigger(job_name(1), impersonation_chain=7)  # type: ignore[arg-type]
