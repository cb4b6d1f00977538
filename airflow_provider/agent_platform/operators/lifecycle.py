"""What a try does: read the ledger, then adopt the live job, decide on the ended one, or submit.

In: a request, the facts of the try, a hook, and what ended a wait. Out: the next :mod:`step <.steps>`, or a typed error.
One path for the first start, for each resume, for the deferrable and the plain mode, and for both kinds of job. The
platform is the only memory: whatever crashes in between, the next start reads the same ledger and comes to the same
answer. Not here: how a step is carried out (the operator), what a failure means (``policy``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pendulum

from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.hooks.api_retry import is_gone
from airflow_provider.agent_platform.hooks.errors import ConfigurationError
from airflow_provider.agent_platform.jobs.console import JobName, console_url
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.operators import measures, points
from airflow_provider.agent_platform.operators.neighbours import warn_of_neighbours
from airflow_provider.agent_platform.operators.preparation import Preparation
from airflow_provider.agent_platform.operators.reader import Book, BookReader
from airflow_provider.agent_platform.operators.request import TrainingRequest
from airflow_provider.agent_platform.operators.result import TUNING, result_of
from airflow_provider.agent_platform.operators.starting_point import (
    StartingPoint,
    require_known,
    starting_point,
)
from airflow_provider.agent_platform.operators.steps import Carried, Done, Step, WaitForJob, WaitUntil
from airflow_provider.agent_platform.operators.submission import Submitter
from airflow_provider.agent_platform.operators.task import TaskFacts
from airflow_provider.agent_platform.operators.verdict import Verdict, Verdicts
from airflow_provider.agent_platform.policy.decide import Action, Decision, queue_deadline
from airflow_provider.agent_platform.policy.kinds import EndedBy
from airflow_provider.agent_platform.policy.ledger import JobRecord, Ledger, LedgerEntry
from airflow_provider.agent_platform.policy.placement import Placement, first_placement, next_placement
from airflow_provider.agent_platform.policy.states import JobState, is_live, is_success, state_name
from airflow_provider.agent_platform.triggers import events
from airflow_provider.agent_platform.triggers.clocks import Now, utcnow
from airflow_provider.agent_platform.triggers.trouble import Trouble, judge

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

LATE_ERROR_SECONDS: Final = 120.0
"""A FAILED job may show its error about a minute late; so long after its end an empty error is read again."""


class SupersededError(RuntimeError):
    """A later try of this task has a job of its own: this process outlived its try, and leaves everything to that one."""


@dataclass(kw_only=True)
class Lifecycle:
    """One start or resume of one try.

    :param request: what the user wants.
    :param task: who is running; its epoch is what the ledger says, once that was read.
    :param hook: talks to the service.
    :param verdicts: decides, and raises what Airflow has to hear.
    :param preparation: looks at checkpoints and writes payloads.
    :param log: the task's log.
    :param now: the clock.
    :param sleep: for the few waits that are too short to defer.
    :param job_name: the job the task runs or ran last; kept up to date for links, kills and the log.
    :param creating: a create call is in flight, so a job may exist whose name is not known.
    :param after_create: told the name of each job that was created.
    :param owner_try: asks Airflow which try owns the task's jobs now.
    """

    request: TrainingRequest
    task: TaskFacts
    hook: TrainingJobHook
    verdicts: Verdicts
    preparation: Preparation
    log: TaskLogger
    now: Now = utcnow
    sleep: Callable[[float], None] = time.sleep
    job_name: str | None = None
    creating: bool = False
    after_create: Callable[[str], None] = lambda _: None
    owner_try: Callable[[], int | None] = lambda: None
    reader: BookReader = field(init=False)
    _search: Callable[[], JobRecord | None] = field(init=False, default=lambda: None)

    def __post_init__(self) -> None:
        self.reader = BookReader(
            hook=self.hook,
            task=self.task,
            job_type=self.request.job_type,
            project_id=self.request.project_id,
            regions=self.request.placement.regions,
        )

    # -- the three ways in

    def start(self) -> Step:
        """Begin a try, or go on after a trigger vanished: nothing is known but what the platform tells."""
        book = self._read()
        points.passed(points.LEDGER_READ)
        return self._next(book, Carried())

    def resumed(self, event: events.TrainingJobEvent, *, stale: bool = False) -> Step:
        """Go on after a wait for a job.

        :param event: how the wait ended.
        :param stale: the job was of an earlier epoch; only its end mattered.
        """
        self.job_name = event.job_name
        points.passed(points.RESUMED)
        if event.message:
            # A job that could not be cancelled, for one: the trigger's own log is gone after the next deferral.
            self.log.warning("%s: %s", event.job_name, event.message)
        if event.type == events.REFUSED and not stale:
            # Before anything is read: that would be refused as well, with an error that does not tell of the job.
            raise self.verdicts.unreadable(event)
        book = self._read(event.job_name)
        points.passed(points.LEDGER_READ)
        if stale:
            return self._next(book, Carried())
        return self._next(self._with_event(book, event), Carried(), watched=event.job_name)

    def waited(self, carried: Carried) -> Step:
        """Go on after a wait without a job.

        :param carried: what was handed to that wait.
        """
        points.passed(points.REQUEUE_WAIT_ENDED)
        book = self._read()
        points.passed(points.LEDGER_READ)
        return self._next(book, carried, waited=True)

    def running(self) -> list[str]:
        """Return the names of the task's live jobs, oldest first; one whose create was interrupted is searched for."""
        found = self._search() if self.creating else None
        also = [name for name in (found.name if found else None, self.job_name) if name is not None]
        return [record.name for record in self.reader.read(also=also).current if is_live(record.state)]

    # -- one path

    def _next(
        self, book: Book, carried: Carried, *, watched: str | None = None, waited: bool = False
    ) -> Step:
        self._check_superseded(book)
        if book.stale:
            return self._end_stale(book)
        running = [record for record in book.current if _may_run(record)]
        if running and any(is_success(record.state) for record in book.current):
            for record in running:
                self.log.warning("%s is a second job of this task, which has succeeded.", record.name)
                self._cancel_once(record)
        elif running:
            # Where a next job would start is not asked while one is running: it costs a listing.
            return self._adopt(self._ledger(book, StartingPoint()))
        point = starting_point(book, self.request.resume, self.preparation.look)
        ledger = self._ledger(book, point)
        last = ledger.last
        if last is None:
            first = first_placement(self.request.placement)
            return self._submit(book, ledger, point, self._refused_on_to(first, carried), carried)
        self.job_name = last.record.name
        if is_success(last.record.state):
            return self._succeed(book, ledger)
        if watched != last.record.name and self._error_is_due(last.record):
            return WaitForJob(record=last.record, ledger=ledger)
        if carried.refusals and waited:
            # The last decision was about a refused create, and its wait is over.
            after = self._refused_on_to(self._placement_after(ledger, last), carried)
            return self._submit(book, ledger, point, after, carried)
        return self._decide(book, ledger, point, last, carried, waited=waited)

    def _decide(
        self,
        book: Book,
        ledger: Ledger,
        point: StartingPoint,
        last: LedgerEntry,
        carried: Carried,
        *,
        waited: bool,
    ) -> Step:
        own_try = last.record.try_number == self.task.try_number
        verdict = self.verdicts.on_end(ledger, last, own_try=own_try)
        points.passed(points.DECIDED)
        action = verdict.decision.action
        if not (waited and action is Action.REQUEUE):
            # Said and counted before the wait already.
            self._log_verdict(verdict, last.record.name)
            measures.ended(last)
            measures.decided(verdict, last.record.region)
        if action is not Action.FAIL and _still_there(last.record):
            # A clock ended, and the job has not ended yet: no second one beside it.
            self._cancel_once(last.record)
            return WaitForJob(record=last.record, ledger=ledger, stale=True)
        if action is Action.REQUEUE:
            moment = _due(last.record, verdict.decision)
            if not waited and moment is not None and moment > self.now():
                return WaitUntil(moment=moment, carried=carried)
        elif own_try:
            raise self.verdicts.error(verdict, last.record.name)
        else:
            # As if it had been raised in the try it belongs to: the task's policy, ours or the user's own, is asked.
            self.verdicts.ask_policy(verdict, last.record, ledger)
        placement = verdict.decision.placement or self._placement_after(ledger, last)
        return self._submit(book, ledger, point, placement, carried)

    def _submit(
        self,
        book: Book,
        ledger: Ledger,
        point: StartingPoint,
        placement: Placement,
        carried: Carried,
    ) -> Step:
        self._check_execution_deadline()
        require_known(point, self.request.resume)
        job = self.preparation.payload(ledger, point, placement, self.task)
        submitter = Submitter(hook=self.hook, reader=self.reader, log=self.log, sleep=self.sleep)
        known = {record.name for record in (*book.current, *book.others)}
        self.creating, self._search = True, lambda: submitter.find(known)
        # Not in a finally: an alarm or a kill in the middle of the call leaves a create whose answer nobody read.
        try:
            record = submitter.submit(job, region=placement.region, known=known)
        except Exception as error:
            self.creating = False
            if isinstance(error, (ConfigurationError, SpecError)):
                raise  # for a person to correct: the service was not asked
            return self._refused(ledger, error, placement, carried)
        self.creating = False
        self.job_name = record.name
        self.after_create(record.name)
        self.preparation.log_submit(record, job, point)
        warn_of_neighbours(self.hook, request=self.request, identity=self.task.identity, log=self.log)
        book = self._read_again(record)
        points.passed(points.LEDGER_READ_AGAIN)
        self._check_superseded(book, made=record)
        self._cancel_stale(book)  # one that the list did not show before
        return self._adopt(self._ledger(book, point), fresh=record.name)

    def _refused(self, ledger: Ledger, error: Exception, placement: Placement, carried: Carried) -> Step:
        now = self.now()
        carried = Carried(
            refusals=carried.refusals + 1,
            waiting_since=carried.waiting_since or now.isoformat(),
        )
        verdict = self.verdicts.on_refusal(ledger, error, placement, carried)
        points.passed(points.DECIDED)
        self._log_verdict(verdict, None)
        measures.decided(verdict, placement.region)
        if verdict.decision.action is not Action.REQUEUE:
            raise self.verdicts.error(verdict, None) from error
        if verdict.decision.placement is not None:
            carried = replace(carried, region=verdict.decision.placement.region)
        return WaitUntil(moment=verdict.decision.at or now, carried=carried)

    def _adopt(self, ledger: Ledger, *, fresh: str | None = None) -> Step:
        """Wait for the oldest live job; a second one (a lost reply, a lagging list) is cancelled."""
        live = [entry.record for entry in ledger.live]
        if not live:
            # It ended while we looked.
            last = ledger.last
            assert last is not None
            return WaitForJob(record=last.record, ledger=ledger)
        running = [record for record in live if record.state != JobState.CANCELLING]
        keep = (running or live)[0]
        for other in running[1:]:
            self.log.warning("%s is a second job of this task; %s is older and stays.", other.name, keep.name)
            self._cancel(other)
            points.passed(points.DUPLICATE_CANCELLED)
        self.job_name = keep.name
        if keep.name != fresh:
            self.log.info(
                "Adopted %s (%s, submitted by try %d): nothing is submitted. %s",
                keep.name,
                state_name(keep.state),
                keep.try_number,
                console_url(keep.name),
            )
        deadline = queue_deadline(ledger, self.request.budget, self.now())
        points.passed(points.BEFORE_DEFER)
        return WaitForJob(record=keep, ledger=ledger, queue_deadline=deadline)

    def _end_stale(self, book: Book) -> Step:
        """A clear came while a job was running: end it first, two jobs would write to one checkpoint folder."""
        self._cancel_stale(book)
        oldest = book.stale[0]
        self._check_execution_deadline(ending=oldest.name)
        self.job_name = oldest.name
        return WaitForJob(record=oldest, ledger=Ledger(), stale=True)

    def _succeed(self, book: Book, ledger: Ledger) -> Done:
        entry = ledger.last
        assert entry is not None
        measures.ended(entry)
        checkpoint = self.preparation.newest_of(book)
        message = book.messages[entry.record.name]
        if self.request.job_type == TUNING and not message.trials:
            message = self.hook.get(entry.record.name)  # a list may leave them out
        self.log.info("%s succeeded. %s", entry.record.name, console_url(entry.record.name))
        return Done(result=result_of(message, ledger, self.request, checkpoint))

    # -- reading

    def _read(self, *also: str) -> Book:
        try:
            book = self.reader.read(also=also)
        except Exception as error:
            if judge(error)[0] is not Trouble.REFUSED:
                raise
            raise self.verdicts.unlisted(error) from error
        self.task = replace(self.task, epoch=book.epoch)
        return book

    def _ledger(self, book: Book, point: StartingPoint) -> Ledger:
        # Where a lost job started is gone with it: what is there now was reached by those before it.
        records = (
            replace(record, resume_step=point.step) if record.ended_by is EndedBy.LOST else record
            for record in book.current
        )
        return Ledger.of(
            records,
            newest_step=point.step,
            rules=tuple(self.request.failure_rules),
            now=self.now(),
        )

    def _read_again(self, record: JobRecord) -> Book:
        """Read the book after a submit. A list that does not show the new job yet cannot show a duplicate either."""
        book = self.reader.read(also=[record.name])
        if record.name in book.gone:
            return Book(current=(*book.current, record), others=book.others)
        return book

    def _with_event(self, book: Book, event: events.TrainingJobEvent) -> Book:
        """Add to the book what only the trigger knows: which clock ended, or that the job is gone."""
        if event.job_name in book.gone:
            name = JobName.parse(event.job_name)
            lost = JobRecord(
                name=event.job_name,
                region=name.region,
                job_type=name.job_type,
                state=JobState.UNSPECIFIED if event.state is None else event.state,
                epoch=self.task.epoch,
                try_number=self.task.try_number,
                run_index=len(book.current),
                ended_by=EndedBy.LOST,
                create_time=self.now(),
                end_time=self.now(),
            )
            kept = tuple(record for record in book.current if record.name != event.job_name)
            return replace(book, current=(*kept, lost))
        if event.type in (events.ENDED, events.LOST):
            # Called lost and here all the same: it was asked for just now, and that answer counts.
            return book
        ended_by = EndedBy(event.type)
        current = tuple(
            replace(record, ended_by=ended_by)
            if record.name == event.job_name and not is_success(record.state)
            else record
            for record in book.current
        )
        return replace(book, current=current)

    def _error_is_due(self, record: JobRecord) -> bool:
        if record.state != JobState.FAILED or record.error_code is not None or record.end_time is None:
            return False
        return self.now() < record.end_time.add(seconds=int(LATE_ERROR_SECONDS))

    # -- acting

    def _check_superseded(self, book: Book, *, made: JobRecord | None = None) -> None:
        """A worker that was cut off from Airflow may outlive its try: the job of the try that followed is not its own.

        :param made: what this try has just submitted.
        """
        successor = book.successor(self.task.try_number)
        if successor is None or not self._is_over():
            return
        if made is not None:
            self._cancel(made)
        raise SupersededError(
            f"{successor.name} belongs to try {successor.try_number} of this task, after a clear; this is try "
            f"{self.task.try_number}, which is over. Nothing of that job was touched"
            + (
                f"; {made.name}, submitted a moment ago, was cancelled."
                if made
                else ", and nothing submitted."
            )
        )

    def _is_over(self) -> bool:
        """Whether another try has taken over; not so where Airflow's database was lost and its tries begin at 1 again."""
        try:
            owner = self.owner_try()
        except Exception as error:
            self.log.warning("Airflow does not tell which try owns the jobs of this task: %s", error)
            return True
        return owner is not None and owner > self.task.try_number

    def _cancel_stale(self, book: Book) -> None:
        for record in book.stale:
            if record.state != JobState.CANCELLING:
                self.log.info(
                    "%s belongs to the run before the task was cleared: cancelling it.", record.name
                )
                self._cancel(record)
            points.passed(points.STALE_CANCELLED)

    def _cancel_once(self, record: JobRecord) -> None:
        if record.state != JobState.CANCELLING:
            self._cancel(record)

    def _cancel(self, record: JobRecord) -> None:
        try:
            self.hook.cancel(record.name)
        except Exception as error:
            if not is_gone(error):
                raise
            self.log.info("%s is gone already.", record.name)

    def _check_execution_deadline(self, *, ending: str | None = None) -> None:
        """Between two jobs nobody else holds ``execution_timeout``; while a job is live its trigger does."""
        deadline = self.task.execution_deadline
        if deadline is not None and self.now() >= deadline:
            raise self.verdicts.out_of_time(deadline, ending=ending)

    def _placement_after(self, ledger: Ledger, last: LedgerEntry) -> Placement:
        options = self.request.placement
        after = next_placement(ledger, last.outcome, options) if last.outcome is not None else None
        return after or Placement(
            region=last.record.region,
            machine_type=None,
            strategy=options.strategy,
        )

    def _refused_on_to(self, placement: Placement, carried: Carried) -> Placement:
        """Where a job goes whose create was refused: no job tells it, so the wait carried it."""
        if carried.region not in self.request.placement.regions:
            return placement
        return replace(placement, region=carried.region)

    def _log_verdict(self, verdict: Verdict, job_name: str | None) -> None:
        level = logging.INFO if verdict.decision.action is Action.REQUEUE else logging.WARNING
        self.log.log(level, "%s", verdict.line(job_name))


def _due(record: JobRecord, decision: Decision) -> pendulum.DateTime | None:
    """When a requeued job is due: counted from the end of the last one, so that a crash in the wait extends nothing."""
    if decision.delay is None or record.end_time is None:
        return decision.at
    return record.end_time + decision.delay


def _still_there(record: JobRecord) -> bool:
    return is_live(record.state) and record.ended_by is not EndedBy.LOST


def _may_run(record: JobRecord) -> bool:
    return is_live(record.state) and record.ended_by is None
