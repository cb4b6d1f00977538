"""What a trial has reported: from the metric file to measurements, and which of them counts.

In: the text of the file that the cloudml-hypertune package writes, one JSON object a line. Out:
measurements, in order of step and time. A line that cannot be read is left out: the file is rewritten as a
whole while it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_FILE = 10_000_000
"""Bytes read of a metric file: the package keeps a hundred lines."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The metrics of one step.

    :param elapsed: seconds since the trial began.
    """

    step: int
    elapsed: float
    metrics: Mapping[str, float]


def read(text: str, metric_ids: Sequence[str], *, started: float) -> list[Measurement]:
    """Measurements of a file's text.

    :param metric_ids: the study's metrics; others are left out.
    :param started: when the trial began, seconds since the epoch.
    """
    found: dict[int, tuple[float, dict[str, float]]] = {}
    for line in _lines(text):
        step = _number(line.get("global_step"))
        metrics = {name: value for name in metric_ids if (value := _number(line.get(name))) is not None}
        if not metrics:
            continue
        elapsed = max(0.0, (_number(line.get("timestamp")) or started) - started)
        at = max(0, int(step or 0))
        _, known = found.get(at, (0.0, {}))
        # The package writes one line for each metric of a step; the newest value of a metric counts.
        found[at] = (elapsed, {**known, **metrics})
    return [
        Measurement(step=step, elapsed=elapsed, metrics=metrics)
        for step, (elapsed, metrics) in sorted(found.items())
    ]


def _lines(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def final(
    measurements: Sequence[Measurement], metric_ids: Sequence[str], *, best: bool, maximize: bool
) -> Measurement | None:
    """The measurement that counts.

    :param best: the best one of the first metric; otherwise the last one.
    :return: None where no measurement has all the metrics: the trial is infeasible.
    """
    complete = [one for one in measurements if all(name in one.metrics for name in metric_ids)]
    if not complete:
        return None
    if not best:
        return complete[-1]
    sign = 1 if maximize else -1
    return max(complete, key=lambda one: sign * one.metrics[metric_ids[0]])
