"""While a job runs: warn when its newest checkpoint grows old, and report the age as a metric.

Started beside the wait for a job and cancelled with it. Never raises, never ends anything, looks at most
sixteen times in an interval, in a thread, shared by all who wait for the same base directory.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any

import pendulum

from airflow_provider.agent_platform.checkpoints.looks import (
    Place,
    Prepare,
    Scan,
    gist,
    seconds_ago,
    shared_look,
)
from airflow_provider.agent_platform.checkpoints.store import CheckpointScan, scan
from airflow_provider.agent_platform.checkpoints.store.base import ClientFactory, utc_now

log = logging.getLogger(__name__)

LOOK_SECONDS = 180.0
"""Least pause between two looks at one base directory, unless `checkpoint_interval` is shorter."""

LOOKS_PER_INTERVAL = 16
"""With a long `checkpoint_interval` the pause is this part of it: a look costs 2 ms of processor time, which for a
thousand jobs is more than all their polls."""

LEAST_SECONDS = 5.0
"""The shortest pause, for a very short `checkpoint_interval`."""

METRIC = "agent_platform.checkpoint.age_seconds"

SKEW_SECONDS = 300.0
"""A checkpoint from this far in the future means that one of the clocks is wrong."""

Log = Callable[[int, str], object]
"""Writes one line: a level of `logging`, and the text."""


def gauge(value: float, tags: Mapping[str, str]) -> None:
    """Report the age to Airflow's metrics. Never raises: a number is not worth a watch."""
    try:
        _stats().gauge(METRIC, value, tags=dict(tags))
    except Exception:
        log.debug("The age of a checkpoint could not be reported", exc_info=True)


def _stats() -> Any:
    try:
        from airflow.sdk.observability import stats
    except ImportError:  # Airflow before 3.2
        from airflow.stats import Stats

        return Stats
    return stats


class AgeWatch:
    """What is to be said about one scan after the other. No I/O but the log and the metric it is given.

    :param checkpoint_interval: seconds.
    :param running_since: when the job began to run: a checkpoint of an earlier job is not old while this one
        was waiting for its machine.
    """

    def __init__(
        self,
        base_output_directory: str,
        checkpoint_interval: float,
        running_since: pendulum.DateTime,
        log: Log,
    ) -> None:
        self.base_output_directory = base_output_directory
        self.checkpoint_interval = checkpoint_interval
        self.running_since = running_since
        self._log = log
        self._warned_for: pendulum.DateTime | None = None
        self._said: set[str] = set()

    def see(self, found: CheckpointScan, now: pendulum.DateTime) -> float | None:
        """Log what has to be said about a scan, each thing once.

        :return: the age of the newest checkpoint in seconds; None when it is not known. Before the first
            checkpoint: the time since the job began to run.
        """
        if found.problem:
            self._once(logging.WARNING, f"Checkpoints of {self.base_output_directory}: {found.problem}.")
        if found.newest is None and not found.known:
            return None
        latest = found.latest_time
        if latest is not None and latest > now.add(seconds=SKEW_SECONDS):
            self._once(
                logging.WARNING,
                f"The newest checkpoint below {self.base_output_directory} is from the future ({latest}): "
                "the clock of this machine or of the store is wrong, so its age is not known.",
            )
            return None
        since = self.running_since if latest is None else max(latest, self.running_since)
        age = max(0.0, (now - since).total_seconds())
        if age >= self.checkpoint_interval and self._warned_for != since:
            self._warned_for = since
            self._log(logging.WARNING, self._warning(found, age))
        return age

    def _warning(self, found: CheckpointScan, age: float) -> str:
        limit = pendulum.duration(seconds=self.checkpoint_interval).in_words()
        lost = pendulum.duration(seconds=int(age)).in_words()
        if found.newest is None or found.latest_time is None or found.latest_time < self.running_since:
            text = f"The job has run for {lost} without a new complete checkpoint below "
            text += self.base_output_directory
        else:
            step = "" if found.newest.step is None else f" (step {found.newest.step})"
            text = f"The newest complete checkpoint, {found.newest.uri}{step}, is {lost} old"
        text += f"; checkpoint_interval is {limit}. What was trained since is lost if the machine is."
        for item in found.incomplete_newer[:1]:
            text += f" {item.uri} is not complete: {item.why}."
        return text

    def _once(self, level: int, text: str) -> None:
        if gist(text) not in self._said:
            self._said.add(gist(text))
            self._log(level, text)


def pause_between_looks(checkpoint_interval: float, look_seconds: float = LOOK_SECONDS) -> float:
    """Return the seconds between two looks.

    :param checkpoint_interval: seconds.
    :param look_seconds: the least pause.
    """
    wanted = max(look_seconds, checkpoint_interval / LOOKS_PER_INTERVAL)
    return max(LEAST_SECONDS, min(wanted, checkpoint_interval))


async def watch_checkpoints(
    base_output_directory: str,
    *,
    checkpoint_interval: float,
    running_since: pendulum.DateTime,
    client_factory: ClientFactory | None = None,
    identity: Hashable = None,
    prepare: Prepare | None = None,
    log: Log | None = None,
    tags: Mapping[str, str] | None = None,
    recognisers: Sequence[str] = (),
    look_seconds: float = LOOK_SECONDS,
    now: Callable[[], pendulum.DateTime] = utc_now,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    report: Callable[[float, Mapping[str, str]], object] = gauge,
    scan: Scan = scan,
) -> None:
    """Watch the checkpoints of a running job until cancelled.

    Run it as a task beside the wait, from RUNNING on, and cancel it when the wait ends. It raises nothing but
    `asyncio.CancelledError`.

    :param base_output_directory: of the job; nothing is done when it is empty.
    :param checkpoint_interval: seconds after which a missing new checkpoint is warned of, once until a newer
        one comes.
    :param running_since: when the job became RUNNING.
    :param client_factory: `TrainingJobHook.storage_client`; called in a thread.
    :param identity: connection id and impersonation chain, as in `Place`.
    :param prepare: `TrainingJobHook.aload_connection` of the same hook; awaited before the first look.
    :param log: writes one line; default: this module's logger.
    :param tags: of the metric, e.g. ``{"dag_id": ..., "task_id": ...}``.
    """
    if not base_output_directory or checkpoint_interval <= 0:
        return
    write = log or logging.getLogger(__name__).log
    watch = AgeWatch(base_output_directory, checkpoint_interval, running_since, write)
    pause = pause_between_looks(checkpoint_interval, look_seconds)
    place = Place(
        base_output_directory=base_output_directory.rstrip("/"),
        identity=identity,
        recognisers=tuple(recognisers),
    )
    with shared_look(place, client_factory, prepare=prepare, scan=scan) as shared:
        while True:
            # A little apart, so that a hundred jobs that started together do not look together.
            await sleep(pause * random.uniform(0.9, 1.1))  # noqa: S311 - not a secret
            try:
                age = watch.see(await shared.look(not_before=seconds_ago(pause * 0.9)), now())
                if age is not None:
                    report(age, tags or {})
            except Exception as error:
                # A watch that fails must not fail the wait it accompanies.
                text = f"Watching checkpoints failed, it goes on: {type(error).__name__}: {error}"
                write(logging.WARNING, text)
                await sleep(pause)
