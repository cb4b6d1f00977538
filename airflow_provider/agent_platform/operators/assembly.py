"""Put together what one start or resume of a task works with: settings, hook, request, lifecycle.

In: an operator with rendered arguments, Airflow's context. Out: a :class:`Assembly`. Whatever is wrong with the
arguments or the set-up is raised here, before anything is submitted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pendulum

from airflow_provider.agent_platform import settings
from airflow_provider.agent_platform.hooks.client_schema import client_schema
from airflow_provider.agent_platform.hooks.logs import last_lines
from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.jobs import variants
from airflow_provider.agent_platform.jobs.durations import seconds_of
from airflow_provider.agent_platform.jobs.whereabouts import Whereabouts, chain_of_argument
from airflow_provider.agent_platform.operators import arguments, notes
from airflow_provider.agent_platform.operators.killing import WorkerKill, task_state_of
from airflow_provider.agent_platform.operators.lifecycle import Lifecycle
from airflow_provider.agent_platform.operators.preparation import Preparation
from airflow_provider.agent_platform.operators.request import TrainingRequest
from airflow_provider.agent_platform.operators.task import TaskFacts
from airflow_provider.agent_platform.operators.verdict import Verdicts
from airflow_provider.agent_platform.policy.decide import Budget
from airflow_provider.agent_platform.policy.placement import PlacementOptions
from airflow_provider.agent_platform.triggers.clocks import utcnow

if TYPE_CHECKING:
    from airflow_provider.agent_platform.operators.base import TrainingJobBaseOperator


@dataclass(kw_only=True)
class Assembly:
    """The parts of one start or resume.

    :param lifecycle: decides what comes next.
    :param kill: what a SIGTERM does.
    :param task: who is running.
    :param request: what is wanted.
    :param hook: talks to the service; to be closed.
    :param where: the task's jobs are.
    """

    lifecycle: Lifecycle
    kill: WorkerKill
    task: TaskFacts
    request: TrainingRequest
    hook: TrainingJobHook
    where: Whereabouts


def assemble(operator: TrainingJobBaseOperator, context: Mapping[str, Any]) -> Assembly:
    """Put the parts together.

    :param operator: with rendered arguments.
    :param context: of the running task.
    :raises ConfigurationError: no project, no region, no credentials, no emulator.
    :raises SpecError: something is wrong with the job description.
    """
    arguments.check_rendered(operator)
    options = settings.current()
    task = TaskFacts.of(context, deployment=options.deployment)
    sleep = InterruptibleSleep()
    hook = TrainingJobHook(operator.gcp_conn_id, operator.impersonation_chain, sleep=sleep)
    request = _request(operator, task, hook)
    preparation = Preparation(
        request=request,
        storage_client=hook.storage_client,
        check_bucket=hook.check_bucket,
        log=operator.log,
    )
    verdicts = Verdicts(
        request=request,
        task=task,
        context=context,
        retry_policy=operator.retry_policy,
        retry_delay=optional_duration(operator.user_retry_delay),
        log_tail=lambda job, replica: last_lines(
            hook, job, replica, n=options.log_lines, bound=options.log_timeout
        ),
        log=operator.log,
        now=utcnow,
    )
    lifecycle = Lifecycle(
        request=request,
        task=task,
        hook=hook,
        verdicts=verdicts,
        preparation=preparation,
        log=operator.log,
    )
    kill = WorkerKill(lifecycle=lifecycle, task=task, task_state=task_state_of(context), log=operator.log)
    lifecycle.after_create = kill.after_create
    lifecycle.owner_try = lambda: notes.owner_try(context)
    lifecycle.sleep = sleep
    sleep.kill = kill
    where = Whereabouts(
        key=task.identity.key,
        job_type=request.job_type,
        project_id=request.project_id,
        regions=request.placement.regions,
        gcp_conn_id=operator.gcp_conn_id,
        impersonation_chain=chain_of_argument(operator.impersonation_chain),
    )
    return Assembly(lifecycle=lifecycle, kill=kill, task=task, request=request, hook=hook, where=where)


class InterruptibleSleep:
    """A sleep that ends soon after a kill was asked for.

    In slices: a signal handler must not touch a lock that the sleeping thread may hold.

    :param kill: what may have been asked for; set once it is there.
    """

    kill: WorkerKill | None = None

    def __call__(self, seconds: float) -> None:
        """Sleep.

        :raises WorkerStopped: the worker was told to stop.
        """
        end = time.monotonic() + seconds
        while True:
            if self.kill is not None:
                self.kill.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.5))


def optional_duration(value: object) -> pendulum.Duration | None:
    """Return a duration argument as a Duration; None stays None."""
    return None if value is None else pendulum.duration(seconds=seconds_of(value))


def _request(operator: TrainingJobBaseOperator, task: TaskFacts, hook: TrainingJobHook) -> TrainingRequest:
    region = hook.region(operator.region)
    job = operator.build_job(
        display_name=operator.display_name or task.identity.display_name,
        client_schema=client_schema,
    )
    base = variants.output_directory_of(job)
    if base is None:
        root = hook.base_output_root()
        if root:
            base = f"{root.rstrip('/')}/{task.identity.slug_path()}"
            job = variants.with_output_directory(job, base)
    return TrainingRequest(
        job=job,
        job_type=operator.job_type,
        project_id=hook.project_id(operator.project_id),
        placement=PlacementOptions(
            regions=(region, *(hook.region(name) for name in operator.fallback_regions)),
            machine_types=tuple(operator.machine_types),
            strategy=operator.strategy,
        ),
        base_output_directory=base,
        budget=Budget(
            retries=task.retries,
            max_jobs=operator.max_jobs,
            queue_timeout=optional_duration(operator.queue_timeout),
        ),
        run_timeout=optional_duration(operator.run_timeout),
        platform_retries=operator.platform_retries,
        resume=operator.resume,
        discard_incomplete=operator.discard_incomplete,
        resume_args=tuple(operator.resume_args),
        failure_rules=tuple(operator.failure_rules),
        recognisers=tuple(operator.checkpoint_recognisers),
    )
