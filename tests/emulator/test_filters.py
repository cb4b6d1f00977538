"""The list filter of jobs: what it selects, what it refuses, and that its hints never lose a job."""

from __future__ import annotations

import contextlib
import datetime
import time
from dataclasses import dataclass, field

import pytest
from google.cloud.aiplatform_v1.types import CustomJob, JobState
from google.protobuf import timestamp_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.agent_platform.emulator import filter_syntax
from airflow_provider.agent_platform.emulator.errors import ApiError
from airflow_provider.agent_platform.emulator.filters import ALLOWED, STATES, parse, wildcard

NOON = datetime.datetime(2026, 5, 18, 12, 0, 0, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Job:
    display_name: str = "my_job"
    state: int = JobState.JOB_STATE_RUNNING
    create_time: datetime.datetime = NOON
    labels: dict[str, str] = field(default_factory=dict)


MATCHES = [
    # The examples of the client library's own comments.
    (
        'state="JOB_STATE_SUCCEEDED" AND display_name:"my_job_*"',
        Job("my_job_1", JobState.JOB_STATE_SUCCEEDED),
    ),
    ('state!="JOB_STATE_FAILED" OR display_name="my_job"', Job("my_job", JobState.JOB_STATE_FAILED)),
    ('NOT display_name="my_job"', Job("other")),
    ('create_time>"2021-05-18T00:00:00Z"', Job()),
    ("labels.keyA=valueA", Job(labels={"keyA": "valueA"})),
    ("labels.keyB:*", Job(labels={"keyB": ""})),
    # Forms of one thing.
    ("", Job()),
    ("   ", Job()),
    ("state=JOB_STATE_RUNNING", Job()),
    ("state = 'JOB_STATE_RUNNING'", Job()),
    ("-state=JOB_STATE_FAILED", Job()),
    ("NOT (state=JOB_STATE_FAILED)", Job()),
    ("state=(JOB_STATE_FAILED OR JOB_STATE_RUNNING)", Job()),
    ('state="JOB_STATE_RUNNING" display_name="my_job"', Job()),
    ('((display_name="my_job"))', Job()),
    ('display_name!="x"', Job()),
    ('display_name:"my_*b"', Job()),
    ("display_name:*", Job("")),
    ("display_name:my_job", Job()),
    ('display_name="a \\"b\\" c"', Job('a "b" c')),
    ("display_name='ä (1) AND NOT=2'", Job("ä (1) AND NOT=2")),
    ('labels.airflow-ti="0123"', Job(labels={"airflow-ti": "0123"})),
    ('labels."airflow-ti"=0123', Job(labels={"airflow-ti": "0123"})),
    ("labels.a:b*", Job(labels={"a": "bc"})),
    ("labels:a", Job(labels={"a": "bc"})),
    ("labels.a=1 AND labels.b=2 AND NOT labels.c:*", Job(labels={"a": "1", "b": "2"})),
    # OR binds tighter than AND, as in Google's filter standard: (a OR b) AND c.
    ("display_name=x AND state=JOB_STATE_FAILED OR display_name=x", Job("x")),
    ("display_name=my_job OR display_name=x AND state=JOB_STATE_RUNNING", Job()),
]

MISSES = [
    ("state=JOB_STATE_FAILED", Job()),
    ("state!=JOB_STATE_RUNNING", Job()),
    ("display_name=my", Job()),
    ("display_name:my", Job()),
    ("display_name=my_*", Job()),
    ("labels.a=1", Job()),
    ("labels.a:*", Job()),
    ('labels.a:"*"', Job(labels={"b": "c"})),
    ("labels.a=1", Job(labels={"a": "12"})),
    ("display_name=x AND state=JOB_STATE_FAILED OR display_name=my_job", Job()),
    ("display_name=my_job OR display_name=x AND state=JOB_STATE_FAILED", Job()),
    ("display_name=my_job state=JOB_STATE_FAILED", Job()),
]


@pytest.mark.parametrize(("text", "job"), MATCHES)
def test_a_filter_selects_the_job_it_describes(text: str, job: Job) -> None:
    assert parse(text).matches(job)


@pytest.mark.parametrize(("text", "job"), MISSES)
def test_a_filter_leaves_out_every_other_job(text: str, job: Job) -> None:
    assert not parse(text).matches(job)


@pytest.mark.parametrize(
    ("comparison", "before", "at", "after"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        ("=", False, True, False),
        ("!=", True, False, True),
        (">=", False, True, True),
        (">", False, False, True),
    ],
)
def test_create_time_has_all_six_comparisons(comparison: str, before: bool, at: bool, after: bool) -> None:
    predicate = parse(f'create_time{comparison}"2026-05-18T14:00:00+02:00"')
    second = datetime.timedelta(microseconds=1)
    found = [predicate.matches(Job(create_time=moment)) for moment in (NOON - second, NOON, NOON + second)]
    assert found == [before, at, after]


def test_create_time_may_be_written_without_quotes() -> None:
    assert parse("create_time>=2026-05-18T12:00:00Z AND create_time<2026-05-18T12:00:01Z").matches(Job())


def test_messages_of_the_client_library_and_bare_protobuf_are_both_views() -> None:
    message = CustomJob(
        display_name="my_job", state=JobState.JOB_STATE_RUNNING, create_time=NOON, labels={"a": "b"}
    )
    text = 'labels.a=b AND create_time="2026-05-18T12:00:00Z" AND state=JOB_STATE_RUNNING'
    assert parse(text).matches(message)
    assert parse(text).matches(CustomJob.pb(message))
    stamp = timestamp_pb2.Timestamp(seconds=int(NOON.timestamp()), nanos=1)
    assert parse('create_time>"2026-05-18T12:00:00Z"').matches(CustomJob.pb(CustomJob(create_time=stamp)))


REFUSED = [
    ("foo=1", "unknown field 'foo'"),
    ("state.x=JOB_STATE_FAILED", "unknown field 'state.x'"),
    ("job_spec.worker_pool_specs:*", "unknown field"),
    ("displayName=x", "display_name, state, create_time and labels.<key>"),
    ("state=RUNNING", "'RUNNING' is no job state; the states are JOB_STATE_UNSPECIFIED, JOB_STATE_QUEUED"),
    ("state=3", "'3' is no job state"),
    ("state:JOB_STATE_FAILED", "state does not support ':'; it supports = !="),
    ("state>JOB_STATE_FAILED", "state does not support '>'"),
    ("display_name<x", "display_name does not support '<'"),
    ("create_time:*", "create_time does not support ':'"),
    ("create_time>yesterday", "'yesterday' is not an RFC 3339 time"),
    ('create_time>"2026-05-18"', "is not an RFC 3339 time"),
    ("labels=x", "labels needs a key"),
    ("labels:*", "labels needs a key"),
    ("labels.a!=1", "labels.a does not support '!='"),
    ("my_job", "'my_job' stands alone"),
    ("state=", "ends too early"),
    ("state=JOB_STATE_FAILED AND", "ends too early"),
    ("(state=JOB_STATE_FAILED", "ends too early"),
    ("state=JOB_STATE_FAILED)", "unexpected text at position 22"),
    ("AND state=JOB_STATE_FAILED", "unexpected text at position 0"),
    ("state==JOB_STATE_FAILED", "unexpected text at position 6"),
    ('display_name="open', "unexpected text at position 13"),
    ("display_name=a AND OR display_name=b", "unexpected text"),
    ("display_name=" + "x" * 30_000, "at most 20000"),
    ("-(" * 200 + "state=JOB_STATE_FAILED" + ")" * 200, "levels of nesting"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_wrong_filter_is_refused_with_the_place_and_the_allowed_values(text: str, says: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(text)
    assert caught.value.code == 3
    assert caught.value.message.startswith("Invalid filter: ")
    assert says in caught.value.message


def test_a_wrong_field_is_found_even_where_the_first_condition_decides() -> None:
    with pytest.raises(ApiError, match="unknown field"):
        parse("state=JOB_STATE_FAILED OR foo=1")


def test_hints_give_an_index_what_every_match_must_have() -> None:
    predicate = parse(
        'labels.airflow-ti="ab" AND state=(JOB_STATE_QUEUED OR JOB_STATE_PENDING) AND labels.x:* '
        "display_name=d"
    )
    assert predicate.hints.labels == (("airflow-ti", "ab"),)
    assert predicate.hints.label_keys == ("x",)
    assert predicate.hints.states == frozenset({1, 2})
    assert predicate.hints.display_name == "d"
    assert predicate.exact


def test_states_that_are_excluded_are_hints_too() -> None:
    live = parse("NOT (state=JOB_STATE_SUCCEEDED OR state=JOB_STATE_FAILED) AND state!=JOB_STATE_CANCELLED")
    assert live.hints.states == frozenset(STATES.values()) - {4, 5, 7}
    assert live.exact


def test_no_hint_is_taken_from_one_side_of_an_or() -> None:
    predicate = parse("labels.a=1 OR display_name=x")
    assert predicate.hints.labels == ()
    assert predicate.hints.display_name is None
    assert not predicate.exact


ATOMS = st.sampled_from(
    [
        "state=JOB_STATE_RUNNING",
        "state!=JOB_STATE_RUNNING",
        "state=JOB_STATE_FAILED",
        "display_name=a",
        "display_name=b",
        "display_name:a*",
        "labels.k=v",
        "labels.k:*",
        "labels.k:w*",
        "state=(JOB_STATE_FAILED OR JOB_STATE_QUEUED)",
    ]
)
FILTERS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("{} AND {}".format, inner, inner),
    ),
    max_leaves=8,
)
JOBS = st.builds(
    Job,
    display_name=st.sampled_from(["a", "b", "ab"]),
    state=st.sampled_from([1, 3, 5]),
    labels=st.sampled_from([{}, {"k": "v"}, {"k": "w1"}, {"k": ""}]),
)


@given(text=FILTERS, job=JOBS)
@settings(max_examples=400, deadline=None)
def test_hints_never_lose_a_job_and_exact_hints_never_add_one(text: str, job: Job) -> None:
    predicate = parse(text)
    hints = predicate.hints
    fits = (
        (hints.states is None or job.state in hints.states)
        and all(job.labels.get(key) == value for key, value in hints.labels)
        and all(key in job.labels for key in hints.label_keys)
        and (hints.display_name is None or job.display_name == hints.display_name)
    )
    if predicate.matches(job):
        assert fits
    elif predicate.exact:
        assert not fits


@given(text=st.text(alphabet="abst=!<>:()\"'\\ .*-ANDORT", max_size=40))
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_filter_or_a_precise_error(text: str) -> None:
    with contextlib.suppress(ApiError):
        parse(text)


@given(
    pattern=st.text(alphabet="ab*", max_size=8),
    text=st.text(alphabet="ab", max_size=10),
)
@settings(max_examples=300, deadline=None)
def test_wildcards_mean_what_the_slow_definition_says(pattern: str, text: str) -> None:
    def slow(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(slow(pattern[1:], text[start:]) for start in range(len(text) + 1))
        return text[:1] == pattern[0] and slow(pattern[1:], text[1:])

    assert wildcard(pattern)(text) is slow(pattern, text)


def test_a_pattern_of_many_stars_costs_no_more_than_its_length() -> None:
    started = time.monotonic()
    assert not wildcard("*a" * 2_000 + "b")("a" * 128)
    assert time.monotonic() - started < 1


def test_the_documented_comparisons_are_the_whole_table() -> None:
    assert set(ALLOWED) == {"display_name", "state", "create_time", "labels"}


def test_unquoting_keeps_what_is_no_escape() -> None:
    assert filter_syntax.unquote(r'"\d+ \"x\" \\ \n"') == '\\d+ "x" \\ \n'


def test_comments_and_line_breaks_are_blanks() -> None:
    assert parse("state=JOB_STATE_RUNNING -- the live ones\n AND display_name=my_job").matches(Job())
