"""Wait for the end of a training job that something else started: another DAG, a notebook, ``gcloud``.

In: the job's name, or labels. Out (XCom): name, state, region, display name and times of the job that
succeeded. The job is only looked at: a sensor never cancels it, whatever ends the sensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_provider.agent_platform.exceptions import error_for
from airflow_provider.agent_platform.hooks import api_retry
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.jobs.console import console_url
from airflow_provider.agent_platform.policy.failures import FailureEvidence, classify
from airflow_provider.agent_platform.policy.kinds import EndedBy
from airflow_provider.agent_platform.policy.states import JobState, is_success, state_name
from airflow_provider.agent_platform.triggers import events
from airflow_provider.agent_platform.triggers.clocks import Now, utcnow
from airflow_provider.agent_platform.triggers.events import parse_event
from airflow_provider.agent_platform.triggers.training_job_sensor import (
    TrainingJobSensorTrigger,
    labels_filter,
)
from airflow_provider.agent_platform.triggers.trouble import Trouble, brief, judge
from airflow_provider.agent_platform.triggers.view import VIEW_FIELDS, JobView
from airflow_provider.agent_platform.triggers.watch import LATE_ERROR_SECONDS

if TYPE_CHECKING:
    from airflow.sdk import Context


class TrainingJobNotReadableError(AirflowException):
    """The service refused to tell the state of the job for a bounded time. The job was left as it is."""


class TrainingJobSensor(BaseSensorOperator):
    """Wait until a training job has succeeded; fail when it ended in any other way.

    Exactly one of ``job_name`` and ``labels``. Of several jobs with the labels the newest counts; when a
    newer one has appeared by the time it ends (a retry of somebody's task), that one is waited for. While no
    job has the labels, the sensor waits for one.

    :param job_name: full resource name of a custom job or hyperparameter tuning job (templated).
    :param labels: the job carries all of these (templated).
    :param job_type: kind of job the labels are looked for on: ``custom_job`` or
        ``hyperparameter_tuning_job``.
    :param project_id: where to look for labels; default: the connection's project (templated).
    :param region: where to look for labels; default: the connection's region (templated).
    :param gcp_conn_id: Airflow connection (templated).
    :param impersonation_chain: service account, or chain of them, to act as (templated).
    :param deferrable: wait without a worker slot. False: as ``mode`` says.
    :param poll_interval: seconds, or a timedelta, between two looks; default: ``poke_interval`` (60 s).
    :param soft_fail: skip, instead of failing, when the job failed or ``timeout`` passed; as in Airflow.
    :param timeout: seconds; of the whole try, as in Airflow.
    :raises TrainingJobError: the job ended in another way than SUCCEEDED: the class says how, as for the
        operators.
    :raises AirflowSensorTimeout: ``timeout`` passed; never retried, as in Airflow.
    :raises TrainingJobNotReadableError: the service refused to tell for some minutes.
    :raises ValueError: neither or both of ``job_name`` and ``labels``.
    """

    template_fields: Sequence[str] = (
        "job_name",
        "labels",
        "project_id",
        "region",
        "gcp_conn_id",
        "impersonation_chain",
    )
    ui_color = "#e8f0fe"

    now: Now = staticmethod(utcnow)
    """The clock."""

    def __init__(
        self,
        *,
        job_name: str | None = None,
        labels: Mapping[str, str] | None = None,
        job_type: str = "custom_job",
        project_id: str | None = None,
        region: str | None = None,
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        deferrable: bool = True,
        poll_interval: float | timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        if poll_interval is not None:
            kwargs["poke_interval"] = poll_interval
        super().__init__(**kwargs)
        if (job_name is None) == (labels is None):
            raise ValueError(
                f"job_name is {job_name!r} and labels is {labels!r}: give exactly one of them, "
                'job_name="projects/../locations/../customJobs/.." or labels={"key": "value"}'
            )
        if labels is not None and not labels:
            raise ValueError("labels is empty: every job would match; give at least one")
        if job_type not in ("custom_job", "hyperparameter_tuning_job"):
            raise ValueError(f"job_type is {job_type!r}: give custom_job or hyperparameter_tuning_job")
        self.job_name = job_name
        self.labels = labels
        self.job_type = job_type
        self.project_id = project_id
        self.region = region
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once; then wait deferred, or poke."""
        if not self.deferrable:
            return super().execute(context)
        with self._hook() as hook:
            done = self._look(hook)
            if done is not None:
                return done
            place = (
                (hook.project_id(self.project_id), hook.region(self.region)) if self.labels else (None, None)
            )
        self.defer(
            trigger=TrainingJobSensorTrigger(
                job_name=self.job_name,
                labels=self.labels,
                job_type=self.job_type,
                project_id=place[0],
                region=place[1],
                gcp_conn_id=self.gcp_conn_id,
                impersonation_chain=self.impersonation_chain,
                poll_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: Context) -> bool | PokeReturnValue:
        """Look once, when the sensor is not deferrable."""
        with self._hook() as hook:
            done = self._look(hook)
        return False if done is None else PokeReturnValue(True, done)

    def execute_complete(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Return the job that the trigger saw end, or fail for how it ended."""
        ended = parse_event(event)
        if ended.type == events.LOST:
            raise self._lost(ended.job_name)
        if ended.type == events.REFUSED:
            raise self._softly(TrainingJobNotReadableError(ended.message or "the service refused to tell"))
        with self._hook() as hook:
            job = hook.get(ended.job_name)
        return self._finish(job)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Say what timed out; Airflow's own text is "Trigger timeout"."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            raise AirflowSensorTimeout(
                f"{self._wanted()} has not ended within the sensor's timeout of {int(self.timeout)} s; "
                "it was left as it is"
            ) from error

    # --- inside --------------------------------------------------------------------------------

    def _look(self, hook: TrainingJobHook) -> dict[str, Any] | None:
        """Answer the result when the job has ended well; ``None`` while there is nothing to say."""
        try:
            job = hook.get(self.job_name) if self.job_name else self._newest(hook)
        except Exception as error:
            if api_retry.is_gone(error) and self.job_name:
                raise self._lost(self.job_name) from error
            if judge(error)[0] is not Trouble.TRANSIENT:
                raise
            self.log.warning("%s could not be read, the wait goes on: %s", self._wanted(), brief(error))
            return None
        if job is None:
            return None
        view = JobView.of(job)
        if not view.ended:
            return None
        if view.waits_for_error and view.end_time is not None:
            waited = (self.now() - view.end_time).total_seconds()
            if waited < LATE_ERROR_SECONDS:
                return None
        return self._finish(job)

    def _newest(self, hook: TrainingJobHook) -> Any:
        jobs = hook.list_jobs(
            job_type=self.job_type,
            project_id=hook.project_id(self.project_id),
            region=hook.region(self.region),
            filter=labels_filter(self.labels or {}),
            read_mask=VIEW_FIELDS,
        )
        if not jobs:
            return None
        return hook.get(max(jobs, key=lambda job: (job.create_time, job.name)).name)

    def _finish(self, job: Any) -> dict[str, Any]:
        view = JobView.of(job)
        if is_success(view.state):
            return {
                "name": view.name,
                "state": state_name(view.state),
                "region": view.name.split("/")[3],
                "display_name": str(job.display_name),
                "create_time": _text(view.create_time),
                "start_time": _text(view.start_time),
                "end_time": _text(view.end_time),
            }
        outcome = classify(
            FailureEvidence(
                state=view.state,
                code=view.error_code,
                message=view.error_message or "",
                ever_started=view.start_time is not None,
                region=view.name.split("/")[3],
            )
        )
        text = f"{view.name} ended as {state_name(view.state)}"
        text += f" ({outcome.kind.value})" if outcome.kind else ""
        text += f": {view.error_message}" if view.error_message else ", without an error text"
        raise self._softly(
            error_for(
                outcome,
                None,
                job_name=view.name,
                message=f"{text}\nConsole: {console_url(view.name)}",
                console_url=console_url(view.name),
            )
        )

    def _lost(self, job_name: str) -> Exception:
        outcome = classify(FailureEvidence(state=int(JobState.UNSPECIFIED), ended_by=EndedBy.LOST))
        return self._softly(
            error_for(outcome, None, job_name=job_name, message=f"{job_name} does not exist (any more)")
        )

    def _softly(self, error: Exception) -> Exception:
        """Answer the error, or the skip that ``soft_fail`` makes of it: Airflow does so on a resume only."""
        if not (self.soft_fail or self.never_fail):
            return error
        skip = AirflowSkipException(f"Skipping, soft_fail is set: {error}")
        skip.__cause__ = error
        return skip

    def _wanted(self) -> str:
        return self.job_name or f"the newest {self.job_type} with {labels_filter(self.labels or {})}"

    def _hook(self) -> TrainingJobHook:
        return TrainingJobHook(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)


def _text(moment: Any) -> str | None:
    return None if moment is None else str(moment.to_iso8601_string())
