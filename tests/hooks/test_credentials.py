"""Whose identity calls have: the same as in every other Google operator of the deployment."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import google.auth
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import exceptions as untyped_auth_errors
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials
from google.oauth2 import credentials as user_credentials
from google.oauth2 import service_account

from airflow_provider.agent_platform.hooks.connection import ConnectionInfo
from airflow_provider.agent_platform.hooks.credentials import chain_of, google_base_hook, load_credentials
from airflow_provider.agent_platform.hooks.errors import ConfigurationError

auth_errors: Any = untyped_auth_errors  # its constructors are not annotated
CLOUD = "https://www.googleapis.com/auth/cloud-platform"


@pytest.fixture(scope="module")
def key() -> dict[str, str]:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "key-project",
        "private_key_id": "1",
        "private_key": private.decode(),
        "client_email": "sa@key-project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
    }


def info(**extras: Any) -> ConnectionInfo:
    return ConnectionInfo(conn_id="gcp", exists=True, extras=extras)


def test_a_key_in_the_connection_is_used(key: dict[str, str]) -> None:
    for given in (key, json.dumps(key), {**key, "private_key": key["private_key"].replace("\n", "\\n")}):
        credentials, project = load_credentials(info(keyfile_dict=given), None)
        assert isinstance(credentials, service_account.Credentials)
        assert credentials.service_account_email == key["client_email"]
        assert credentials.scopes == [CLOUD]
        assert project == "key-project"


def test_a_key_file_is_used(key: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(key))
    credentials, _ = load_credentials(info(key_path=str(path), scope=f"{CLOUD}, https://example.com/x"), None)
    assert isinstance(credentials, service_account.Credentials)
    assert credentials.scopes == [CLOUD, "https://example.com/x"]


def test_the_project_of_the_connection_comes_before_the_keys(key: dict[str, str]) -> None:
    assert load_credentials(info(keyfile_dict=key, project="mine"), None)[1] == "mine"


def test_a_users_own_key_is_used() -> None:
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}
    assert isinstance(load_credentials(info(keyfile_dict=user), None)[0], user_credentials.Credentials)


def test_a_credential_configuration_is_read_from_a_file_or_the_connection(tmp_path: Path) -> None:
    """Any kind that google-auth knows; of federated identities it asks the network, so not here."""
    config = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    for given in (config, str(path)):
        credentials, _ = load_credentials(info(credential_config_file=given), None)
        assert isinstance(credentials, user_credentials.Credentials)


def test_anonymous_credentials_can_be_asked_for() -> None:
    assert isinstance(load_credentials(info(is_anonymous=True), None)[0], AnonymousCredentials)


@pytest.mark.parametrize("exists", [True, False])
def test_without_a_key_the_default_credentials_are_used(
    monkeypatch: pytest.MonkeyPatch, exists: bool, key: dict[str, str]
) -> None:
    asked: list[Any] = []

    def default(scopes: list[str]) -> tuple[Any, str]:
        asked.append(scopes)
        return "default credentials", "default-project"

    monkeypatch.setattr(google.auth, "default", default)
    found = load_credentials(ConnectionInfo(conn_id="google_cloud_default", exists=exists), None)
    assert found[1] == "default-project"
    assert asked == [[CLOUD]]


@pytest.mark.parametrize(("exists", "text"), [(True, "names no key"), (False, "is not defined")])
def test_no_credentials_anywhere_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, exists: bool, text: str
) -> None:
    def default(scopes: list[str]) -> Any:
        raise auth_errors.DefaultCredentialsError("none")

    monkeypatch.setattr(google.auth, "default", default)
    with pytest.raises(ConfigurationError, match=f"{text}.*gcloud auth application-default login"):
        load_credentials(ConnectionInfo(conn_id="gcp", exists=exists), None)


@pytest.mark.parametrize(
    ("extras", "text"),
    [
        ({"key_path": "/no/such/key.json"}, "key_path '/no/such/key.json' cannot be read"),
        ({"keyfile_dict": "{hunter2"}, "keyfile_dict must hold a JSON object"),
        ({"keyfile_dict": {"type": "hunter2kind"}}, "allowed are 'service_account'"),
        (
            {"keyfile_dict": {"type": "service_account", "private_key": "hunter2"}},
            "no valid key of type service_acc",
        ),
        ({"key_path": "a", "keyfile_dict": {"a": 1}}, "key_path and keyfile_dict: they exclude each other"),
        ({"key_secret_name": "s"}, "needs the package apache-airflow-providers-google"),
        ({"credential_config_file": "/no/such"}, "credential_config_file cannot be used"),
    ],
)
def test_a_key_that_cannot_be_used_is_an_error_without_the_key(extras: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        load_credentials(info(**extras), None)
    assert "hunter2" not in str(caught.value).replace("hunter2kind", "")


@pytest.mark.parametrize(
    ("chain", "accounts"),
    [
        (None, []),
        ("", []),
        ("a@p", ["a@p"]),
        ("a@p, b@p", ["a@p", "b@p"]),
        (["a@p", "b@p"], ["a@p", "b@p"]),
        (("a@p",), ["a@p"]),
    ],
)
def test_a_chain_is_one_account_or_a_list(chain: Any, accounts: list[str]) -> None:
    assert chain_of(chain) == accounts


@pytest.mark.parametrize("chain", [3, [3], {"a": 1}])
def test_another_chain_is_refused(chain: Any) -> None:
    with pytest.raises(ConfigurationError, match="impersonation_chain"):
        chain_of(chain)


@pytest.mark.parametrize("where", ["argument", "connection"])
def test_the_last_account_of_a_chain_is_acted_as(key: dict[str, str], where: str) -> None:
    chain = ["first@p", "second@p", "last@p"]
    extras = {"impersonation_chain": "other@p" if where == "argument" else ",".join(chain)}
    credentials, _ = load_credentials(
        info(keyfile_dict=key, **extras), chain if where == "argument" else None
    )
    assert isinstance(credentials, impersonated_credentials.Credentials)
    assert credentials.service_account_email == "last@p"
    assert credentials._delegates == ["first@p", "second@p"]


def test_the_google_provider_is_not_installed_here() -> None:
    """Else the tests above would not test our own reading."""
    assert google_base_hook() is None


class FakeGoogleBaseHook:
    """What Airflow's Google provider offers, as far as it is used: reads a connection, gives credentials."""

    made: ClassVar[list[FakeGoogleBaseHook]] = []

    def __init__(self, gcp_conn_id: str, impersonation_chain: Any = None) -> None:
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.extras = self.get_connection(gcp_conn_id).extra_dejson
        self.made.append(self)

    @classmethod
    def get_connection(cls, conn_id: str) -> Any:
        raise AssertionError("the connection was read a second time")

    def get_credentials_and_project_id(self) -> tuple[str, str]:
        return f"credentials of {self.gcp_conn_id}", self.extras["project"]


@pytest.fixture
def google_provider(monkeypatch: pytest.MonkeyPatch) -> type[FakeGoogleBaseHook]:
    names = [
        "airflow.providers.google",
        "airflow.providers.google.common",
        "airflow.providers.google.common.hooks",
        "airflow.providers.google.common.hooks.base_google",
    ]
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(sys.modules[names[-1]], "GoogleBaseHook", FakeGoogleBaseHook, raising=False)
    FakeGoogleBaseHook.made.clear()
    return FakeGoogleBaseHook


def test_where_the_google_provider_is_installed_it_reads_the_connection(
    google_provider: type[FakeGoogleBaseHook],
) -> None:
    found: tuple[Any, Any] = load_credentials(info(project="theirs", key_secret_name="s"), ["a@p"])
    assert found == ("credentials of gcp", "theirs")
    (hook,) = google_provider.made
    assert hook.impersonation_chain == ["a@p"]


def test_a_missing_connection_is_not_given_to_the_google_provider(
    google_provider: type[FakeGoogleBaseHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(google.auth, "default", lambda scopes: ("default", "p"))
    found: tuple[Any, Any] = load_credentials(
        ConnectionInfo(conn_id="google_cloud_default", exists=False), None
    )
    assert found == ("default", "p")
    assert google_provider.made == []
