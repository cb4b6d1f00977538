"""What the service refuses at submit, with its texts and field paths.

In: a job as it was sent. Out: nothing, or one :class:`ApiError` that lists every error found. This module
changes nothing in the job. The texts are the service's where they are known from public logs; the others
name the value and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import proto
from google.cloud.aiplatform_v1.types import Scheduling

from airflow_provider.agent_platform.emulator import catalog
from airflow_provider.agent_platform.emulator.errors import invalid_argument
from airflow_provider.agent_platform.emulator.found_errors import FoundErrors
from airflow_provider.agent_platform.emulator.validation_pools import check_flex_start_pools, check_pools

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import CustomJob

MAX_DISPLAY_NAME = 128
MAX_JOB_BYTES = 4 * 1024 * 1024
"""Size of a job; the service's own limit is not known, this is the default of every gRPC server."""
MAX_LABELS = 64
MAX_FLEX_START_SECONDS = 7 * 24 * 3600

MAX_LABEL = 63
LABELS_MESSAGE = (
    "There can be no more than 64 labels attached to a single resource. Label keys and values can only "
    "contain lowercase letters, numbers, dashes and underscores. Label keys must start with a letter, must "
    "be less than 64 characters in length; label values must be less than 64 characters in length. "
    "Found: {found}."
)

NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
TENSORBOARD = re.compile(r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+")
SERVICE_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
PERSISTENT_RESOURCE = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
BUCKET_URI = re.compile(r"gs://[a-z0-9][a-z0-9._-]{0,221}(/.*)?", re.DOTALL)
KMS_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")


def require_region(region: str) -> None:
    """Refuse a location that the service does not have.

    :raises ApiError: INVALID_ARGUMENT, listing the regions.
    """
    if region not in catalog.REGIONS:
        raise invalid_argument(
            f"Unsupported region {region!r} for custom training; select from "
            f"{', '.join(sorted(catalog.REGIONS))}."
        )


def bare(message: Any) -> Any:
    """The protobuf message inside one of the client library's, which is an order of magnitude faster to
    read."""
    return type(message).pb(message) if isinstance(message, proto.Message) else message


def validate_custom_job(job: CustomJob, *, region: str | None = None) -> None:
    """Check a job before it is stored.

    :param job: the client library's message or bare protobuf.
    :param region: where it is to run; machine types that only other regions have are refused. ``None``:
        anywhere.
    :raises ApiError: INVALID_ARGUMENT with the list of found errors.
    """
    message, found = bare(job), FoundErrors()
    check_size(message)
    check_display_name(found, message.display_name)
    check_labels(found, message.labels)
    check_encryption(found, message)
    check_job_spec(found, "job_spec", message.job_spec, region)
    found.raise_if_any()


def check_size(message: Any) -> None:
    """Refuse a job that is too large to look at.

    :raises ApiError: INVALID_ARGUMENT.
    """
    size = message.ByteSize()
    if size > MAX_JOB_BYTES:
        raise invalid_argument(f"The job has {size} bytes, at most {MAX_JOB_BYTES} bytes are allowed.")


def check_display_name(found: FoundErrors, name: str) -> None:
    """Required, at most 128 characters."""
    if not name:
        found.add("display_name", "Required field is not set.")
    elif len(name) > MAX_DISPLAY_NAME:
        found.add(
            "display_name",
            f"The display name must be at most {MAX_DISPLAY_NAME} characters in length, found {len(name)}.",
        )


def check_labels(found: FoundErrors, labels: Mapping[str, str]) -> None:
    """Number, length and characters of keys and values."""
    if len(labels) > MAX_LABELS:
        found.add("labels", LABELS_MESSAGE.format(found=f"{len(labels)} labels"))
    for key, value in labels.items():
        if not (_label_text(key) and key[:1].isalpha()):
            found.add("labels", LABELS_MESSAGE.format(found=f"key {key[:100]!r}"))
        if not _label_text(value):
            found.add("labels", LABELS_MESSAGE.format(found=f"value {value[:100]!r} of key {key[:100]!r}"))


def _label_text(text: str) -> bool:
    """International letters are allowed, so this asks for what a character is, not for a range."""
    return len(text) <= MAX_LABEL and all(
        char in "-_" or (char.isalnum() and char == char.lower()) for char in text
    )


def check_encryption(found: FoundErrors, message: Any) -> None:
    """The shape of a customer-managed key's name."""
    key = message.encryption_spec.kms_key_name
    if key and not KMS_KEY.fullmatch(key):
        found.add(
            "encryption_spec.kms_key_name",
            f"{key!r} must be projects/<p>/locations/<l>/keyRings/<r>/cryptoKeys/<k>.",
        )


def check_job_spec(found: FoundErrors, path: str, spec: Any, region: str | None) -> None:
    """Check a ``CustomJobSpec``, also that of a tuning job's trials.

    :param path: where it stands in the request, ``job_spec`` or ``trial_job_spec``.
    """
    check_pools(found, path, spec, region)
    _check_scheduling(found, path, spec)
    _check_names(found, path, spec)


def _check_scheduling(found: FoundErrors, path: str, spec: Any) -> None:
    scheduling, strategy = spec.scheduling, spec.scheduling.strategy
    flex_start = strategy == Scheduling.Strategy.FLEX_START
    if strategy not in set(Scheduling.Strategy.__members__.values()):
        names = ", ".join(Scheduling.Strategy.__members__)
        found.add(f"{path}.scheduling.strategy", f"{strategy} is no strategy; select from {names}.")
    for name in ("timeout", "max_wait_duration"):
        duration = getattr(scheduling, name)
        if scheduling.HasField(name) and (duration.seconds < 0 or duration.nanos < 0):
            found.add(f"{path}.scheduling.{name}", "The duration must not be negative.")
    if scheduling.HasField("timeout") and not (scheduling.timeout.seconds or scheduling.timeout.nanos):
        found.add(f"{path}.scheduling.timeout", "The duration must be positive.")
    if scheduling.HasField("max_wait_duration") and not flex_start:
        found.add(
            f"{path}.scheduling.max_wait_duration",
            "Can only be set if the scheduling strategy is FLEX_START.",
        )
    if flex_start:
        if scheduling.timeout.seconds > MAX_FLEX_START_SECONDS:
            found.add(
                f"{path}.scheduling.timeout",
                f"Must be at most {MAX_FLEX_START_SECONDS}s (7 days) with FLEX_START, found "
                f"{scheduling.timeout.seconds}s.",
            )
        check_flex_start_pools(found, path, spec)


def _check_names(found: FoundErrors, path: str, spec: Any) -> None:
    shapes = (
        ("service_account", SERVICE_ACCOUNT, "the e-mail address of a service account"),
        ("network", NETWORK, "projects/<project number>/global/networks/<network>"),
        ("tensorboard", TENSORBOARD, "projects/<p>/locations/<l>/tensorboards/<t>"),
        (
            "persistent_resource_id",
            PERSISTENT_RESOURCE,
            "only numbers, lower case letters and hyphens, the first a letter, the last a letter or number",
        ),
    )
    for name, shape, allowed in shapes:
        value = getattr(spec, name)
        if value and not shape.fullmatch(value):
            found.add(f"{path}.{name}", f"{value[:200]!r} must be {allowed}.")
    if spec.tensorboard and not spec.service_account:
        found.add(f"{path}.service_account", "Must be set if tensorboard is set.")
    prefix = spec.base_output_directory.output_uri_prefix
    if spec.HasField("base_output_directory") and not BUCKET_URI.fullmatch(prefix):
        found.add(
            f"{path}.base_output_directory.output_uri_prefix",
            f"{prefix[:200]!r} must be a Cloud Storage URI: gs://<bucket>/<path>.",
        )
