"""What an exit code says to a person."""

from __future__ import annotations

import signal

import pytest

from airflow_provider.agent_platform.policy.exit_codes import SIGNALS, meaning_of, signal_of


@pytest.mark.parametrize(
    ("code", "name"),
    [(134, "SIGABRT"), (139, "SIGSEGV"), (137, "SIGKILL"), (143, "SIGTERM"), (6, "SIGABRT"), (11, "SIGSEGV"),
     (-9, "SIGKILL"), (1, None), (2, None), (9, None), (127, None), (128, None), (255, None), (0, None)],
)  # fmt: skip
def test_a_signal_is_known_by_its_exit_code(code: int, name: str | None) -> None:
    assert signal_of(code) == name


def test_the_numbers_of_the_signals_are_those_of_the_machine() -> None:
    assert {number: name for number, (name, _) in SIGNALS.items()} == {
        number: signal.Signals(number).name for number in SIGNALS
    }


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (139, "139 = segmentation fault (SIGSEGV)"),
        (134, "134 = aborted (SIGABRT)"),
        (137, "137 = killed, often for its use of memory (SIGKILL)"),
        (135, "135 = bus error, often too small a /dev/shm (SIGBUS)"),
        (1, "1 = general error"),
        (2, "2 = wrong usage, often a bad command-line argument"),
        (75, "75 = temporary failure"),
        (126, "126 = the command is not executable"),
        (127, "127 = command not found"),
        (128, "128 = the container could not be started"),
        (42, "42"),
    ],
)
def test_an_exit_code_has_a_meaning(code: int, text: str) -> None:
    assert meaning_of(code) == text


def test_the_platforms_own_name_of_a_signal_goes_before_ours() -> None:
    assert meaning_of(9, "SIGKILL") == "9 = killed, often for its use of memory (SIGKILL)"
    assert meaning_of(31, "SIGSYS") == "31 = ended by a signal (SIGSYS)"
