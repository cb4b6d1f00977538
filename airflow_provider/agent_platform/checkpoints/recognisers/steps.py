"""The step in a name: ``checkpoint-500``, ``epoch=3-step=1000.ckpt``, ``iter_0001000``, ``global_step500``.

A name enters, a number or None leaves. None is unknown and never becomes 0.
"""

from __future__ import annotations

import re

HIGHEST_STEP = 10**15
"""A longer number is a timestamp or a hash, not a step."""

_EXTENSION = re.compile(r"(?:\.[A-Za-z_][A-Za-z0-9_]*)+$")
_NAMED = tuple(
    re.compile(rf"(?:^|[^a-z])(?:{words})[=_\- ]?(\d+)(?![\d]*\.\d)", re.IGNORECASE)
    for words in ("(?:global[_-]?)?steps?", "iter(?:ation)?s?", "epochs?")
)
# The number at the end counts only after a separator: a hash like "abc123" is no step. A dot before it counts
# only after a letter, so that "val_loss=0.25" is not step 25.
_AT_END = re.compile(r"(?:^|[-_ #]|(?<=[A-Za-z])\.)(\d+)$")
_GLUED = re.compile(r"^(?:ckpt|checkpoint|chkpt|model|save|snapshot)(\d+)$", re.IGNORECASE)
_DATE = re.compile(r"\d{4}[-_]\d{2}[-_]\d{2}")
_COPY = re.compile(r"-v\d+$")


def step_in(name: str) -> int | None:
    """Return the step that a file or directory name carries, or None.

    A step goes before an iteration, an iteration before an epoch, and any of them before a number at the end.
    """
    stem = _COPY.sub("", _EXTENSION.sub("", name))
    for pattern in _NAMED:
        if found := pattern.search(stem):
            return _bounded(found.group(1))
    if _DATE.search(stem):
        return None
    if found := _AT_END.search(stem) or _GLUED.match(stem):
        return _bounded(found.group(1))
    return None


def _bounded(digits: str) -> int | None:
    step = int(digits) if len(digits) <= 19 else HIGHEST_STEP + 1
    return step if step <= HIGHEST_STEP else None


_CONTAINER = re.compile(
    r"^(?:.*[-_ ])?(?:trials?|runs?|folds?|versions?|v|workers?|replicas?|ranks?|nodes?|hosts?|seeds?"
    r"|exp|experiments?|jobs?|attempts?|try|phases?|stages?|tasks?|pools?)[-_= ]?\d+$",
    re.IGNORECASE,
)


def is_container(name: str) -> bool:
    """Say whether a directory's number counts trials, runs or the like, and not steps."""
    return _CONTAINER.match(name) is not None
