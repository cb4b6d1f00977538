"""
Numbers as a person writes them.

Enters: a number. Leaves: words. Not here: sentences (``decide``, ``report``).
"""

from __future__ import annotations

import pendulum


def seconds_in_words(seconds: float) -> str:
    """
    A duration in its two largest units: "2 h 5 min", "40 s"; whole seconds, rounded.

    Not pendulum's ``in_words``: that speaks the language of the process's locale, and logs are searched.

    :param seconds: how long; negative is taken as 0.
    """
    whole = pendulum.duration(seconds=round(max(0.0, seconds)))
    parts = [
        (whole.days, "d"),
        (whole.hours, "h"),
        (whole.minutes, "min"),
        (whole.remaining_seconds, "s"),
    ]
    named = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(named[:2]) or "0 s"


def count_of(number: int, noun: str) -> str:
    """A number with its noun: "1 run", "4 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
