"""The trials of a tuning job, as JSON a task downstream can use.

In: a ``HyperparameterTuningJob`` message. Out: the best trial, and a bounded list of all. Which trial is best follows
the study's metrics and goals; with several metrics there is no single best one, and the answer is None.
"""

from __future__ import annotations

from typing import Any, Final

MAX_TRIALS: Final = 100
"""Trials in the result: an XCom is a row in Airflow's database, and a study may have thousands."""

_SUCCEEDED: Final = 4
_MAXIMIZE: Final = 1


def trial_dict(trial: Any) -> dict[str, Any]:
    """Return one trial: id, state, parameters, metrics of its final measurement, its custom job.

    :param trial: a ``Trial`` message.
    """
    measurement = trial.final_measurement
    return {
        "id": trial.id,
        "state": getattr(trial.state, "name", str(trial.state)),
        "parameters": {parameter.parameter_id: _value(parameter.value) for parameter in trial.parameters},
        "metrics": {metric.metric_id: metric.value for metric in measurement.metrics} if measurement else {},
        "custom_job": trial.custom_job or None,
        "infeasible_reason": trial.infeasible_reason or None,
    }


def best_trial(message: Any) -> dict[str, Any] | None:
    """Return the trial with the best final measurement; None when none succeeded or there are several metrics.

    :param message: a ``HyperparameterTuningJob``.
    """
    metrics = list(message.study_spec.metrics)
    if len(metrics) != 1:
        return None
    metric = metrics[0].metric_id
    sign = 1 if int(metrics[0].goal) == _MAXIMIZE else -1
    scored = []
    for trial in message.trials:
        if int(trial.state) == _SUCCEEDED:
            shown = trial_dict(trial)
            if metric in shown["metrics"]:
                scored.append((sign * shown["metrics"][metric], shown))
    return max(scored, key=lambda pair: pair[0])[1] if scored else None


def bounded_trials(message: Any) -> list[dict[str, Any]]:
    """Return at most 100 trials, in the order of the service.

    :param message: a ``HyperparameterTuningJob``.
    """
    return [trial_dict(trial) for trial in list(message.trials)[:MAX_TRIALS]]


def _value(value: Any) -> Any:
    # proto-plus shows google.protobuf.Value as a plain Python value already; a whole number comes back as a float.
    return int(value) if isinstance(value, float) and value.is_integer() else value
