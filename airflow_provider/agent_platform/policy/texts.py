"""
The platform's own sentences: patterns, and what can be read out of them.

Enters: an error text. Leaves: names, numbers, lists. Every pattern is matched at the *beginning* of the
text: the texts end with the user's own traceback, and a traceback that quotes "Internal error occurred" is
still the user's. Not here: what a text means (``table``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider.agent_platform.policy.outcome import FoundError

# "workerpool1-0"; in legacy texts "master 0", "worker 2", "ps 0".
_REPLICA = r"(?P<replica>[A-Za-z][\w-]*(?: \d+)?)"
_STATUS = r"(?P<status>-?\d+)(?:\((?P<signal>[A-Z0-9]+)\))?"

EXITED = rf"The replica {_REPLICA} exited with a non-zero status of {_STATUS}"
_AND_EXITED = rf"(?: and exited with a non-zero status of {_STATUS})?"
RAN_OUT_OF_MEMORY = rf"The replica {_REPLICA} ran[ -]out[ -]of[ -]memory\b{_AND_EXITED}"
LOW_ON_MEMORY = r"Replicas low on memory\b"
LOW_ON_DISK = r"Replicas low on disk\b"
INTERNAL = r"Internal error occurred\b"
INSUFFICIENT = r"Resources are insufficient in region\b"
QUOTA = r"The following quota metrics exceed quota limits\b"
TOO_MANY_METRICS = r"Too many hyperparameter tuning metrics were written\b"
TIMEOUT = r"[^\n]{0,200}\b(?:timeout|timed out)\b"
FOUND_ERRORS = r"List of found errors:"
ACT_AS = r"(?:List of found errors:.{0,500}?Message:\s*)?You do not have permission to act as\b"
PERMISSION = r"(?:List of found errors:.{0,500}?Message:\s*)?Permission '[^']*' denied\b"
REFUSED_SPEC = (
    r"(?:Machine type \S+ is not supported|Accelerator \S+ is not supported|EnvVar names must be unique)"
)
BUCKET_REGION = r"The Cloud Storage bucket of .{1,500}? is in location\b"

_FLAGS = re.DOTALL
# Google's Python client puts the HTTP status before the text when an exception is turned into a string.
_HTTP_STATUS = re.compile(r"\d{3} ")
# On the same line as the sentence: what follows a line break may be the user's.
_REASON = re.compile(r"\.? *Termination reason: (?P<reason>\w+)")
# A further replica is looked for where a sentence can begin; only to be named, never to decide.
_EACH = re.compile(
    rf"(?:\A|(?<=\n)|(?<=\.)|(?<=\.\s))(?:{EXITED}|The replica (?P<oom>[A-Za-z][\w-]*(?: \d+)?) ran[ -]out)"
)
_POOLS = re.compile(r"Replicas low on \w+: (?P<names>[^.]+)")
_REGION = re.compile(r"Resources are insufficient in region: (?P<region>[a-z0-9-]+)")
_METRIC = re.compile(r"[\w.-]+/[\w.-]*\w")
_FOUND = re.compile(
    r"\d+\.\s*Field: (?P<field>.*?); Message: (?P<message>.*?)(?=\s+\d+\.\s*Field: |\Z)", _FLAGS
)


@dataclass(frozen=True, kw_only=True)
class Exit:
    """The first failing replica, as its sentence says."""

    replica: str
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None


def normalised(message: str) -> str:
    """The text from its first word on: without leading white space and the client's HTTP status."""
    text = message.lstrip()
    status = _HTTP_STATUS.match(text)
    return text[status.end() :] if status else text


def begins_with(pattern: str, text: str) -> bool:
    """Whether a normalised text begins with a pattern."""
    return re.match(pattern, text, _FLAGS) is not None


def first_exit(text: str) -> Exit | None:
    """
    Read the sentence about the first failing replica.

    :param text: a normalised text.
    :return: None when the text does not begin with such a sentence.
    """
    found = re.match(EXITED, text) or re.match(RAN_OUT_OF_MEMORY, text)
    if found is None:
        return None
    status = found["status"]
    reason = _REASON.match(text, found.end())
    return Exit(
        replica=found["replica"],
        exit_code=None if status is None else int(status),
        signal=found["signal"],
        reason=reason["reason"] if reason else None,
    )


def replicas_in(text: str) -> tuple[str, ...]:
    """Every replica (or pool) that a normalised text names as failing, in its order, each once."""
    pools = _POOLS.match(text)
    if pools:
        names = re.findall(r"[\w-]+(?: \d+)?", pools["names"])
    elif first_exit(text):
        names = [found["replica"] or found["oom"] for found in _EACH.finditer(text)]
    else:
        names = []
    return tuple(dict.fromkeys(names))


def region_in(text: str) -> str | None:
    """The region that a stockout's text names."""
    found = _REGION.match(text)
    return found["region"] if found else None


def quota_metrics_in(text: str) -> tuple[str, ...]:
    """The metrics that a quota text names, in its order; the list may end in a comma."""
    if not begins_with(QUOTA, text):
        return ()
    first_line = text.partition(":")[2].partition("\n")[0]
    return tuple(dict.fromkeys(_METRIC.findall(first_line)))


def found_errors_in(text: str) -> tuple[FoundError, ...]:
    """The numbered lines of a "List of found errors"."""
    if not begins_with(FOUND_ERRORS, text):
        return ()
    return tuple(
        FoundError(field=found["field"].strip(), message=found["message"].strip())
        for found in _FOUND.finditer(text)
    )
