"""What is refused of a hyperparameter tuning job.

In: a job as it was sent. Out: nothing, or one :class:`ApiError`. What the API has and the emulator does not
do (two of the stopping rules, safe search) is UNIMPLEMENTED, so that nobody takes its absence for an
answer.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

from google.cloud.aiplatform_v1.types import StudySpec

from airflow_provider.agent_platform.emulator.errors import unimplemented
from airflow_provider.agent_platform.emulator.found_errors import FoundErrors
from airflow_provider.agent_platform.emulator.validation import (
    bare,
    check_display_name,
    check_encryption,
    check_job_spec,
    check_labels,
    check_size,
)

MAX_VALUES = 1000
MAX_TRIALS = {"max_trial_count": 100_000, "parallel_trial_count": 1_000}
"""Far above what anybody tunes with; without it one request would start trials without end."""
MAX_DEPTH = 10
NAME = re.compile(r"[^\s=]+")
LOG_SCALES = frozenset(
    {
        StudySpec.ParameterSpec.ScaleType.UNIT_LOG_SCALE,
        StudySpec.ParameterSpec.ScaleType.UNIT_REVERSE_LOG_SCALE,
    }
)
PARENTS = {
    "parent_discrete_values": "discrete_value_spec",
    "parent_int_values": "integer_value_spec",
    "parent_categorical_values": "categorical_value_spec",
}


def validate_tuning_job(job: Any, *, region: str | None = None) -> None:
    """Check a tuning job before it is stored.

    :param job: the client library's message or bare protobuf.
    :raises ApiError: INVALID_ARGUMENT with the list of found errors; UNIMPLEMENTED for what is not emulated.
    """
    message, found = bare(job), FoundErrors()
    check_size(message)
    check_display_name(found, message.display_name)
    check_labels(found, message.labels)
    check_encryption(found, message)
    _check_counts(found, message)
    _check_metrics(found, message.study_spec)
    _check_parameters(found, message.study_spec)
    check_job_spec(found, "trial_job_spec", message.trial_job_spec, region)
    found.raise_if_any()
    _refuse_what_is_missing(message.study_spec)


def _refuse_what_is_missing(study: Any) -> None:
    rule = study.WhichOneof("automated_stopping_spec")
    if rule not in (None, "median_automated_stopping_spec"):
        raise unimplemented(f"study_spec.{rule} is not emulated; median_automated_stopping_spec is.")
    if any(metric.HasField("safety_config") for metric in study.metrics):
        raise unimplemented("study_spec.metrics.safety_config (safe search) is not emulated.")


def _check_counts(found: FoundErrors, message: Any) -> None:
    for name in ("max_trial_count", "parallel_trial_count"):
        value = getattr(message, name)
        if value < 1:
            found.add(name, f"Must be at least 1, found {value}.")
        elif value > MAX_TRIALS[name]:
            found.add(name, f"Must be at most {MAX_TRIALS[name]}, found {value}.")
    if message.parallel_trial_count > message.max_trial_count > 0:
        found.add(
            "parallel_trial_count",
            f"Must be at most max_trial_count ({message.max_trial_count}), found "
            f"{message.parallel_trial_count}.",
        )
    if message.max_failed_trial_count < 0:
        found.add("max_failed_trial_count", f"Must not be negative, found {message.max_failed_trial_count}.")
    elif message.max_failed_trial_count > message.max_trial_count > 0:
        found.add(
            "max_failed_trial_count",
            f"Must be at most max_trial_count ({message.max_trial_count}), found "
            f"{message.max_failed_trial_count}.",
        )


def _check_metrics(found: FoundErrors, study: Any) -> None:
    if not study.metrics:
        found.add("study_spec.metrics", "Required field is not set: at least one metric is needed.")
    names = [metric.metric_id for metric in study.metrics]
    if len(set(names)) < len(names):
        found.add("study_spec.metrics", "metric_id must be unique.")
    for index, metric in enumerate(study.metrics):
        where = f"study_spec.metrics[{index}]"
        if not NAME.fullmatch(metric.metric_id):
            found.add(f"{where}.metric_id", f"{metric.metric_id[:200]!r} must be a name without whitespace.")
        if metric.goal not in (
            StudySpec.MetricSpec.GoalType.MAXIMIZE,
            StudySpec.MetricSpec.GoalType.MINIMIZE,
        ):
            found.add(f"{where}.goal", "Required field is not set: select from MAXIMIZE, MINIMIZE.")


def _check_parameters(found: FoundErrors, study: Any) -> None:
    if not study.parameters:
        found.add("study_spec.parameters", "Required field is not set: at least one parameter is needed.")
    if study.algorithm not in set(StudySpec.Algorithm.__members__.values()):
        found.add(
            "study_spec.algorithm",
            f"{study.algorithm} is no algorithm; select from {', '.join(StudySpec.Algorithm.__members__)}.",
        )
    if study.observation_noise:
        found.add("study_spec.observation_noise", "Not supported by HyperparameterTuningJob.")
    grid = study.algorithm == StudySpec.Algorithm.GRID_SEARCH
    _check_level(found, "study_spec.parameters", list(study.parameters), grid, 0)


def _check_level(found: FoundErrors, where: str, specs: list[Any], grid: bool, depth: int) -> None:
    if depth > MAX_DEPTH:
        found.add(where, f"Conditional parameters may be nested at most {MAX_DEPTH} levels deep.")
        return
    names = [spec.parameter_id for spec in specs]
    if len(set(names)) < len(names):
        found.add(where, "parameter_id must be unique.")
    for index, spec in enumerate(specs):
        _check_parameter(found, f"{where}[{index}]", spec, grid)
        for number, conditional in enumerate(spec.conditional_parameter_specs):
            below = f"{where}[{index}].conditional_parameter_specs[{number}]"
            _check_condition(found, below, spec, conditional)
            _check_level(found, f"{below}.parameter_spec", [conditional.parameter_spec], grid, depth + 1)


def _check_condition(found: FoundErrors, where: str, parent: Any, conditional: Any) -> None:
    which = conditional.WhichOneof("parent_value_condition")
    if which is None or PARENTS[which] != parent.WhichOneof("parameter_value_spec"):
        found.add(where, f"Must have a condition on the values of its parent {parent.parameter_id!r}.")
        return
    for value in getattr(conditional, which).values:
        values = getattr(parent, PARENTS[which])
        if which == "parent_int_values":
            known = values.min_value <= value <= values.max_value
        else:
            known = value in values.values
        if not known:
            found.add(f"{where}.{which}", f"{value!r} is no value of its parent {parent.parameter_id!r}.")


def _check_parameter(found: FoundErrors, where: str, spec: Any, grid: bool) -> None:
    if not NAME.fullmatch(spec.parameter_id):
        found.add(f"{where}.parameter_id", f"{spec.parameter_id[:200]!r} must be a name without whitespace.")
    which = spec.WhichOneof("parameter_value_spec")
    if which is None:
        found.add(where, "One of double_, integer_, categorical_ and discrete_value_spec must be set.")
        return
    values, where_values = getattr(spec, which), f"{where}.{which}"
    if values.HasField("default_value"):
        found.add(f"{where_values}.default_value", "Not supported by HyperparameterTuningJob.")
    if which in ("double_value_spec", "integer_value_spec"):
        _check_range(found, where_values, spec, values)
        if grid and which == "double_value_spec":
            found.add(
                where_values, "GRID_SEARCH needs parameters of type INTEGER, CATEGORICAL or DISCRETE only."
            )
    else:
        _check_values(found, where_values, list(values.values), increasing=which == "discrete_value_spec")
    if which == "categorical_value_spec" and spec.scale_type:
        found.add(f"{where}.scale_type", "Must not be set for a CATEGORICAL parameter.")


def _check_range(found: FoundErrors, where: str, spec: Any, values: Any) -> None:
    if not values.min_value <= values.max_value:
        found.add(where, f"min_value ({values.min_value}) must be at most max_value ({values.max_value}).")
    elif not math.isfinite(float(values.max_value) - float(values.min_value)):
        found.add(
            where, f"The range from {values.min_value} to {values.max_value} is not finite; narrow it down."
        )
    elif spec.scale_type in LOG_SCALES and values.min_value <= 0:
        found.add(where, f"min_value must be positive with a logarithmic scale, found {values.min_value}.")


def _check_values(found: FoundErrors, where: str, values: list[Any], *, increasing: bool) -> None:
    if not values:
        found.add(f"{where}.values", "Required field is not set.")
    elif len(values) > MAX_VALUES:
        found.add(f"{where}.values", f"There can be at most {MAX_VALUES} values, found {len(values)}.")
    elif increasing and not all(math.isfinite(value) for value in values):
        found.add(f"{where}.values", "Must be finite numbers.")
    elif increasing and any(not later > earlier for earlier, later in itertools.pairwise(values)):
        found.add(f"{where}.values", "Must be in increasing order.")
    elif len(set(values)) < len(values):
        found.add(f"{where}.values", "Must be unique.")
