"""Waiting in the worker itself (``deferrable=False``): the same clocks, words and tolerance as the trigger.

In: a hook, a job's name, its clocks. Out: the same event a trigger would have sent. It holds a worker slot
meanwhile, and reads its one job with Get: there is nobody to share a list with.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pendulum
import tenacity

from airflow_provider.agent_platform.compat import TaskLogger
from airflow_provider.agent_platform.triggers import pace, trouble
from airflow_provider.agent_platform.triggers.clocks import Clocks, Now, utcnow
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent
from airflow_provider.agent_platform.triggers.subscription import JobGoneError
from airflow_provider.agent_platform.triggers.trouble import Outage, PollRefusedError
from airflow_provider.agent_platform.triggers.view import JobView
from airflow_provider.agent_platform.triggers.watch import Do, JobWatch

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook

CALL_SECONDS: Final = 20.0
MISSES: Final = 2
MISS_PAUSE: Final = 2.0


def wait_for_job(
    hook: TrainingJobHook,
    job_name: str,
    *,
    clocks: Clocks,
    poll_interval: float = 30.0,
    cancel_bound: float = 300.0,
    log: TaskLogger | None = None,
    on_change: Callable[[JobView], object] | None = None,
    now: Now = utcnow,
    sleep: Callable[[float], None] = time.sleep,
) -> TrainingJobEvent:
    """Wait until the job ends or a clock does; then it is cancelled and its end awaited within a bound.

    :param hook: talks to the service, synchronously.
    :param job_name: full resource name.
    :param clocks: the limits.
    :param poll_interval: seconds between two reads.
    :param cancel_bound: seconds to wait for the end of a job whose clock ended.
    :param log: where the changes of state are written; this module's logger by default.
    :param on_change: called with each new state, for example to write the live XCom.
    """
    return _Wait(
        hook,
        job_name,
        clocks=clocks,
        poll_interval=poll_interval,
        cancel_bound=cancel_bound,
        log=log or logging.getLogger(__name__),
        on_change=on_change,
        now=now,
        sleep=sleep,
    ).run()


class _Wait:
    def __init__(
        self,
        hook: TrainingJobHook,
        job_name: str,
        *,
        clocks: Clocks,
        poll_interval: float,
        cancel_bound: float,
        log: TaskLogger,
        on_change: Callable[[JobView], object] | None,
        now: Now,
        sleep: Callable[[float], None],
    ) -> None:
        self._hook = hook
        self._name = job_name
        self._interval = poll_interval
        self._log = log
        self._on_change = on_change
        self._now = now
        self._sleep = sleep
        self._outage = Outage(job_name, log)
        self._began = now()
        # Nobody is resumed here, so Airflow's race with a resume cannot happen: no quiet time.
        self._watch = JobWatch(
            job_name, clocks=clocks, cancel_bound=cancel_bound, began=self._began, quiet=0.0
        )

    def run(self) -> TrainingJobEvent:
        watch = self._watch
        while True:
            step = watch.step(self._now())
            for line in watch.take_lines():
                self._log.log(line.level, line.text)
            if step.event is not None:
                return step.event
            if step.do is Do.CANCEL:
                self._cancel()
            elif step.do is Do.READ:
                self._read(fresh=True)
            else:
                if watch.view is not None:
                    self._pause(step.until)
                self._read_patiently(step.until)

    def _pause(self, until: pendulum.DateTime | None) -> None:
        now = self._now()
        view = self._watch.view
        pause = pace.seconds_to_next(
            interval=self._interval,
            youngest=(now - self._began).total_seconds(),
            quiet_for=0.0,
            all_queued=False,
            random=random.random(),  # noqa: S311 - jitter is no secret
        )
        if view is not None and view.start_time is not None and not view.ended:
            pause = max(pause, self._interval * (1.0 - pace.JITTER))
        if until is not None:
            pause = min(pause, max(0.0, (until - now).total_seconds()))
        self._sleep(pause)

    def _read_patiently(self, until: pendulum.DateTime | None) -> None:
        """Read until it works, or until there is something else to decide."""

        def over(state: tenacity.RetryCallState) -> bool:
            return until is not None and self._now() >= until

        reading = tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda error: trouble.repeatable(error, JobGoneError, PollRefusedError)
            ),
            wait=tenacity.wait_exponential_jitter(initial=2, max=60, jitter=2),
            stop=over,
            sleep=lambda seconds: self._sleep(self._at_most(seconds, until)),
            reraise=True,
        )
        try:
            self._take(reading(self._once), fresh=False)
        except JobGoneError as error:
            self._watch.gone(str(error))
        except PollRefusedError as error:
            self._watch.refused(error.code, error.message)
        except Exception as error:
            self._log.debug("%s could not be read: %s", self._name, trouble.brief(error))

    def _read(self, *, fresh: bool) -> None:
        try:
            self._take(self._once(), fresh=fresh)
        except JobGoneError as error:
            self._watch.gone(str(error))
        except PollRefusedError as error:
            self._watch.refused(error.code, error.message)
        except Exception as error:
            self._watch.read_failed(trouble.brief(error), self._now())

    def _once(self) -> JobView:
        for miss in range(MISSES):
            try:
                view = JobView.of(self._hook.get(self._name, timeout=CALL_SECONDS))
            except Exception as error:
                if not trouble.is_gone(error):
                    refused = self._outage.failed(error, self._now().timestamp())
                    if refused is not None:
                        raise refused from error
                    raise
                if miss + 1 < MISSES:
                    self._sleep(MISS_PAUSE)
            else:
                self._outage.worked()
                return view
        raise JobGoneError(f"{self._name} does not exist (any more)")

    def _take(self, view: JobView, *, fresh: bool) -> None:
        if self._watch.observe(view, self._now(), fresh=fresh) and self._on_change is not None:
            self._on_change(view)

    def _cancel(self) -> None:
        try:
            self._hook.cancel(self._name, timeout=CALL_SECONDS)
        except Exception as error:
            self._watch.cancel_failed(trouble.brief(error), self._now())
            self._read(fresh=False)
        else:
            self._watch.cancel_sent()

    def _at_most(self, seconds: float, until: pendulum.DateTime | None) -> float:
        if until is None:
            return seconds
        return min(seconds, max(0.1, (until - self._now()).total_seconds()))
