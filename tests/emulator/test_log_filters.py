"""The query language of Cloud Logging over entries in their JSON form."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.agent_platform.emulator.errors import ApiError
from airflow_provider.agent_platform.emulator.log_filters import SEVERITIES, parse

ENTRY: dict[str, Any] = {
    "insertId": "000000000000000a",
    "logName": "projects/p/logs/workerpool0-0",
    "resource": {
        "type": "ml_job",
        "labels": {"job_id": "123", "project_id": "p", "task_name": "workerpool0-0"},
    },
    "labels": {"ml.googleapis.com/endpoint": "us-central1-aiplatform.googleapis.com"},
    "timestamp": "2026-05-18T12:00:00.500000000Z",
    "severity": "WARNING",
    "textPayload": "Loss is NaN at step 12",
}
STRUCTURED: dict[str, Any] = {
    **{key: value for key, value in ENTRY.items() if key != "textPayload"},
    "jsonPayload": {
        "message": "step",
        "step": 12,
        "loss": 0.5,
        "ok": True,
        "tags": ["a", "b"],
        "deep": {"x": "Y"},
    },
}

GCLOUD = (
    'resource.type="ml_job" AND resource.labels.job_id="123" AND resource.labels.task_name="workerpool0-0" '
    'AND timestamp>="1970-01-01T01:00:00.000000000Z" AND timestamp<"2026-05-18T12:00:05.000000+00:00"'
)
GCLOUD_NEXT = (
    'resource.type="ml_job" AND resource.labels.job_id="123" AND '
    '((timestamp="2026-05-18T12:00:00.500000000Z" AND insertId>"0000000000000009") OR '
    'timestamp>"2026-05-18T12:00:00.500000000Z") AND timestamp<"2026-05-18T12:00:05.000000+00:00"'
)

MATCHES = [
    ("", ENTRY),
    (GCLOUD, ENTRY),
    (GCLOUD_NEXT, ENTRY),
    ("severity>=WARNING", ENTRY),
    ("severity>=warning", ENTRY),
    ("severity=400", ENTRY),
    ("severity!=ERROR", ENTRY),
    ("severity=(ERROR OR WARNING)", ENTRY),
    ("severity<ERROR AND severity>INFO", ENTRY),
    ("timestamp>2026-05-18", ENTRY),
    ('timestamp>="2026-05-17T12:00:00.000000+0000"', ENTRY),  # what google-cloud-logging adds to a query
    ('timestamp<="2026-05-18T14:00:00.5+02:00"', ENTRY),
    ('textPayload="loss is nan at step 12"', ENTRY),
    ("textPayload:nan", ENTRY),
    ('textPayload=~"step \\d+$"', ENTRY),
    ('textPayload!~"^step"', ENTRY),
    ("text_payload:step", ENTRY),
    ("NaN", ENTRY),
    ('"at step"', ENTRY),
    ("nan AND NOT missing", ENTRY),
    ("resource.labels.job_id:*", ENTRY),
    ('labels."ml.googleapis.com/endpoint":us-central1', ENTRY),
    ("labels.ml.googleapis.com/endpoint:us-central1", ENTRY),
    ('logName="projects/p/logs/workerpool0-0"', ENTRY),
    ("jsonPayload.step!=12", ENTRY),
    ("severity!=ERROR", {"textPayload": "x"}),
    ("jsonPayload.step=12", STRUCTURED),
    ("jsonPayload.step>=12.0", STRUCTURED),
    ("jsonPayload.step<100", STRUCTURED),
    ("jsonPayload.ok=true", STRUCTURED),
    ("jsonPayload.deep.x=y", STRUCTURED),
    ("jsonPayload:tags", {"jsonPayload": "tags"}),
    ("jsonPayload.tags:b", STRUCTURED),
    ("jsonPayload.message:*", STRUCTURED),
]
MISSES = [
    ("severity>WARNING", ENTRY),
    ("severity=ERROR", ENTRY),
    ("timestamp>2026-05-19", ENTRY),
    ("resource.labels.job_id=12", ENTRY),
    ("textPayload:*", STRUCTURED),
    ("textPayload=step", STRUCTURED),
    ('textPayload=~"^step"', ENTRY),
    ("jsonPayload.step>12", STRUCTURED),
    ("jsonPayload.missing<5", STRUCTURED),
    ("severity>=DEFAULT", {"textPayload": "x"}),
    ("timestamp<2030-01-01", {"textPayload": "x"}),
    ("absent", ENTRY),
    ("-nan", ENTRY),
    ("resource.labels.job_id.x=1", ENTRY),
]


@pytest.mark.parametrize(("text", "entry"), MATCHES)
def test_a_query_selects_the_entry_it_describes(text: str, entry: dict[str, Any]) -> None:
    assert parse(text).matches(entry)


@pytest.mark.parametrize(("text", "entry"), MISSES)
def test_a_query_leaves_out_every_other_entry(text: str, entry: dict[str, Any]) -> None:
    assert not parse(text).matches(entry)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("severity>=LOUD", "'LOUD' is no severity; the severities are DEFAULT, DEBUG"),
        ("timestamp>yesterday", "'yesterday' is not an RFC 3339 time"),
        ('textPayload=~"("', "is no regular expression"),
        ("severity>=", "ends too early"),
        ('SEARCH("x")', "the function SEARCH() is not supported"),
        ("a=1 AND sample(insertId, 0.1)", "the function sample() is not supported"),
        ("a=1 AND", "ends too early"),
    ],
)
def test_a_wrong_query_is_refused_precisely(text: str, says: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(text)
    assert caught.value.code == 3
    assert says in caught.value.message


def test_the_order_of_severities_is_the_documented_one() -> None:
    for number, severity in enumerate(SEVERITIES):
        above = [name for name in SEVERITIES if parse(f"severity>{severity}").matches({"severity": name})]
        assert above == list(SEVERITIES)[number + 1 :]


def test_a_query_for_one_job_says_so_and_any_other_does_not() -> None:
    assert parse(GCLOUD).job_ids == frozenset({"123"})
    assert parse("resource.labels.job_id=(1 OR 2)").job_ids == frozenset({"1", "2"})
    assert parse("resource.labels.job_id=1 OR severity=ERROR").job_ids is None
    assert parse("NOT resource.labels.job_id=1").job_ids is None


@given(text=st.text(alphabet="abst=!<>:()\"'\\ .*-~ANDORT12", max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_query_or_a_precise_error(text: str) -> None:
    with contextlib.suppress(ApiError):
        parse(text).matches(ENTRY)
