"""Every field of the API reaches the request: the installed client is walked, field by field.

A field that a newer client has and our table has not fails here, with its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider.agent_platform.hooks.client_schema import client_schema
from airflow_provider.agent_platform.hooks.requests import CUSTOM_JOB, TUNING_JOB, to_message
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.jobs.messages import plain
from airflow_provider.agent_platform.jobs.reader import Reader
from airflow_provider.agent_platform.jobs.schema import Field, Schema, camel_case, known_schema
from airflow_provider.agent_platform.jobs.spec import build_custom_job

KNOWN = known_schema()
CLIENT = client_schema()
SAMPLES: dict[str, Any] = {
    "string": "text",
    "bool": True,
    "int32": 7,
    "int64": 8,
    "double": 0.5,
    "duration": "90s",
    "timestamp": "2026-11-30T12:00:00Z",
    "labels": {"a": "b"},
}


def message_fields() -> Iterator[tuple[str, str]]:
    for message, fields in KNOWN.messages.items():
        for name, field in fields.items():
            if not field.output_only:
                yield message, name


def sample(schema: Schema, field: Field, depth: int = 0) -> Any:
    """Return a value that is not the default of its type; in a recursive message the inner one stays small."""
    if field.type in SAMPLES:
        value = SAMPLES[field.type]
    elif field.type in schema.enums:
        value = [name for name, number in schema.enums[field.type].items() if number][-1]
    else:
        inner = schema.messages[field.type]
        value, groups = {}, set()
        for name, part in inner.items():
            if (
                part.output_only
                or (part.oneof and part.oneof in groups)
                or (part.type == field.type or depth > 4)
            ):
                continue
            groups.add(part.oneof)
            value[name] = sample(schema, part, depth + 1)
    return [value, value] if field.repeated else value


def camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {camel_case(key): camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("message", sorted(KNOWN.messages))
def test_our_table_has_every_field_of_the_installed_client(message: str) -> None:
    ours, theirs = KNOWN.messages[message], CLIENT.messages.get(message, {})
    assert sorted(ours) == sorted(theirs)
    for name, field in ours.items():
        if not field.output_only:
            assert (field.type, field.repeated) == (theirs[name].type, theirs[name].repeated), name
            assert (field.oneof is None) == (theirs[name].oneof is None), name


def test_our_table_has_every_enum_of_the_installed_client() -> None:
    for enum, names in KNOWN.enums.items():
        assert names == CLIENT.enums[enum]


def test_our_table_has_every_message_that_a_user_can_fill() -> None:
    reached = {"CustomJob", "HyperparameterTuningJob"}
    waiting = list(reached)
    while waiting:
        for field in KNOWN.messages[waiting.pop()].values():
            if field.type in KNOWN.messages and field.type not in reached:
                reached.add(field.type)
                waiting.append(field.type)
    assert reached == set(KNOWN.messages)


@pytest.mark.parametrize(("message", "name"), list(message_fields()))
def test_every_field_reaches_the_message_in_both_spellings(message: str, name: str) -> None:
    import google.cloud.aiplatform_v1 as api
    from google.protobuf import json_format

    value = sample(KNOWN, KNOWN.messages[message][name])
    reader = Reader()
    read = reader.message(message, {name: value}, "")
    reader.finish()
    assert Reader().message(message, camel({name: value}) if name != "labels" else {name: value}, "") == read

    kind: Any = api
    for part in message.split("."):
        kind = getattr(kind, part)
    raw = json_format.ParseDict(read, kind.pb(kind()))
    assert raw.ListFields(), f"{message}.{name} was dropped on the way"
    # And back: what the service would be sent is what was given, nothing less.
    assert Reader().message(message, plain(raw), "") == read


@pytest.mark.parametrize("job_type", [CUSTOM_JOB, TUNING_JOB])
def test_a_payload_with_every_field_becomes_a_message(job_type: str) -> None:
    root = {CUSTOM_JOB: "CustomJob", TUNING_JOB: "HyperparameterTuningJob"}[job_type]
    payload = sample(KNOWN, Field(type=root))
    message = to_message(payload, job_type)
    assert plain(message) == payload


SETTABLE = [
    *(name for name in KNOWN.messages["CustomJobSpec"] if name != "worker_pool_specs"),
    *KNOWN.messages["Scheduling"],
]


@pytest.mark.parametrize("argument", SETTABLE)
def test_every_field_of_a_spec_is_an_argument_of_its_own(argument: str) -> None:
    in_scheduling = argument in KNOWN.messages["Scheduling"]
    field = KNOWN.messages["Scheduling" if in_scheduling else "CustomJobSpec"][argument]
    value = sample(KNOWN, field)
    if argument == "base_output_directory":
        value = {"output_uri_prefix": "gs://bucket/x"}
    more: dict[str, Any] = {"strategy": "FLEX_START"} if argument == "max_wait_duration" else {}
    pool = {"machine_spec": {"machine_type": "m"}, "container_spec": {"image_uri": "i"}}
    job = build_custom_job(display_name="d", worker_pool_specs=[pool], **{argument: value}, **more)
    spec = job["job_spec"]
    assert (spec["scheduling"] if in_scheduling else spec)[argument] == value
    assert plain(to_message(job, CUSTOM_JOB))["job_spec"] == spec


@pytest.mark.parametrize("message", ["CustomJob", "HyperparameterTuningJob"])
def test_what_only_the_service_sets_is_refused(message: str) -> None:
    for name, field in KNOWN.messages[message].items():
        if field.output_only:
            reader = Reader()
            reader.message(message, {name: "x"}, "")
            with pytest.raises(SpecError, match="set by the service alone"):
                reader.finish()


# -- a client that is newer, or older, than our table


def newer() -> Schema:
    machine = {**KNOWN.messages["MachineSpec"], "cooling": Field(type="Cooling"), "rack": Field(type="Rack")}
    return Schema(
        messages={**KNOWN.messages, "MachineSpec": machine, "Cooling": {"litres": Field(type="int32")}},
        enums={
            **KNOWN.enums,
            "Rack": {"RACK_UNSPECIFIED": 0, "TALL": 1},
            "Scheduling.Strategy": {**KNOWN.enums["Scheduling.Strategy"], "LATER": 9},
        },
    )


def test_a_field_that_only_a_newer_client_knows_is_taken() -> None:
    machine = {"machine_type": "m", "cooling": {"litres": "3"}, "rack": "tall"}
    pool = {"machine_spec": machine, "container_spec": {"image_uri": "i"}}
    job = build_custom_job(display_name="d", worker_pool_specs=[pool], strategy="later", client_schema=newer)
    read = job["job_spec"]["worker_pool_specs"][0]["machine_spec"]
    assert read == {"machine_type": "m", "cooling": {"litres": 3}, "rack": "TALL"}
    assert job["job_spec"]["scheduling"] == {"strategy": "LATER"}


def test_a_field_that_nobody_knows_is_refused_after_the_client_was_asked() -> None:
    asked: list[int] = []

    def schema() -> Schema:
        asked.append(1)
        return newer()

    pool = {"machine_spec": {"machine_type": "m", "colour": 1}, "container_spec": {"image_uri": "i"}}
    with pytest.raises(SpecError, match="MachineSpec has no such field"):
        build_custom_job(display_name="d", worker_pool_specs=[pool], client_schema=schema)
    assert asked


def test_the_client_is_not_imported_for_what_we_know() -> None:
    def schema() -> Schema:
        raise AssertionError("asked")

    pool = {"machine_spec": {"machine_type": "m"}, "container_spec": {"image_uri": "i"}}
    build_custom_job(display_name="d", worker_pool_specs=[pool], strategy="SPOT", client_schema=schema)


def test_a_field_that_the_installed_client_does_not_know_is_refused_before_it_is_sent() -> None:
    with pytest.raises(
        SpecError, match=r"google-cloud-aiplatform [0-9.]+ cannot send this job.*no field named"
    ):
        to_message({"job_spec": {"colour": "red"}}, CUSTOM_JOB)
