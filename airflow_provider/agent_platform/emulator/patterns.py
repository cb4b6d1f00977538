"""Regular expressions of clients, searched where they cannot hold up anybody.

In: a pattern and texts. Out: whether the pattern is in a text. The service's own engine (RE2) takes time in
proportion to the text; Python's may take for ever on a short one, and lets no other thread run meanwhile. So
whatever can repeat or choose is searched by a process of its own, which is killed when it takes too long.
"""

from __future__ import annotations

import contextlib
import json
import re
import selectors
import subprocess
import sys
import weakref
from collections.abc import Callable

from airflow_provider.agent_platform.emulator.errors import invalid_argument

SECONDS = 2.0
"""Real seconds for one text."""
MAX_TEXT = 256 * 1024

# Standard input and output: JSON lines, first the pattern, then texts; an answer for each text.
_SEARCHER = """
import json, re, sys
search = re.compile(json.loads(sys.stdin.readline())).search
for line in sys.stdin:
    print(int(search(json.loads(line)) is not None), flush=True)
"""


def search(pattern: str) -> Callable[[str], bool]:
    """A test for texts that have a match of the pattern anywhere.

    :raises ApiError: INVALID_ARGUMENT, it is no pattern; from the test also when one text takes too long.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise invalid_argument(
            f"Invalid filter: {pattern[:200]!r} is no regular expression: {error}."
        ) from None
    if not re.search(r"[*+?{|]", pattern):
        return lambda text: compiled.search(text) is not None
    return _Searcher(pattern).found


class _Searcher:
    """A process that searches; it starts with the first text and ends with the last reference to this object."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._process: subprocess.Popen[bytes] | None = None

    def found(self, text: str) -> bool:
        """Whether the pattern is in the text."""
        process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(text[:MAX_TEXT]).encode() + b"\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            answer = process.stdout.readline() if selector.select(SECONDS) else b""
        if not answer:
            _end(process)
            raise invalid_argument(
                f"Invalid filter: the regular expression {self._pattern[:200]!r} takes more than {SECONDS:g} "
                "seconds for one entry; write it without repetitions in a repetition."
            )
        return answer == b"1\n"

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 - our own words; the pattern comes by the pipe
            [sys.executable, "-I", "-S", "-c", _SEARCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._process = process
        weakref.finalize(self, _end, process)
        assert process.stdin
        process.stdin.write(json.dumps(self._pattern).encode() + b"\n")
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
