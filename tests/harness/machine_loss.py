"""Take the Spot machine of a running training away, in the middle and for good.

In: a job that trains ``dags/training/digits.py``. Out: faults set in the emulator. Used by the demo and by
the system tests.

Alone, a preemption would not end the job: the service itself looks for another machine, up to six times.
What ends a job in practice is that there is none to be had, so the region runs out of them for this one job
first.
"""

from __future__ import annotations

import re
from typing import Any

from tests.harness.emulator_api import EmulatorApi

_SAVED = re.compile(r"saved a checkpoint at step (\d+)")
_STOPPED = re.compile(r"told to stop at step (\d+)")
_RESUMED = re.compile(r"resuming from step (\d+)")


def saved_steps(lines: list[str]) -> list[int]:
    """Return the steps of the checkpoints that the training says it has saved."""
    return [int(found.group(1)) for line in lines if (found := _SAVED.search(line))]


def stopped_at(lines: list[str]) -> int | None:
    """Return the step at which the training was told to stop, if it was."""
    return next((int(found.group(1)) for line in lines if (found := _STOPPED.search(line))), None)


def resumed_from(lines: list[str]) -> int | None:
    """Return the step that the training says it goes on from, if it does."""
    return next((int(found.group(1)) for line in lines if (found := _RESUMED.search(line))), None)


def take_machine_away(api: EmulatorApi, job: dict[str, Any]) -> None:
    """Preempt the job now, and let it find no other machine."""
    match = {"job": str(job["name"]).rpartition("/")[2]}
    api.add_fault("stockout", match=match, times=None)
    api.add_fault("preempt", match=match)
