"""Cloud Storage: a client with the hook's identity, and whether a bucket is there.

In: credentials, a project, a ``gs://`` URI. Out: Google's storage client, or a clear error. What lies in a
bucket is read in ``checkpoints.store``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider.agent_platform.hooks.errors import BucketError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.storage import Client

_URI = re.compile(r"gs://(?P<bucket>[^/\s]+)(?:/(?P<folder>.*))?", re.DOTALL)
_SECONDS = 30.0


def storage_client(
    emulator_host: str | None, project: str | None, credentials: Callable[[], Credentials]
) -> Client:
    """Return a Cloud Storage client.

    :param emulator_host: value of ``STORAGE_EMULATOR_HOST``; then no credentials are asked for or sent.
    :param project: only used to create buckets; may be None.
    :param credentials: makes them; may block.
    """
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    if emulator_host:
        address = emulator_host if "://" in emulator_host else f"http://{emulator_host}"
        return Client(
            project=project or "emulator",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]  # Google's is not annotated
            client_options={"api_endpoint": address.rstrip("/")},
        )
    return Client(project=project, credentials=credentials())


def check_bucket(client: Client, uri: str) -> None:
    """Make sure that the bucket of a URI is there and can be listed.

    One object is listed: unlike reading the bucket's own record, training accounts usually may do that.

    :param client: whose identity asks.
    :param uri: ``gs://bucket/folder``.
    :raises BucketError: no such URI, no such bucket, no permission, or no answer.
    """
    from google.api_core import exceptions as api_errors
    from google.auth.exceptions import GoogleAuthError

    match = _URI.fullmatch(uri)
    if match is None:
        raise BucketError(f"{uri!r} is no Cloud Storage URI: it must look like 'gs://bucket/folder'.")
    bucket = match["bucket"]
    try:
        list(client.list_blobs(bucket, prefix=match["folder"] or None, max_results=1, timeout=_SECONDS))
    except api_errors.NotFound as error:
        raise BucketError(
            f"The bucket of {uri!r} does not exist: create it ('gcloud storage buckets create gs://{bucket}', in the "
            "region of the job), or correct base_output_directory. Nothing was submitted."
        ) from error
    except (api_errors.Forbidden, api_errors.Unauthorized) as error:
        raise BucketError(
            f"No permission to list the objects of {uri!r}: give the connection's account the role Storage Object "
            f"Admin on the bucket {bucket!r}. Nothing was submitted. The service said: {error.message}"
        ) from error
    except (api_errors.GoogleAPIError, GoogleAuthError, OSError) as error:
        raise BucketError(
            f"The bucket of {uri!r} could not be checked: {error}. Nothing was submitted."
        ) from error
