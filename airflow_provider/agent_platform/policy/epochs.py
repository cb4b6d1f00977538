"""
Which of a task's jobs belong to the tries since the last clear by a user.

In: all jobs of a task instance, and what Airflow says of the try at hand. Out: the number of its epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.agent_platform.policy.job import JobRecord


def current_epoch(records: Iterable[JobRecord], *, max_tries: int, first_guess: int) -> int:
    """
    The epoch of a try: that of the jobs submitted under the same ``ti.max_tries``, or else a new one.

    A clear sets ``max_tries = try_number + retries`` and a retry leaves it, so that jobs with the same value are of
    one epoch. ``max_tries - retries`` alone does not tell: somebody may have changed ``retries`` in the DAG while a
    job was running, and its own try would take it for another's.

    :param records: of all epochs.
    :param max_tries: ``ti.max_tries``.
    :param first_guess: ``max_tries - retries``, the number of a new epoch unless it is taken.
    """
    known = list(records)
    # A job without the label (somebody removed it) has but the number of its epoch.
    same = [record for record in known if record.max_tries in (max_tries, None)]
    told = [record.epoch for record in same if record.max_tries is not None or record.epoch == first_guess]
    if told:
        return max(told)
    taken = [record.epoch for record in known]
    return first_guess if first_guess not in taken else max(taken) + 1
