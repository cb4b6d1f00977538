"""The arguments all training operators share, as tables: which are templated, which go into the request.

In: an operator. Out: an error at DAG parse for what can be known to be wrong then. A test walks the tables: every
argument of a constructor changes the request or the behaviour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from airflow_provider.agent_platform.jobs.durations import seconds_of
from airflow_provider.agent_platform.jobs.errors import SpecError, SpecProblem, shown
from airflow_provider.agent_platform.jobs.templating import holds_template, is_template

if TYPE_CHECKING:
    from airflow_provider.agent_platform.operators.base import TrainingJobBaseOperator

ResumeMode = Literal["retries", "always", "never"]
RESUME_MODES: Final[tuple[str, ...]] = get_args(ResumeMode)

SPEC_FIELDS: Final = (
    "labels",
    "encryption_spec_key_name",
    "base_output_directory",
    "strategy",
    "run_timeout",
    "max_wait_duration",
    "restart_job_on_worker_restart",
    "service_account",
    "network",
    "reserved_ip_ranges",
    "tensorboard",
    "enable_web_access",
    "enable_dashboard_access",
    "experiment",
    "experiment_run",
    "persistent_resource_id",
    "protected_artifact_location_id",
    "psc_interface_config",
    "models",
)
"""Arguments that are passed to ``jobs.spec`` under their own names."""

TEMPLATE_FIELDS: Final = (
    "project_id",
    "region",
    "fallback_regions",
    "display_name",
    "queue_timeout",
    "machine_types",
    "resume_args",
    "gcp_conn_id",
    "impersonation_chain",
    *SPEC_FIELDS,
)

DURATIONS: Final = (
    "queue_timeout",
    "run_timeout",
    "max_wait_duration",
    "checkpoint_interval",
    "poll_interval",
)

PARSE_NAME: Final = "checked.at.parse"
"""Stands for the default display name, which needs the DAG's id and is known only when the task runs."""


def check(operator: TrainingJobBaseOperator) -> None:
    """Raise for what is wrong with the arguments and known while the DAG is parsed.

    :raises SpecError: lists everything, each with its field, value, what is allowed and what to do.
    """
    problems = [*_own(operator)]
    try:
        operator.build_job(
            display_name=PARSE_NAME if operator.display_name is None else operator.display_name,
            at_parse=True,
            client_schema=_client_schema(),
        )
    except SpecError as error:
        problems.extend(error.problems)
    if problems:
        raise SpecError(problems)


def check_rendered(operator: TrainingJobBaseOperator) -> None:
    """Raise for arguments of ours that turned out wrong when their templates were rendered.

    A list that became a text would be taken for its letters. What goes into the request is read again anyway.

    :raises SpecError: lists everything. Nothing was submitted.
    """
    problems = _own(operator)
    if problems:
        raise SpecError(problems)


def _own(operator: TrainingJobBaseOperator) -> list[SpecProblem]:
    problems = []

    def add(path: str, message: str) -> None:
        problems.append(SpecProblem(path=path, message=message))

    if operator.resume not in RESUME_MODES:
        add("resume", f"{shown(operator.resume)} is none of {', '.join(map(repr, RESUME_MODES))}.")
    ceiling: Any = operator.max_jobs
    if isinstance(ceiling, bool) or not isinstance(ceiling, int) or ceiling < 1:
        add(
            "max_jobs",
            f"{shown(operator.max_jobs)} is no whole number from 1. It bounds the jobs of one epoch.",
        )
    for name in DURATIONS:
        _check_duration(name, getattr(operator, name), add)
    for name in ("fallback_regions", "machine_types", "resume_args", "checkpoint_recognisers"):
        _check_texts(name, getattr(operator, name), add)
    if operator.failure_rules:
        # Imported by those who use rules, and they have it already.
        from airflow_provider.agent_platform.policy.rules import FailureRule

        _check_list("failure_rules", operator.failure_rules, FailureRule, add)
    return problems


def _check_duration(name: str, value: Any, add: Any) -> None:
    if value is None or is_template(value):
        return
    try:
        seconds = seconds_of(value)
    except ValueError as error:
        add(name, str(error))
        return
    if seconds <= 0 and name != "max_wait_duration":
        add(name, f"{shown(value)} is not above 0; leave it out for no limit.")


def _check_texts(name: str, value: Any, add: Any) -> None:
    if holds_template(value):
        return
    _check_list(name, value, str, add)


def _check_list(name: str, value: Any, kind: type, add: Any) -> None:
    # A bare string is a sequence too, of its letters: the most likely slip, and a silent one.
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        add(name, f"{shown(value)} is no list of {kind.__name__}; write [{shown(value)}].")
        return
    for item in value:
        if not isinstance(item, kind):
            add(name, f"{shown(item)} in it is no {kind.__name__}.")


def _client_schema() -> Any:
    from airflow_provider.agent_platform.hooks.client_schema import client_schema

    return client_schema
