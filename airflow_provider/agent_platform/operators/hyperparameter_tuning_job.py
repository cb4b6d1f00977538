"""The operator for ``HyperparameterTuningJob``: the same lifecycle as a custom job, over many trials.

In: what a DAG author writes. Out: the payload of a create call; everything else is in ``operators.base``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_provider.agent_platform.jobs.schema import ClientSchema
from airflow_provider.agent_platform.jobs.spec import Job, build_tuning_job
from airflow_provider.agent_platform.operators.arguments import TEMPLATE_FIELDS
from airflow_provider.agent_platform.operators.base import TrainingJobBaseOperator


class HyperparameterTuningJobOperator(TrainingJobBaseOperator):
    """Run a tuning job: many trials of one custom job, with other parameters each.

    The result also has ``best_trial`` (None with several metrics) and ``trials``, at most 100 of them.

    :param study_spec: a ``StudySpec``: the metric to improve and the parameters to try; dict or message.
    :param max_trial_count: all trials.
    :param parallel_trial_count: trials at one time.
    :param max_failed_trial_count: the job fails when so many trials have failed; 0 or None leaves it to the service.
    :param worker_pool_specs: of each trial.
    :param trial_job_spec: a whole ``CustomJobSpec`` for each trial. Exactly one of the two.

    All other arguments are those of :class:`~airflow_provider.agent_platform.operators.base.TrainingJobBaseOperator`;
    ``run_timeout`` bounds the whole job, and is sent as the limit of each trial.
    """

    job_type: ClassVar[str] = "hyperparameter_tuning_job"
    template_fields: Sequence[str] = (
        "study_spec",
        "max_trial_count",
        "parallel_trial_count",
        "max_failed_trial_count",
        "worker_pool_specs",
        "trial_job_spec",
        *TEMPLATE_FIELDS,
    )

    def __init__(
        self,
        *,
        study_spec: Any,
        max_trial_count: int,
        parallel_trial_count: int,
        max_failed_trial_count: int | None = None,
        worker_pool_specs: Sequence[Any] | None = None,
        trial_job_spec: Any = None,
        **kwargs: Any,
    ) -> None:
        self.study_spec = study_spec
        self.max_trial_count = max_trial_count
        self.parallel_trial_count = parallel_trial_count
        self.max_failed_trial_count = max_failed_trial_count
        self.worker_pool_specs = worker_pool_specs
        self.trial_job_spec = trial_job_spec
        super().__init__(**kwargs)

    def build_job(
        self, *, display_name: str, at_parse: bool = False, client_schema: ClientSchema | None = None
    ) -> Job:
        """Return the payload."""
        return build_tuning_job(
            display_name=display_name,
            study_spec=self.study_spec,
            max_trial_count=self.max_trial_count,
            parallel_trial_count=self.parallel_trial_count,
            max_failed_trial_count=self.max_failed_trial_count,
            worker_pool_specs=self.worker_pool_specs,
            trial_job_spec=self.trial_job_spec,
            at_parse=at_parse,
            client_schema=client_schema,
            **self.spec_fields(),
        )
