"""A user's description of a job, made into the payload of the create call.

In: the arguments of an operator, in every form users write them. Out: a plain dict in the snake_case names
of the API (durations as ``"3600s"``, enums by name), which can be logged, compared and sent. What the user
gave reaches the request or is refused: nothing is dropped, nothing is changed silently.

The functions that change a finished payload for one submit are in ``jobs.variants`` and exported here as
well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider.agent_platform.jobs.schema import ClientSchema

Job = dict[str, Any]
"""A payload.

The fields of ``CustomJob`` or ``HyperparameterTuningJob``, ready for ``TrainingJobHook.create``.
"""


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
    :param at_parse: True skips every value that is not known while a DAG is parsed (Jinja, XComArg); such
        values are kept as they are, so the result is good for checking only.
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
    raise NotImplementedError


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

    :param study_spec: a ``StudySpec`` as a dict (snake_case or camelCase) or a message.
    :param max_trial_count: all trials, at least 1.
    :param parallel_trial_count: trials at one time, 1 to ``max_trial_count``.
    :param max_failed_trial_count: the job fails when this many trials have failed; 0 or None: on the first
        failure the service decides by its own rule.
    :param trial_job_spec: a ``CustomJobSpec`` for each trial. Exactly one of this and ``worker_pool_specs``.
    :param run_timeout: sent as ``scheduling.timeout``, which the service applies to each trial.
    :param fields: as in :func:`build_custom_job`, for the trials.
    :raises SpecError: lists everything that is wrong.
    """
    raise NotImplementedError
