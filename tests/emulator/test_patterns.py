"""Regular expressions of clients: what they find, and that none of them runs for ever."""

from __future__ import annotations

import gc
import time

import psutil
import pytest

from airflow_provider.agent_platform.emulator import patterns
from airflow_provider.agent_platform.emulator.errors import ApiError


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("loss", "step 1 loss 2", True),
        ("^loss", "step 1 loss 2", False),
        ("loss [0-9]+$", "step 1 loss 2", True),
        ("(epoch|step) 1", "step 1 loss 2", True),
        ("(epoch|step) 2", "step 1 loss 2", False),
        ("(?i)LOSS", "step 1 loss 2", True),
        ("größe=\\d+", "größe=5 💩", True),
        ("a.*b", "a\nb", False),
        ("a+", "", False),
    ],
)
def test_a_pattern_is_searched_anywhere_in_the_text(pattern: str, text: str, found: bool) -> None:
    assert patterns.search(pattern)(text) is found


@pytest.mark.parametrize("pattern", ["(", "*", "[", "(?P<x", "a{99999999999999}", "(" * 5_000])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError, match="no regular expression"):
        patterns.search(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "a*a*a*a*a*a*a*b", "(a|a)" * 40 + "b"])
def test_a_pattern_that_would_run_for_ever_is_refused_in_time(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.3)
    begun = time.monotonic()
    with pytest.raises(ApiError, match="takes more than"):
        patterns.search(pattern)("a" * 2_000 + "!")
    assert time.monotonic() - begun < 20


def test_its_process_ends_with_the_pattern() -> None:
    before = set(psutil.Process().children())
    search = patterns.search("a+")
    assert [search("a"), search("b"), search("ba")] == [True, False, True]
    (process,) = set(psutil.Process().children()) - before
    del search
    gc.collect()
    assert not process.is_running()


def test_a_pattern_without_choices_needs_no_process() -> None:
    before = set(psutil.Process().children())
    assert patterns.search("los.")("loss")
    assert set(psutil.Process().children()) == before
