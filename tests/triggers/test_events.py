"""Events between a trigger and the resumed task: version 1 stays readable, anything else is a clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.triggers.events import (
    EVENT_TYPES,
    TrainingJobEvent,
    UnreadableEventError,
    parse_event,
)

FIXTURE: dict[str, Any] = json.loads((Path(__file__).parent / "fixtures" / "v1.json").read_text())


@pytest.mark.parametrize("stored", FIXTURE["events"], ids=lambda stored: str(stored["type"]))
def test_every_event_of_version_1_is_still_read(stored: dict[str, Any]) -> None:
    event = parse_event(stored)
    assert event.type == stored["type"]
    assert event.to_dict() == stored


def test_the_fixture_has_every_type() -> None:
    assert {stored["type"] for stored in FIXTURE["events"]} == EVENT_TYPES


def test_an_event_is_plain_json() -> None:
    event = TrainingJobEvent(type="ended", job_name="projects/1/locations/r/customJobs/2", state=4)
    assert parse_event(json.loads(json.dumps(event.to_dict()))) == event


def test_fields_of_a_later_minor_release_are_ignored() -> None:
    stored = {**FIXTURE["events"][0], "added_later": 1}
    assert parse_event(stored).type == FIXTURE["events"][0]["type"]


def _changed(**values: Any) -> dict[str, Any]:
    return {**FIXTURE["events"][0], **values}


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (None, "NoneType"),
        ("success", "a str"),
        (True, "a bool"),
        ([], "a list"),
        ({}, "version is None"),
        (_changed(version=2), "version is 2"),
        (_changed(version=True), "version is True"),
        (_changed(version="1"), "version is '1'"),
        (_changed(type="succeeded"), "type is 'succeeded'"),
        (_changed(type=None), "type is None"),
        (_changed(job_name=""), "job_name is ''"),
        (_changed(job_name=None), "job_name is None"),
        (_changed(state="JOB_STATE_SUCCEEDED"), "state is 'JOB_STATE_SUCCEEDED'"),
        (_changed(state=True), "state is True"),
        (_changed(state=None), "not in which state"),
        (_changed(error_code="3"), "error_code is '3'"),
        (_changed(error_message=3), "error_message is 3"),
    ],
)
def test_an_event_of_another_shape_is_an_error_and_never_a_success(event: Any, why: str) -> None:
    with pytest.raises(UnreadableEventError, match="not readable") as caught:
        parse_event(event)
    assert why in str(caught.value)
    assert "same version" in str(caught.value)


def test_the_text_of_a_huge_event_is_cut() -> None:
    with pytest.raises(UnreadableEventError) as caught:
        parse_event("x" * 10_000)
    assert len(str(caught.value)) < 1000
