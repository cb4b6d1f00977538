"""A user's description of a job, made into the payload of the create call.

In: the arguments of an operator, in every form users write them. Out: a plain dict in the snake_case names
of the API (durations as ``"3600s"``, enums by name), which can be logged, compared and sent. What the user
gave reaches the request or is refused: nothing is dropped, nothing is changed silently.

The functions that change a finished payload for one submit are in ``jobs.variants`` and exported here as
well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider.agent_platform.jobs.checks import check_display_name, check_spec
from airflow_provider.agent_platform.jobs.errors import SpecError, shown
from airflow_provider.agent_platform.jobs.messages import message_name
from airflow_provider.agent_platform.jobs.reader import Reader
from airflow_provider.agent_platform.jobs.schema import ClientSchema, known_schema, nearest
from airflow_provider.agent_platform.jobs.templating import holds_template
from airflow_provider.agent_platform.jobs.variants import (
    RESERVED_ENVIRONMENT,
    Job,
    machine_type_of,
    output_directory_of,
    spec_of,
    strategy_of,
    with_arguments,
    with_environment,
    with_labels,
    with_machine_type,
    with_output_directory,
    with_scheduling,
)

__all__ = [
    "RESERVED_ENVIRONMENT",
    "Job",
    "SpecError",
    "build_custom_job",
    "build_tuning_job",
    "machine_type_of",
    "output_directory_of",
    "spec_of",
    "strategy_of",
    "with_arguments",
    "with_environment",
    "with_labels",
    "with_machine_type",
    "with_output_directory",
    "with_scheduling",
]

_SPEC, _SCHEDULING = "CustomJobSpec", "Scheduling"
_RENAMED = {"run_timeout": "timeout"}
"""Arguments that have another name than the field of ``Scheduling`` they set."""
_FROM_URI = {"base_output_directory": "output_uri_prefix"}
"""Fields that hold a message of one URI, and are given as the bare URI."""


def build_custom_job(
    *,
    display_name: object,
    worker_pool_specs: object = None,
    job_spec: object = None,
    labels: Mapping[str, object] | None = None,
    encryption_spec_key_name: object = None,
    run_timeout: object = None,
    at_parse: bool = False,
    client_schema: ClientSchema | None = None,
    **fields: object,
) -> Job:
    """Return the payload of a ``CustomJob``.

    :param display_name: 1 to 128 characters.
    :param worker_pool_specs: list of ``WorkerPoolSpec`` as dicts (snake_case or camelCase) or messages.
        Exactly one of this and ``job_spec``.
    :param job_spec: a ``CustomJobSpec`` as a dict (snake_case or camelCase) or a message.
    :param labels: the user's labels; ours are added by :func:`with_labels`.
    :param encryption_spec_key_name: name of a Cloud KMS key.
    :param run_timeout: seconds, ``"3600s"``, ISO 8601 or a timedelta; sent as ``scheduling.timeout``.
    :param at_parse: True skips every value that is not known while a DAG is parsed (Jinja, XComArg,
        functions); such values are kept as they are, so the result is good for checking only.
    :param client_schema: asked for a field or enum value that our table does not have (a newer client),
        before it is refused; ``hooks.client_schema.client_schema`` is one.
    :param fields: any other field of ``CustomJobSpec`` (``base_output_directory`` as a URI,
        ``service_account``, ``network``, ``tensorboard``, ``enable_web_access``,
        ``persistent_resource_id``, ...) or of ``Scheduling`` (``strategy``, ``max_wait_duration``,
        ``restart_job_on_worker_restart``, ``disable_retries``). None, and False for a switch, mean "not
        given". One that is also in ``job_spec`` with another value is an error.
    :raises SpecError: lists everything that is wrong, each with its field, value, what is allowed, what to
        do.
    """
    reader = Reader(at_parse=at_parse, client_schema=client_schema)
    source = _Source(name="job_spec", spec=job_spec, pools=worker_pool_specs)
    job = _resource(reader, "CustomJob", display_name, labels, encryption_spec_key_name)
    job["job_spec"] = _spec(reader, source, {**fields, "run_timeout": run_timeout})
    reader.finish()
    return job


def build_tuning_job(
    *,
    display_name: object,
    study_spec: object,
    max_trial_count: object,
    parallel_trial_count: object,
    max_failed_trial_count: object = None,
    worker_pool_specs: object = None,
    trial_job_spec: object = None,
    labels: Mapping[str, object] | None = None,
    encryption_spec_key_name: object = None,
    run_timeout: object = None,
    at_parse: bool = False,
    client_schema: ClientSchema | None = None,
    **fields: object,
) -> Job:
    """Return the payload of a ``HyperparameterTuningJob``.

    :param display_name: 1 to 128 characters.
    :param study_spec: a ``StudySpec`` as a dict (snake_case or camelCase) or a message.
    :param max_trial_count: all trials, at least 1.
    :param parallel_trial_count: trials at one time, 1 to ``max_trial_count``.
    :param max_failed_trial_count: the job fails when this many trials have failed; 0 or None leaves it to the
        service (comment of ``HyperparameterTuningJob.max_failed_trial_count``).
    :param worker_pool_specs: of each trial, as in :func:`build_custom_job`.
    :param trial_job_spec: a ``CustomJobSpec`` for each trial. Exactly one of this and ``worker_pool_specs``.
    :param labels: the user's labels.
    :param encryption_spec_key_name: name of a Cloud KMS key.
    :param run_timeout: sent as ``scheduling.timeout``, which the service applies to each trial.
    :param at_parse: as in :func:`build_custom_job`.
    :param client_schema: as in :func:`build_custom_job`.
    :param fields: as in :func:`build_custom_job`, for the trials.
    :raises SpecError: lists everything that is wrong.
    """
    reader = Reader(at_parse=at_parse, client_schema=client_schema)
    kind = "HyperparameterTuningJob"
    source = _Source(name="trial_job_spec", spec=trial_job_spec, pools=worker_pool_specs)
    job = _resource(reader, kind, display_name, labels, encryption_spec_key_name)
    if study_spec is None:
        reader.problem("study_spec", "is missing: it names the metric to improve and the parameters to try.")
    else:
        job["study_spec"] = reader.message("StudySpec", study_spec, "study_spec")
        _check_study(reader, job["study_spec"])
    counts = {
        "max_trial_count": max_trial_count,
        "parallel_trial_count": parallel_trial_count,
        "max_failed_trial_count": max_failed_trial_count,
    }
    for name, count in counts.items():
        if count is not None:
            job[name] = reader.field(kind, name, count, name)
    _check_counts(reader, job)
    job["trial_job_spec"] = _spec(reader, source, {**fields, "run_timeout": run_timeout})
    reader.finish()
    return job


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Where a spec comes from: a whole one under the argument ``name``, or its pools alone."""

    name: str
    spec: object
    pools: object


def _resource(
    reader: Reader, kind: str, display_name: object, labels: object, encryption_key: object
) -> dict[str, Any]:
    job: dict[str, Any] = {}
    if display_name is None:
        reader.problem("display_name", "is missing.")
    else:
        job["display_name"] = reader.field(kind, "display_name", display_name, "display_name")
        check_display_name(reader, job["display_name"])
    if labels is not None:
        job["labels"] = reader.field(kind, "labels", labels, "labels")
    if encryption_key is not None:
        path = "encryption_spec_key_name"
        job["encryption_spec"] = {
            "kms_key_name": reader.field("EncryptionSpec", "kms_key_name", encryption_key, path)
        }
    return job


def _spec(reader: Reader, source: _Source, fields: Mapping[str, object]) -> Any:
    if (source.spec is None) == (source.pools is None):
        both = "both are given" if source.spec is not None else "neither is given"
        reader.problem(
            "worker_pool_specs", f"give exactly one of worker_pool_specs and {source.name}; {both}."
        )
        return {}
    path = source.name if source.spec is not None else ""
    if source.spec is not None:
        if _is_whole_job(source.spec):
            reader.problem(
                path,
                "holds a whole job: give its jobSpec (trialJobSpec) here, and its displayName, labels and "
                "encryptionSpec as arguments of their own.",
            )
            return {}
        spec = reader.message(_SPEC, source.spec, path)
    else:
        pools = reader.field(_SPEC, "worker_pool_specs", source.pools, "worker_pool_specs")
        spec = {"worker_pool_specs": pools}
    if not isinstance(spec, dict):
        return spec  # a template as a whole: known when the task runs
    if source.spec is not None and "worker_pool_specs" not in spec and isinstance(source.spec, Mapping):
        reader.problem(f"{path}.worker_pool_specs", "is missing: what shall run, and on which machine?")
    # "scheduling" as a whole first: single fields of it are compared with it.
    for argument, value in sorted(fields.items(), key=lambda item: item[0] != "scheduling"):
        _add(reader, spec, argument, value, path)
    check_spec(reader, spec, path)
    return spec


def _add(reader: Reader, spec: dict[str, Any], argument: str, value: object, path: str) -> None:
    """Put an argument of an operator into the spec, unless the spec says something else already."""
    if value is None:
        return
    key = _RENAMED.get(argument, argument)
    known = known_schema()
    # Both messages in our table first: the client, which knows newer fields, costs a second of every DAG parse.
    in_scheduling = known.field_named(_SCHEDULING, key)
    if in_scheduling is None and known.field_named(_SPEC, key) is None:
        in_scheduling = reader.name_of(_SCHEDULING, key)
    name = in_scheduling or reader.name_of(_SPEC, key)
    if name is None or name == "worker_pool_specs":
        fields = {**known.messages[_SPEC], **known.messages[_SCHEDULING]}
        reader.problem(argument, f"is no field of a job. {nearest(argument, fields)}")
        return
    message = _SCHEDULING if in_scheduling else _SPEC
    if value is False:
        return  # the default of every switch, on the wire as in our arguments
    if name in _FROM_URI and isinstance(value, str):
        value = {_FROM_URI[name]: value}
    read = reader.field(message, name, value, argument)
    holder = spec.setdefault("scheduling", {}) if in_scheduling else spec
    if not isinstance(holder, dict):
        return  # scheduling as a whole is a template
    there = holder.get(name)
    if there is not None and there != read and not holds_template([there, read]):
        where = ".".join(part for part in (path, "scheduling" if in_scheduling else "", name) if part)
        reader.problem(argument, f"is {shown(read)}, but {where} is {shown(there)}: give one of them.")
    holder[name] = read


def _is_whole_job(value: object) -> bool:
    if message_name(value) in {"CustomJob", "HyperparameterTuningJob"}:
        return True
    return isinstance(value, Mapping) and bool(
        {"job_spec", "jobSpec", "trial_job_spec", "trialJobSpec"} & set(value)
    )


def _check_study(reader: Reader, study: object) -> None:
    if not isinstance(study, Mapping):
        return
    for field, identifier in (("metrics", "metric_id"), ("parameters", "parameter_id")):
        items = study.get(field)
        if not items:
            reader.problem(f"study_spec.{field}", f"is missing: give at least one, with its {identifier}.")
        for index, item in enumerate(items if isinstance(items, list) else []):
            if isinstance(item, Mapping) and not item.get(identifier):
                reader.problem(f"study_spec.{field}[{index}].{identifier}", "is missing.")
            if (
                field == "parameters"
                and isinstance(item, Mapping)
                and not any("value_spec" in key for key in item)
            ):
                reader.problem(
                    f"study_spec.parameters[{index}]",
                    "has no values: give one of double_value_spec, "
                    "integer_value_spec, categorical_value_spec and discrete_value_spec.",
                )


def _check_counts(reader: Reader, job: Mapping[str, Any]) -> None:
    for name, least in (("max_trial_count", 1), ("parallel_trial_count", 1), ("max_failed_trial_count", 0)):
        count = job.get(name)
        if count is None and least:
            reader.problem(name, "is missing: give a whole number, at least 1.")
        elif isinstance(count, int) and count < least:
            reader.problem(name, f"is {count}; it must be at least {least}.")
    most, parallel = job.get("max_trial_count"), job.get("parallel_trial_count")
    if isinstance(most, int) and isinstance(parallel, int) and 1 <= most < parallel:
        reader.problem("parallel_trial_count", f"is {parallel}, more than max_trial_count ({most}).")
