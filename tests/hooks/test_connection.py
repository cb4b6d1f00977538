"""What a connection says, and what is said when there is none."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_provider.agent_platform.hooks import connection
from airflow_provider.agent_platform.hooks.connection import ConnectionInfo, aload, load
from airflow_provider.agent_platform.hooks.errors import ConfigurationError

EXTRAS = {"project": "my-project", "region": "us-central1", "keyfile_dict": {"private_key": "hunter2"}}


def define(
    monkeypatch: pytest.MonkeyPatch, conn_id: str, extras: Any, kind: str = "google_cloud_platform"
) -> None:
    text = json.dumps({"conn_type": kind, "extra": extras})
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)


def test_the_extra_fields_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "gcp", EXTRAS)
    info = load("gcp")
    assert info.exists
    assert info.text("project") == "my-project"
    assert info.get("keyfile_dict") == {"private_key": "hunter2"}


async def test_they_are_read_in_an_event_loop_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "gcp", EXTRAS)
    assert await aload("gcp") == load("gcp")


async def test_an_airflow_without_the_asynchronous_way_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.sdk import BaseHook

    define(monkeypatch, "gcp", EXTRAS)
    monkeypatch.setattr(BaseHook, "aget_connection", None)
    assert await aload("gcp") == load("gcp")


def test_a_missing_default_connection_stands_for_default_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, logger=connection.__name__):
        info = load("google_cloud_default")
    assert info == ConnectionInfo(conn_id="google_cloud_default", exists=False)
    assert "using application default credentials" in caplog.text


async def test_another_missing_connection_is_a_clear_error() -> None:
    text = r"Connection 'absent' is not defined\. Create it"
    with pytest.raises(ConfigurationError, match=text):
        load("absent")
    with pytest.raises(ConfigurationError, match=text):
        await aload("absent")


def test_a_connection_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "db", {}, kind="postgres")
    with pytest.raises(ConfigurationError, match="is of type 'postgres'"):
        load("db")


@pytest.mark.parametrize("kind", ["generic", "google_cloud_platform"])
def test_a_generic_connection_serves_where_googles_form_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    define(monkeypatch, "any", EXTRAS, kind=kind)
    assert load("any").text("region") == "us-central1"


def test_the_long_names_of_fields_are_read() -> None:
    info = ConnectionInfo(
        conn_id="g",
        exists=True,
        extras={"extra__google_cloud_platform__project": "long", "region": " ", "zone": ""},
    )
    assert info.text("project") == "long"
    assert info.text("region") is None
    assert info.get("zone", "project") == "long"


def test_a_field_of_a_wrong_type_is_refused() -> None:
    info = ConnectionInfo(conn_id="g", exists=True, extras={"project": 7})
    with pytest.raises(ConfigurationError, match="the extra field 'project' must be text, not a int"):
        info.text("project")


def test_secrets_are_not_shown() -> None:
    info = ConnectionInfo(conn_id="g", exists=True, extras=EXTRAS)
    assert "hunter2" not in repr(info)
