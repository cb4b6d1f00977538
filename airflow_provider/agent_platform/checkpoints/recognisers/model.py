"""What a listing gives and what a recogniser answers: two plain records, no behaviour.

Times are seconds since the epoch as the store reports them: a listing holds hundreds of thousands of them,
and only the few that leave this package become `pendulum.DateTime`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class StoredObject(NamedTuple):
    """One object of a listing.

    :param name: the name relative to the listed directory, with ``/`` between the parts. A name that ends in
        ``/`` is a directory placeholder.
    :param size: bytes.
    :param updated: seconds since the epoch of the last write; None when the store does not say.
    """

    name: str
    size: int
    updated: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """One checkpoint that a recogniser found, complete or not.

    :param path: relative to the listed directory, without a trailing slash: a directory, a file, or the
        common prefix of several files (TensorFlow). What the training code is given as
        ``AIRFLOW_RESUME_FROM``.
    :param step: None when the layout does not tell. Never 0 for unknown.
    :param complete: whether a training can be resumed from it.
    :param framework: the name of the layout, e.g. ``hugging_face``.
    :param why: why it is not complete, for a person; empty when it is.
    :param time: seconds since the epoch of its last write; filled in from the files when the recogniser
        leaves None.
    :param uncertain: complete or not could not be told, because a marker cannot be read. Then `complete` is
        False.
    :param claims: names in the looked-at directory that belong to it, so that no other recogniser takes a
        part of it for a checkpoint. None: the first part of `path` below that directory.
    :param parts: the same as `claims`, relative to the listed directory; filled in by `recognise`.
    """

    path: str
    step: int | None
    complete: bool
    framework: str
    why: str = ""
    time: float | None = None
    uncertain: bool = False
    claims: frozenset[str] | None = None
    parts: tuple[str, ...] = ()
