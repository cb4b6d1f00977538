"""What one task asks for, rendered, checked and resolved: the input of the lifecycle.

In: the operator's arguments after templating. Out: a frozen record. Nothing is called here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider.agent_platform.jobs.variants import Job
from airflow_provider.agent_platform.operators.arguments import ResumeMode
from airflow_provider.agent_platform.policy.decide import Budget
from airflow_provider.agent_platform.policy.placement import PlacementOptions
from airflow_provider.agent_platform.policy.rules import FailureRule


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """One training job as the user wants it.

    :param job: payload of ``jobs.spec``, without our labels and environment.
    :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
    :param project_id: where jobs are created.
    :param placement: regions in the order they are tried, machine types, strategy.
    :param base_output_directory: the same for all tries; None when no root is configured anywhere.
    :param budget: retries, ceiling, queue timeout.
    :param run_timeout: from RUNNING; None is no limit of ours.
    :param platform_retries: None lets the budget decide.
    :param resume: when a new job starts from the newest complete checkpoint.
    :param discard_incomplete: move incomplete newer checkpoints aside before a submit.
    :param resume_args: arguments added when there is a checkpoint; ``{uri}`` and ``{step}`` are replaced.
    :param failure_rules: before the default table.
    :param recognisers: the user's own checkpoint layouts, dotted paths.
    """

    job: Job
    job_type: str
    project_id: str
    placement: PlacementOptions
    base_output_directory: str | None
    budget: Budget
    run_timeout: pendulum.Duration | None = None
    platform_retries: bool | None = None
    resume: ResumeMode = "retries"
    discard_incomplete: bool = False
    resume_args: Sequence[str] = ()
    failure_rules: Sequence[FailureRule] = ()
    recognisers: Sequence[str] = ()
