"""
What an exit code means: data for hints and messages.

Enters: a number. Leaves: a phrase and, where a signal ended the process, its name. Not here: which kind of
failure a code is (``table``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SIGNALS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        1: ("SIGHUP", "hang-up"),
        2: ("SIGINT", "interrupted"),
        3: ("SIGQUIT", "quit"),
        4: ("SIGILL", "illegal instruction"),
        6: ("SIGABRT", "aborted"),
        7: ("SIGBUS", "bus error, often too small a /dev/shm"),
        8: ("SIGFPE", "arithmetic error"),
        9: ("SIGKILL", "killed, often for its use of memory"),
        11: ("SIGSEGV", "segmentation fault"),
        13: ("SIGPIPE", "broken pipe"),
        15: ("SIGTERM", "asked to stop"),
    }
)
"""Linux signal numbers: name and what it says to a person."""

_SIGNAL_BASE = 128
"""A shell and a container runtime report a process ended by signal n as 128 + n."""

_MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        1: "general error",
        2: "wrong usage, often a bad command-line argument",
        75: "temporary failure",
        126: "the command is not executable",
        127: "command not found",
        128: "the container could not be started",
    }
)

# Google's table of common errors lists 6 and 11 beside 134 and 139: prebuilt containers report the bare
# signal.
_BARE_SIGNALS = frozenset({6, 11})


def signal_of(exit_code: int) -> str | None:
    """
    Name the signal that an exit code stands for.

    :param exit_code: as the platform reports it: 139, and the bare 6 and 11 of prebuilt containers; negative
        as Python does.
    :return: "SIGSEGV"; None when no signal is behind it.
    """
    if exit_code in _BARE_SIGNALS:
        number = exit_code
    elif exit_code < 0:
        number = -exit_code
    else:
        number = exit_code - _SIGNAL_BASE
    known = SIGNALS.get(number)
    return known[0] if known else None


def meaning_of(exit_code: int, signal: str | None = None) -> str:
    """
    Say what an exit code means.

    :param exit_code: the number.
    :param signal: the signal's name where the platform gave one ("9(SIGKILL)").
    :return: "139 = segmentation fault (SIGSEGV)"; just the number when nothing is known about it.
    """
    name = signal or signal_of(exit_code)
    if name is not None:
        phrase = next(
            (words for its_name, words in SIGNALS.values() if its_name == name), "ended by a signal"
        )
        return f"{exit_code} = {phrase} ({name})"
    known = _MEANINGS.get(exit_code)
    return f"{exit_code} = {known}" if known else str(exit_code)
