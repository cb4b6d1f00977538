"""Credentials from a connection, the same that Google's own operators would use.

In: a connection's fields and an impersonation chain. Out: credentials of google-auth, and the project they
belong to. Where apache-airflow-providers-google is installed its ``GoogleBaseHook`` reads the connection;
else google-auth does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider.agent_platform.hooks.connection import ConnectionInfo
from airflow_provider.agent_platform.hooks.errors import ConfigurationError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_SOURCES = ("key_path", "keyfile_dict", "credential_config_file", "is_anonymous")
_NEEDS_GOOGLE_PROVIDER = ("key_secret_name", "idp_issuer_url")

Found = tuple["Credentials", "str | None"]
Chain = "str | Sequence[str] | None"


def load_credentials(info: ConnectionInfo, impersonation_chain: str | Sequence[str] | None) -> Found:
    """Return credentials and the project they name, if any.

    Blocks: it may read files and ask the metadata server. In an event loop call it in a thread.

    :param info: the connection.
    :param impersonation_chain: see ``TrainingJobHook``; None takes the connection's own.
    :raises ConfigurationError: no credentials anywhere, or fields that contradict each other.
    """
    if info.exists:
        base_hook = google_base_hook()
        if base_hook is not None:
            return _from_google_provider(base_hook, info, impersonation_chain)
    credentials, project = _from_fields(info)
    chain = chain_of(
        impersonation_chain if impersonation_chain is not None else info.get("impersonation_chain")
    )
    if chain:
        credentials = _impersonated(credentials, chain, _scopes(info))
    return credentials, info.text("project", "project_id") or project


def google_base_hook() -> Callable[..., Any] | None:
    """Return ``GoogleBaseHook`` where Airflow's Google provider is installed, else None."""
    try:
        from airflow.providers.google.common.hooks.base_google import (  # type: ignore[import-not-found,unused-ignore]
            GoogleBaseHook,
        )
    except ImportError:
        return None
    hook: Callable[..., Any] = GoogleBaseHook
    return hook


def chain_of(chain: object) -> list[str]:
    """Return an impersonation chain as a list, the account to act as at its end.

    :param chain: one account, several in one text with commas, a list of them, or None.
    :raises ConfigurationError: anything else.
    """
    if chain is None:
        return []
    parts = chain.split(",") if isinstance(chain, str) else chain
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise ConfigurationError(
            f"impersonation_chain is a {type(chain).__name__}: give the e-mail address of a service account, or a list."
        )
    return [part.strip() for part in parts if part.strip()]


def _from_google_provider(
    base_hook: Callable[..., Any], info: ConnectionInfo, impersonation_chain: str | Sequence[str] | None
) -> Found:
    class Connection:
        """What GoogleBaseHook reads of a connection.

        Ours was fetched already, in the way that fits the process.
        """

        conn_id = info.conn_id
        extra_dejson: ClassVar[dict[str, Any]] = dict(info.extras)

    class Hook(base_hook):  # type: ignore[misc,valid-type]
        """GoogleBaseHook on a connection that is there already."""

        @classmethod
        def get_connection(cls, conn_id: str) -> Any:
            return Connection

    hook = Hook(gcp_conn_id=info.conn_id, impersonation_chain=impersonation_chain)
    credentials, project = hook.get_credentials_and_project_id()
    return credentials, project


def _from_fields(info: ConnectionInfo) -> Found:
    given = [name for name in _SOURCES if info.get(name)]
    if len(given) > 1:
        raise ConfigurationError(
            f"Connection {info.conn_id!r} has {' and '.join(given)}: they exclude each other, keep one."
        )
    for name in _NEEDS_GOOGLE_PROVIDER:
        if info.get(name):
            raise ConfigurationError(
                f"Connection {info.conn_id!r} has {name}, which needs the package apache-airflow-providers-google."
            )
    readers = {
        "key_path": _from_key_file,
        "keyfile_dict": _from_key,
        "credential_config_file": _from_config_file,
        "is_anonymous": _anonymous,
    }
    return readers[given[0]](info) if given else _application_default(info)


def _scopes(info: ConnectionInfo) -> list[str]:
    return [scope.strip() for scope in (info.text("scope") or SCOPE).split(",") if scope.strip()]


def _from_key_file(info: ConnectionInfo) -> Found:
    path = info.text("key_path") or ""
    try:
        with open(path, encoding="utf-8") as file:
            key = json.load(file)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"Connection {info.conn_id!r}: key_path {path!r} cannot be read as a JSON key ({type(error).__name__}). "
            "It must be there on every worker and triggerer."
        ) from None
    return _from_info(info, key, "key_path")


def _from_key(info: ConnectionInfo) -> Found:
    key = info.get("keyfile_dict")
    if isinstance(key, str):
        try:
            key = json.loads(key)
        except ValueError:
            key = None
    return _from_info(info, key, "keyfile_dict")


def _from_info(info: ConnectionInfo, key: object, source: str) -> Found:
    from google.auth.exceptions import GoogleAuthError
    from google.oauth2 import credentials, service_account

    if not isinstance(key, Mapping):
        raise ConfigurationError(
            f"Connection {info.conn_id!r}: {source} must hold a JSON object, a Google key."
        )
    kind = key.get("type")
    try:
        if kind == "service_account":
            # A private key that came through an environment variable or a form has its line ends escaped.
            private_key = str(key.get("private_key", "")).replace("\\n", "\n")
            found = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]  # Google's is not annotated
                {**key, "private_key": private_key}, scopes=_scopes(info)
            )
            return found, key.get("project_id")
        if kind == "authorized_user":
            return credentials.Credentials.from_authorized_user_info(dict(key), scopes=_scopes(info)), None  # type: ignore[no-untyped-call]  # Google's is not annotated
    except (ValueError, GoogleAuthError) as error:
        # The text of the error may quote the key.
        raise ConfigurationError(
            f"Connection {info.conn_id!r}: {source} is no valid key of type {kind} ({type(error).__name__})."
        ) from None
    raise ConfigurationError(
        f"Connection {info.conn_id!r}: {source} is of type {kind!r}; allowed are 'service_account' and "
        "'authorized_user'. For workload identity federation use credential_config_file."
    )


def _from_config_file(info: ConnectionInfo) -> Found:
    import warnings

    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    config = info.get("credential_config_file")
    try:
        with warnings.catch_warnings():
            # google-auth warns of files from strangers; this one comes from the deployment's own connection.
            warnings.simplefilter("ignore", DeprecationWarning)
            if isinstance(config, Mapping):
                found = google.auth.load_credentials_from_dict(config, scopes=_scopes(info))  # type: ignore[no-untyped-call]  # Google's is not annotated
            else:
                found = google.auth.load_credentials_from_file(str(config), scopes=_scopes(info))  # type: ignore[no-untyped-call]  # Google's is not annotated
    except (OSError, ValueError, DefaultCredentialsError) as error:  # a network that fails speaks for itself
        raise ConfigurationError(
            f"Connection {info.conn_id!r}: credential_config_file cannot be used ({type(error).__name__})."
        ) from None
    return found[0], found[1]


def _anonymous(info: ConnectionInfo) -> Found:
    from google.auth.credentials import AnonymousCredentials

    return AnonymousCredentials(), None  # type: ignore[no-untyped-call]  # Google's is not annotated


def _application_default(info: ConnectionInfo) -> Found:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        found = google.auth.default(scopes=_scopes(info))
    except DefaultCredentialsError as error:
        where = f"Connection {info.conn_id!r} " + ("names no key" if info.exists else "is not defined")
        raise ConfigurationError(
            f"No Google credentials: {where}, and there are no application default credentials ({error}). Give the "
            "connection key_path or keyfile_dict, or run 'gcloud auth application-default login'. "
            "Nothing was submitted."
        ) from error
    return found[0], found[1]


def _impersonated(source: Credentials, chain: list[str], scopes: list[str]) -> Credentials:
    from google.auth import impersonated_credentials

    return impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]  # Google's is not annotated
        source_credentials=source, target_principal=chain[-1], delegates=chain[:-1], target_scopes=scopes
    )
