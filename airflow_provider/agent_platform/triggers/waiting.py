"""Waiting in the worker itself (``deferrable=False``): the same clocks, words and tolerance as the trigger.

In: a hook, a job's name, its clocks. Out: the same event a trigger would have sent. It holds a worker slot meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider.agent_platform.triggers.clocks import Clocks, Now, utcnow
from airflow_provider.agent_platform.triggers.events import TrainingJobEvent

if TYPE_CHECKING:
    from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook


def wait_for_job(
    hook: TrainingJobHook,
    job_name: str,
    *,
    clocks: Clocks,
    poll_interval: float = 30.0,
    cancel_bound: float = 300.0,
    log: logging.Logger | None = None,
    now: Now = utcnow,
    sleep: Callable[[float], None] = time.sleep,
) -> TrainingJobEvent:
    """Wait until the job ends or a clock does; then the job is cancelled and its end awaited within ``cancel_bound``.

    :param hook: talks to the service, synchronously.
    :param job_name: full resource name.
    :param clocks: the limits.
    :param poll_interval: seconds between two reads.
    :param cancel_bound: seconds to wait for the end of a job whose clock ended.
    :param log: where the changes of state are written; the task's logger by default.
    """
    raise NotImplementedError
