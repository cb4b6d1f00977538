"""One create call, never repeated blindly: a lost reply is looked up by label before another create is sent.

In: a finished payload and the reader of the book. Out: the record of one job, ours whatever the network did; or the
error the service refused it with. When to submit, and what, is decided elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import tenacity

from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.hooks.api_retry import (
    api_error_parts,
    is_ambiguous_create,
    is_rate_limited,
)
from airflow_provider.agent_platform.jobs.variants import Job
from airflow_provider.agent_platform.operators import points
from airflow_provider.agent_platform.operators.reader import BookReader
from airflow_provider.agent_platform.operators.records import record_of
from airflow_provider.agent_platform.policy.ledger import JobRecord

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

MAX_CREATES: Final = 3
"""Creates that may get lost, one after the other, before the task gives up."""

SEARCH_SECONDS = 45.0
"""How long a job whose create reply was lost is looked for. List may lag behind Create: the service does not say how far."""

RATE_LIMIT_SECONDS: Final = 300.0
"""How long a create refused for its rate is repeated: the quota is per minute."""


@dataclass(frozen=True, kw_only=True)
class Submitter:
    """Creates jobs.

    :param hook: talks to the service.
    :param reader: reads the book, to find a job whose reply was lost.
    :param log: the task's log.
    :param sleep: injected by tests; also how a kill interrupts a wait.
    """

    hook: TrainingJobHook
    reader: BookReader
    log: TaskLogger
    sleep: Callable[[float], None] = time.sleep

    def submit(self, job: Job, *, region: str, known: Collection[str]) -> JobRecord:
        """Create one job and return it.

        :param job: finished payload, labels included.
        :param region: where.
        :param known: names of the jobs that were there before: a job of this epoch that is not among them is the one
            whose reply was lost.
        :raises google.api_core.exceptions.GoogleAPICallError: the service refused it; nothing is stored.
        """
        for attempt in range(1, MAX_CREATES + 1):
            try:
                return self._create(job, region)
            except Exception as error:
                if not is_ambiguous_create(error):
                    raise
                code, text = api_error_parts(error)
                self.log.warning(
                    "The reply to the create call was lost (code %s: %s). Looking for the job by its labels.",
                    code,
                    text,
                )
                found = self.find(known)
                if found is not None:
                    self.log.info("Found it: %s was created, nothing is created again.", found.name)
                    return found
                if attempt == MAX_CREATES:
                    self.log.error("No such job appeared. %d creates were sent; giving up.", attempt)
                    raise
                self.log.warning(
                    "No such job appeared within %d s: it was not stored. Creating again.", SEARCH_SECONDS
                )
        raise AssertionError("not reached: the last attempt raises")

    def _create(self, job: Job, region: str) -> JobRecord:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_rate_limited),
            wait=tenacity.wait_random_exponential(multiplier=5, max=60),
            stop=tenacity.stop_after_delay(RATE_LIMIT_SECONDS) | tenacity.stop_after_attempt(10),
            sleep=self.sleep,
            before_sleep=self._say_rate_limited,
            reraise=True,
        )
        message = retrying(self._create_once, job, region)
        return message

    def _create_once(self, job: Job, region: str) -> JobRecord:
        points.passed(points.CREATE_SENT)
        message = self.hook.create(
            job, project_id=self.reader.project_id, region=region, job_type=self.reader.job_type
        )
        points.passed(points.CREATE_ANSWERED)
        return record_of(message)

    def find(self, known: Collection[str]) -> JobRecord | None:
        """Look for a job whose create was not answered, for ``SEARCH_SECONDS``; None: it was not stored.

        :param known: names of the jobs that were there before.
        """
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda found: found is None),
            wait=tenacity.wait_exponential(multiplier=1, max=10),
            stop=tenacity.stop_after_delay(SEARCH_SECONDS) | tenacity.stop_after_attempt(8),
            sleep=self.sleep,
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        return retrying(self._look, known)

    def _look(self, known: Collection[str]) -> JobRecord | None:
        fresh = [record for record in self.reader.read().current if record.name not in known]
        return fresh[0] if fresh else None

    def _say_rate_limited(self, state: tenacity.RetryCallState) -> None:
        wait = state.next_action.sleep if state.next_action else 0
        self.log.info(
            "The service refused the create for its rate (attempt %d): nothing was stored, trying again in %.0f s.",
            state.attempt_number,
            wait,
        )
