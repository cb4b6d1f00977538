"""The XCom ``return_value`` of a training task: plain JSON, bounded, with names instead of numbers.

In: the job's message, the ledger, the newest checkpoint. Out: a dict. Its keys are public: tasks downstream read them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pendulum

from airflow_provider.agent_platform.checkpoints.store import FoundCheckpoint
from airflow_provider.agent_platform.operators.records import state_of
from airflow_provider.agent_platform.operators.request import TrainingRequest
from airflow_provider.agent_platform.operators.trials import best_trial, bounded_trials
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.states import state_name

TUNING: Final = "hyperparameter_tuning_job"


def result_of(
    message: Any, ledger: Ledger, request: TrainingRequest, checkpoint: FoundCheckpoint | None
) -> dict[str, Any]:
    """Return the result of a job that succeeded.

    :param message: the ``CustomJob`` or ``HyperparameterTuningJob``, read after its end.
    :param ledger: all jobs of the epoch.
    :param request: what was asked for.
    :param checkpoint: the newest complete checkpoint.
    """
    entry = ledger.last
    result: dict[str, Any] = {
        "name": message.name,
        "state": state_name(state_of(message)),
        "region": entry.record.region if entry else None,
        "display_name": message.display_name,
        "create_time": _iso(message.create_time),
        "start_time": _iso(message.start_time),
        "end_time": _iso(message.end_time),
        "base_output_directory": request.base_output_directory,
        "checkpoint": checkpoint.uri if checkpoint else None,
        "step": checkpoint.step if checkpoint else None,
        "jobs": [item.as_dict() for item in ledger.entries],
    }
    if request.job_type == TUNING:
        result["best_trial"] = best_trial(message)
        result["trials"] = bounded_trials(message)
    return result


def _iso(value: datetime | None) -> str | None:
    return None if value is None else pendulum.instance(value).in_timezone("UTC").isoformat()
