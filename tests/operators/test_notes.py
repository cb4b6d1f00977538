"""The notes a task leaves: none of them may cost it its training."""

from __future__ import annotations

import logging

from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider.agent_platform.operators import notes

RESULT = {"name": "job", "checkpoint": "gs://b/c", "step": 3, "base_output_directory": "gs://b", "state": "s"}


def test_an_outlet_that_is_no_asset_does_not_fail_a_training_that_succeeded() -> None:
    asset, events = Asset("model"), OutletEventAccessors()
    notes.announce({"outlet_events": events}, [object(), asset], RESULT, logging.getLogger("tests.notes"))
    assert events[asset].extra == {
        "name": "job",
        "checkpoint": "gs://b/c",
        "step": 3,
        "base_output_directory": "gs://b",
    }
