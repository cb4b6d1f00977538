"""Everything between a decision to submit and the create call: checkpoints, labels, environment, scheduling.

In: the request, the ledger, a starting point and a placement. Out: the finished payload. What counts as a checkpoint is
decided in ``checkpoints``, what the payload's fields mean in ``jobs``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pendulum

from airflow_provider.agent_platform.checkpoints.store import (
    CheckpointScan,
    CheckpointStoreError,
    FoundCheckpoint,
    discard_incomplete,
    scan,
)
from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.jobs import variants
from airflow_provider.agent_platform.jobs.console import console_url
from airflow_provider.agent_platform.jobs.variants import Job
from airflow_provider.agent_platform.operators.reader import Book
from airflow_provider.agent_platform.operators.request import TrainingRequest
from airflow_provider.agent_platform.operators.starting_point import StartingPoint, counts_since
from airflow_provider.agent_platform.operators.task import TaskFacts
from airflow_provider.agent_platform.policy.decide import platform_retries
from airflow_provider.agent_platform.policy.ledger import JobRecord, Ledger
from airflow_provider.agent_platform.policy.placement import Placement

if TYPE_CHECKING:
    from google.cloud.storage import Client as StorageClient

MOST_NAMED = 3
"""Incomplete checkpoints named in the log, with the reason of each."""


@dataclass(kw_only=True)
class Preparation:
    """Looks at checkpoints and writes payloads for one try.

    :param request: what the user wants.
    :param storage_client: makes a Cloud Storage client with the hook's identity.
    :param check_bucket: raises when the bucket of a URI does not exist.
    :param log: the task's log.
    """

    request: TrainingRequest
    storage_client: Callable[[], StorageClient]
    check_bucket: Callable[[str], None]
    log: TaskLogger
    _said: set[str] = field(default_factory=set)

    def look(self, since: pendulum.DateTime | None = None) -> CheckpointScan:
        """Look for the newest complete checkpoint; what cannot be told is said once in the log.

        :param since: checkpoints written before this time do not count.
        """
        if self.request.base_output_directory is None:
            # Nothing to look at is known to be nothing: such a task makes no progress that could be resumed.
            return CheckpointScan(known=True)
        found = scan(
            self.request.base_output_directory,
            self.storage_client,
            since=since,
            recognisers=tuple(self.request.recognisers),
        )
        if found.problem:
            self._say_once(
                logging.WARNING,
                f"How far the training is cannot be told: {found.problem}. Such runs are neither charged nor free.",
            )
        for item in found.incomplete_newer[:MOST_NAMED]:
            self._say_once(logging.INFO, f"Incomplete, not used: {item.uri} ({item.why})")
        return found

    def newest_of(self, book: Book) -> FoundCheckpoint | None:
        """Return the newest complete checkpoint of this epoch, for the result."""
        fresh, since = counts_since(book, self.request.resume)
        return self.look(since if fresh else None).newest

    def payload(self, ledger: Ledger, point: StartingPoint, placement: Placement, task: TaskFacts) -> Job:
        """Return the finished payload of the next job.

        :param ledger: the jobs before it.
        :param point: where it starts from.
        :param placement: where it goes.
        :param task: whose it is.
        """
        if not ledger.entries and self.request.base_output_directory is not None:
            # Only before the first job: later on, a storage that does not answer must not end a training that runs.
            self.check_bucket(self.request.base_output_directory)
        if self.request.discard_incomplete:
            self._discard(ledger, point)
        request = self.request
        job = variants.with_machine_type(request.job, placement.machine_type)
        job = variants.with_environment(job, point.environment(ledger.jobs))
        arguments = point.arguments(request.resume_args)
        if arguments:
            job = variants.with_arguments(job, arguments)
        retries_on = platform_retries(ledger, request.budget, request.platform_retries)
        job = variants.with_scheduling(
            job, strategy=placement.strategy, disable_retries=None if retries_on else True
        )
        labels = task.identity.labels(
            epoch=task.epoch,
            try_number=task.try_number,
            max_tries=task.max_tries,
            resume_step=point.label,
            output_directory=request.base_output_directory,
        )
        return variants.with_labels(job, labels)

    def log_submit(self, record: JobRecord, job: Job, point: StartingPoint) -> None:
        """Say what was submitted, where it starts, which limits it has, and where to look at it."""
        start = f"from {point.checkpoint.uri}" if point.checkpoint else "from the beginning"
        limit = (
            "7 days (the service's default)"
            if record.timeout_seconds is None
            else pendulum.duration(seconds=int(record.timeout_seconds)).in_words()
        )
        self.log.info(
            "Submitted %s in %s (%s), %s; run limit %s, platform retries %s.",
            record.name,
            record.region,
            variants.strategy_of(job) or "STANDARD",
            start,
            limit,
            "off" if record.disable_retries else "on",
        )
        self.log.info("Console: %s", console_url(record.name))

    def _discard(self, ledger: Ledger, point: StartingPoint) -> None:
        incomplete: tuple[Any, ...] = point.scan.incomplete_newer if point.scan else ()
        base = self.request.base_output_directory
        if not incomplete or base is None:
            return
        last = ledger.last
        try:
            moved = discard_incomplete(
                base, incomplete, last.record.name if last else "before-the-first-job", self.storage_client
            )
        except CheckpointStoreError as error:
            self.log.warning("An incomplete checkpoint could not be moved aside: %s", error)
            return
        for uri in moved:
            self.log.info("Moved an incomplete checkpoint aside: %s", uri)

    def _say_once(self, level: int, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.log.log(level, "%s", text)
