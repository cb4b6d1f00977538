"""When a trial should stop early, and when a study should.

In: measurements and counts. Out: yes or no. The median rule and the study's conditions follow the comments of
``study.proto``; where those leave a number open, it is named here.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.agent_platform.emulator.tuning.measurements import Measurement

MINIMUM_COMPLETED = 2
"""Completed trials before the median means something; not documented."""


def median_says_stop(
    running: Sequence[Measurement],
    completed: Sequence[Sequence[Measurement]],
    metric: str,
    *,
    maximize: bool,
    by_duration: bool,
) -> bool:
    """The median rule.

    A trial stops when its best value is strictly worse than the median of the completed trials' running
    averages up to the trial's last measurement.

    :param running: measurements of the trial in question.
    :param completed: those of each completed trial.
    :param by_duration: "up to" goes by elapsed time and not by steps.
    """
    sign = 1.0 if maximize else -1.0
    place: Callable[[Measurement], float] = (
        (lambda one: one.elapsed) if by_duration else (lambda one: one.step)
    )
    own = [one for one in running if metric in one.metrics]
    if not own:
        return False
    last = place(own[-1])
    averages = []
    for trial in completed:
        values = [sign * one.metrics[metric] for one in trial if metric in one.metrics and place(one) <= last]
        if values:
            averages.append(statistics.fmean(values))
    if len(averages) < MINIMUM_COMPLETED:
        return False
    return max(sign * one.metrics[metric] for one in own) < statistics.median(averages)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a study is.

    :param trials: trials suggested so far.
    :param completed: trials that have ended with a result.
    :param elapsed: seconds of the platform since the study began.
    :param now: seconds since the epoch.
    :param without_progress: completed trials since the best one.
    :param seconds_without_progress: seconds of the platform since the best one.
    """

    trials: int
    completed: int
    elapsed: float
    now: float
    without_progress: int
    seconds_without_progress: float


def study_should_stop(config: Any, progress: Progress) -> bool:
    """``study_stopping_config``: the minimum conditions first, then whichever limit is reached."""
    if config.HasField("minimum_runtime_constraint") and not _over(
        config.minimum_runtime_constraint, progress
    ):
        return False
    if config.HasField("min_num_trials") and progress.completed < config.min_num_trials.value:
        return False
    return (
        (config.HasField("maximum_runtime_constraint") and _over(config.maximum_runtime_constraint, progress))
        or (config.HasField("max_num_trials") and progress.trials >= config.max_num_trials.value)
        or (
            config.HasField("max_num_trials_no_progress")
            and progress.without_progress >= config.max_num_trials_no_progress.value
        )
        or (
            config.HasField("max_duration_no_progress")
            and progress.seconds_without_progress
            >= config.max_duration_no_progress.ToTimedelta().total_seconds()
        )
    )


def _over(constraint: Any, progress: Progress) -> bool:
    if constraint.HasField("end_time"):
        return bool(progress.now >= constraint.end_time.ToNanoseconds() / 1e9)
    return bool(progress.elapsed >= constraint.max_duration.ToTimedelta().total_seconds())
