"""Cloud Storage through the hook, on a real Cloud Storage API on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from gcp_storage_emulator.server import create_server  # type: ignore[import-untyped]  # ships no types
from google.api_core import exceptions as untyped_api_errors
from google.auth import exceptions as untyped_auth_errors

from airflow_provider.agent_platform.hooks import storage
from airflow_provider.agent_platform.hooks.errors import BucketError, ConfigurationError
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

api_errors: Any = untyped_api_errors  # their constructors are not annotated
auth_errors: Any = untyped_auth_errors


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = create_server("127.0.0.1", port, in_memory=True, default_bucket="there")
    running.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.stop()


@pytest.fixture(params=["http", "bare"])
def hook(
    server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TrainingJobHook]:
    address = server if request.param == "http" else server.removeprefix("http://")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    with TrainingJobHook() as made:
        yield made


def test_objects_are_written_and_read_without_credentials(hook: TrainingJobHook) -> None:
    client = hook.storage_client()
    client.bucket("there").blob("a/b.txt").upload_from_string("text")
    assert client.bucket("there").blob("a/b.txt").download_as_bytes() == b"text"
    assert hook.storage_client() is client


@pytest.mark.parametrize("uri", ["gs://there", "gs://there/", "gs://there/folder/that/is/not/there"])
def test_a_bucket_that_is_there_passes(hook: TrainingJobHook, uri: str) -> None:
    hook.check_bucket(uri)


def test_a_bucket_that_does_not_exist_is_a_clear_error(hook: TrainingJobHook) -> None:
    with pytest.raises(BucketError) as caught:
        hook.check_bucket("gs://absent/airflow")
    text = str(caught.value)
    assert "The bucket of 'gs://absent/airflow' does not exist" in text
    assert "gcloud storage buckets create gs://absent" in text
    assert "Nothing was submitted" in text


@pytest.mark.parametrize("uri", ["/data", "s3://b/x", "gs://", "gs:///x", "there/x"])
def test_what_is_no_uri_of_a_bucket_is_refused(hook: TrainingJobHook, uri: str) -> None:
    with pytest.raises(BucketError, match="is no Cloud Storage URI"):
        hook.check_bucket(uri)


class Refusing:
    """A storage client that answers every list with an error, as Google's does."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def list_blobs(self, bucket: str, **options: Any) -> Any:
        assert options["timeout"] <= 60, "a call without a deadline"
        assert options["max_results"] == 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            api_errors.Forbidden("sa@p does not have storage.objects.list access"),
            "No permission to list .*sa@p does",
        ),
        (api_errors.Unauthorized("who"), "No permission to list"),
        (api_errors.ServiceUnavailable("busy"), "could not be checked: 503 busy"),
        (auth_errors.RefreshError("token"), "could not be checked: token"),
        (ConnectionError("no route"), "could not be checked: no route"),
    ],
)
def test_no_permission_is_not_no_bucket(error: Exception, text: str) -> None:
    client: Any = Refusing(error)
    with pytest.raises(BucketError, match=text):
        storage.check_bucket(client, "gs://there/x")


def test_an_emulated_service_without_emulated_storage_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", "127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="set STORAGE_EMULATOR_HOST"):
        TrainingJobHook().check_bucket("gs://there/x")


def test_towards_google_the_hooks_credentials_are_used() -> None:
    from google.auth.credentials import AnonymousCredentials

    credentials: Any = AnonymousCredentials()  # type: ignore[no-untyped-call]  # Google's is not annotated
    client = storage.storage_client(None, "p", lambda: credentials)
    assert client.project == "p"
    assert client._credentials is credentials
    client.close()
