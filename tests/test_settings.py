"""The options: typed, bounded, and readable from the configuration and the environment."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

from airflow_provider.agent_platform import settings


def test_the_defaults() -> None:
    assert settings.current() == settings.Settings(
        base_output_root=None,
        poll_interval=30.0,
        checkpoint_interval=14400.0,
        max_jobs=50,
        deployment="",
        rpc_timeout=60.0,
        read_retry_seconds=300.0,
        log_lines=20,
        log_timeout=10.0,
        emulator_host=None,
        storage_emulator_host=None,
    )


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("base_output_root", "gs://bucket/airflow", "gs://bucket/airflow"),
        ("poll_interval", "7.5", 7.5),
        ("checkpoint_interval", "3600", 3600.0),
        ("max_jobs", " 3 ", 3),
        ("deployment", "staging", "staging"),
        ("emulator_host", "127.0.0.1:8085", "127.0.0.1:8085"),
        ("log_lines", "0", 0),
        ("max_jobs", "", 50),
    ],
)
def test_an_option_is_read_from_its_variable(
    monkeypatch: pytest.MonkeyPatch, option: str, text: str, value: Any
) -> None:
    monkeypatch.setenv(f"AIRFLOW__AGENT_PLATFORM__{option.upper()}", text)
    read = getattr(settings.current(), option)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("poll_interval", "0", "must be a number from 1 to 3600"),
        ("poll_interval", "nan", "must be a number from 1 to 3600"),
        ("poll_interval", "often", r"\[agent_platform\] poll_interval is 'often': it must be a number"),
        ("max_jobs", "0", "must be a whole number from 1 to 1000"),
        ("max_jobs", "2.5", "must be a whole number"),
        ("rpc_timeout", "inf", "from 1 to 600"),
        ("base_output_root", "/data", "it must be 'gs://bucket' or 'gs://bucket/folder'"),
        ("emulator_host", "http://127.0.0.1:8085", "it must be 'host:port', without a scheme"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_bounds(
    monkeypatch: pytest.MonkeyPatch, option: str, text: str, message: str
) -> None:
    monkeypatch.setenv(f"AIRFLOW__AGENT_PLATFORM__{option.upper()}", text)
    with pytest.raises(ValueError, match=message):
        settings.current()


def test_the_emulators_own_variable_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__AGENT_PLATFORM__EMULATOR_HOST", "one:1")
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", "two:2")
    assert settings.current().emulator_host == "two:2"
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", "two")
    with pytest.raises(ValueError, match="AGENT_PLATFORM_EMULATOR_HOST is 'two'"):
        settings.current()


def test_the_storage_emulators_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9023")
    assert settings.current().storage_emulator_host == "http://127.0.0.1:9023"


def test_every_option_is_a_setting_and_the_other_way_round() -> None:
    names = {option.name for option in settings.OPTIONS}
    assert {field.name for field in fields(settings.Settings)} == names | {"storage_emulator_host"}


def test_the_defaults_keep_their_own_bounds() -> None:
    for option in settings.OPTIONS:
        if option.default is not None:
            assert option.read(str(option.default), option.name) == option.default


def test_the_configuration_reference_has_every_option() -> None:
    section = settings.provider_config()["agent_platform"]
    assert list(section["options"]) == [option.name for option in settings.OPTIONS]
    for described in section["options"].values():
        assert set(described) == {"description", "version_added", "type", "example", "default"}
        assert described["description"].endswith(".")
        assert described["default"] is None or isinstance(described["default"], str)


def test_airflow_accepts_the_section() -> None:
    """Against the schema that Airflow itself checks providers with."""
    import jsonschema  # type: ignore[import-untyped]  # ships no types
    from airflow import providers_manager

    manager: Any = providers_manager
    validator = manager._create_provider_info_schema_validator()
    info = {
        "package-name": "airflow-provider-agent-platform",
        "name": "x",
        "description": "x",
        "config": settings.provider_config(),
    }
    validator.validate(info)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**info, "config": {"s": {"options": {"o": {"type": 3}}}}})


def test_settings_import_no_airflow() -> None:
    probe = (
        "import sys, json; from airflow_provider.agent_platform import settings;"
        "print(json.dumps([m for m in sys.modules if m.startswith('airflow.')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(done.stdout) == []
