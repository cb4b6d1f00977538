"""What all training operators share: their arguments, their templates, and the methods Airflow calls.

In: arguments, checked at DAG parse as far as they are known then. Out: a deferral, a result, or a typed error, from
``conduct``, which is imported only where a task runs. What the kinds of job differ in is in the subclasses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout

from airflow_provider.agent_platform.jobs.durations import seconds_of
from airflow_provider.agent_platform.jobs.schema import ClientSchema
from airflow_provider.agent_platform.jobs.spec import Job
from airflow_provider.agent_platform.links.training_job import TrainingJobLink
from airflow_provider.agent_platform.operators import arguments
from airflow_provider.agent_platform.operators.arguments import ResumeMode
from airflow_provider.agent_platform.operators.retry_policy import TrainingRetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import RetryPolicy
    from airflow.sdk.definitions.context import Context

    from airflow_provider.agent_platform.operators.conduct import Conduct
    from airflow_provider.agent_platform.policy.rules import FailureRule

Duration = timedelta | int | float | str


class TrainingJobBaseOperator(BaseOperator):
    """Run one training job to its end: submit or adopt it, wait without a worker slot, act on how it ended.

    A task has at most one live job, whatever crashes: each try starts by reading the jobs of this task from the platform.
    ``retries=N`` buys N + 1 runs of the training, whoever makes them, and no more.

    :param project_id: Google Cloud project. Default: the connection's.
    :param region: for example ``us-central1``. Default: the connection's.
    :param fallback_regions: tried in turn when a region has no capacity.
    :param display_name: 1 to 128 characters. Default: ``<dag_id>.<task_id>``.
    :param base_output_directory: ``gs://bucket/folder``, the same for all tries. Default: the root of the connection or
        of ``[agent_platform] base_output_root``, then dag, run and task. Without any, there is no output directory.
    :param strategy: ``STANDARD``, ``SPOT`` or ``FLEX_START``. Default: the service's (STANDARD).
    :param queue_timeout: how long all jobs of the task together may wait to start. Default: for ever.
    :param run_timeout: how long a job may run from its first start; also sent as ``scheduling.timeout``. Default: the
        service's 7 days.
    :param max_wait_duration: how long the service waits for capacity with FLEX_START.
    :param restart_job_on_worker_restart: restart the whole job when one worker restarts.
    :param platform_retries: False switches the platform's own retries off, True leaves them on. Default: on for the
        first job, off when the budget could not pay for them.
    :param machine_types: ladder of machine types, climbed when a job runs out of memory or disk.
    :param resume: ``retries``: a new job starts from the newest complete checkpoint within an epoch, and into a new
        epoch (a clear) only after a failure. ``always``, ``never``.
    :param resume_args: arguments added when there is a checkpoint; ``{uri}`` and ``{step}`` are replaced.
    :param discard_incomplete: move incomplete newer checkpoints aside before a submit.
    :param checkpoint_interval: warn when the newest checkpoint of a running job is older. Default: 4 hours, the
        service's own advice.
    :param checkpoint_recognisers: dotted paths of your own checkpoint layouts.
    :param failure_rules: :class:`~airflow_provider.agent_platform.policy.failures.FailureRule`, before the default table.
    :param max_jobs: ceiling of jobs per epoch, over every rule. Default: 50.
    :param labels: your own labels; those that start with ``airflow-`` and are ours are refused.
    :param service_account: the training code runs as this account.
    :param network: VPC network to peer with.
    :param reserved_ip_ranges: names of reserved ranges in that network.
    :param tensorboard: resource name of a TensorBoard.
    :param enable_web_access: allow an interactive shell in the workers.
    :param enable_dashboard_access: allow access to dashboards in the workers.
    :param experiment: resource name of an experiment.
    :param experiment_run: resource name of a run of it.
    :param persistent_resource_id: run on this persistent resource.
    :param protected_artifact_location_id: location of a protected artifact.
    :param psc_interface_config: Private Service Connect.
    :param models: resource names of models to be checkpointed into.
    :param encryption_spec_key_name: Cloud KMS key.
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: service account, or chain of them, to act as.
    :param deferrable: wait in the triggerer (default), or in the worker.
    :param poll_interval: seconds between two looks at the job. Default: 30.
    :param retry_policy: Default: ours, which follows the decision. Your own wins.
    :param retry_delay: between two tries. Default: a back-off by the kind of failure, with jitter.
    :raises ValueError: at DAG parse, for everything that can be known to be wrong then.
    """

    job_type: ClassVar[str] = "custom_job"
    template_fields: Sequence[str] = arguments.TEMPLATE_FIELDS
    template_fields_renderers: ClassVar[dict[str, str]] = {"worker_pool_specs": "json", "job_spec": "json"}
    operator_extra_links = (TrainingJobLink(),)
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        project_id: str | None = None,
        region: str | None = None,
        fallback_regions: Sequence[str] = (),
        display_name: str | None = None,
        base_output_directory: str | None = None,
        strategy: str | None = None,
        queue_timeout: Duration | None = None,
        run_timeout: Duration | None = None,
        max_wait_duration: Duration | None = None,
        restart_job_on_worker_restart: bool = False,
        platform_retries: bool | None = None,
        machine_types: Sequence[str] = (),
        resume: ResumeMode = "retries",
        resume_args: Sequence[str] = (),
        discard_incomplete: bool = False,
        checkpoint_interval: Duration | None = timedelta(hours=4),
        checkpoint_recognisers: Sequence[str] = (),
        failure_rules: Sequence[FailureRule] = (),
        max_jobs: int = 50,
        labels: Mapping[str, str] | None = None,
        service_account: str | None = None,
        network: str | None = None,
        reserved_ip_ranges: Sequence[str] | None = None,
        tensorboard: str | None = None,
        enable_web_access: bool = False,
        enable_dashboard_access: bool = False,
        experiment: str | None = None,
        experiment_run: str | None = None,
        persistent_resource_id: str | None = None,
        protected_artifact_location_id: str | None = None,
        psc_interface_config: Mapping[str, Any] | None = None,
        models: Sequence[str] | None = None,
        encryption_spec_key_name: str | None = None,
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        deferrable: bool = True,
        poll_interval: Duration = 30.0,
        retry_policy: RetryPolicy | None = None,
        retry_delay: Duration | None = None,
        **kwargs: Any,
    ) -> None:
        # Named here so that Airflow fills it from default_args too: a user's own delay wins over ours.
        self.user_retry_delay = None if retry_delay is None else timedelta(seconds=seconds_of(retry_delay))
        if self.user_retry_delay is not None:
            kwargs["retry_delay"] = self.user_retry_delay
        super().__init__(retry_policy=retry_policy or TrainingRetryPolicy(), **kwargs)
        self.project_id = project_id
        self.region = region
        self.fallback_regions = fallback_regions
        self.display_name = display_name
        self.base_output_directory = base_output_directory
        self.strategy = strategy
        self.queue_timeout = queue_timeout
        self.run_timeout = run_timeout
        self.max_wait_duration = max_wait_duration
        self.restart_job_on_worker_restart = restart_job_on_worker_restart
        self.platform_retries = platform_retries
        self.machine_types = machine_types
        self.resume = resume
        self.resume_args = resume_args
        self.discard_incomplete = discard_incomplete
        self.checkpoint_interval = checkpoint_interval
        self.checkpoint_recognisers = checkpoint_recognisers
        self.failure_rules = failure_rules
        self.max_jobs = max_jobs
        self.labels = labels
        self.service_account = service_account
        self.network = network
        self.reserved_ip_ranges = reserved_ip_ranges
        self.tensorboard = tensorboard
        self.enable_web_access = enable_web_access
        self.enable_dashboard_access = enable_dashboard_access
        self.experiment = experiment
        self.experiment_run = experiment_run
        self.persistent_resource_id = persistent_resource_id
        self.protected_artifact_location_id = protected_artifact_location_id
        self.psc_interface_config = psc_interface_config
        self.models = models
        self.encryption_spec_key_name = encryption_spec_key_name
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self.job_name: str | None = None
        self._conduct: Conduct | None = None
        arguments.check(self)

    # -- what the subclasses give

    @abstractmethod
    def build_job(
        self, *, display_name: str, at_parse: bool = False, client_schema: ClientSchema | None = None
    ) -> Job:
        """Return the payload of the create call, without our labels and environment.

        :param display_name: the user's or the default one.
        :param at_parse: skip what is not known while the DAG is parsed.
        :param client_schema: knows fields that our table does not have.
        """

    def spec_fields(self) -> dict[str, Any]:
        """Return the arguments that are fields of ``CustomJobSpec``, ``Scheduling`` or the resource itself."""
        return {name: getattr(self, name) for name in arguments.SPEC_FIELDS}

    # -- the ways in; the names of the methods are stored with deferred tasks: renaming one strands them

    def execute(self, context: Context) -> Any:
        """Start a try: read the ledger, then adopt, decide or submit."""
        return self._conduct_in(context).start()

    def execute_complete(self, context: Context, event: Any = None, stale: bool = False, **_: Any) -> Any:
        """Go on after the wait for a job.

        :param event: what the trigger sent.
        :param stale: the job was of an earlier epoch.
        """
        return self._conduct_in(context).after_job(event, stale=stale)

    def execute_requeue(self, context: Context, event: Any = None, carried: Any = None, **_: Any) -> Any:
        """Go on after a wait without a job.

        :param event: the moment that was waited for.
        :param carried: what was known before it.
        """
        return self._conduct_in(context).after_pause(carried)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on after a deferral; also when the trigger vanished, or Airflow gave up waiting for it."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            self._conduct_in(context).after_timeout()
            raise
        except TaskDeferralError as error:
            return self._conduct_in(context).after_vanished_trigger(error)

    def on_kill(self) -> None:
        """Decide about the job when the worker is told to stop (see ``operators.killing``)."""
        if self._conduct is not None:
            self._conduct.on_kill()

    def _conduct_in(self, context: Context) -> Conduct:
        # Imported only where a task runs: a DAG is parsed far more often, and pays for none of this.
        from airflow_provider.agent_platform.operators.conduct import Conduct

        self._conduct = Conduct(self, context)
        return self._conduct
