"""The shape of the API's messages, as data: which fields there are and what they hold.

In: nothing. Out: for a message its fields, for an enum its names. A test compares the table with the
messages of the installed client library; a newer client's fields come in through :data:`ClientSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a message.

    :param type: ``string``, ``bool``, ``int32``, ``int64``, ``double``, ``duration``, ``timestamp``,
        ``labels``, the name of an enum or the name of a message (both as in ``StudySpec.MetricSpec``).
    :param repeated: a list of them.
    :param oneof: name of the group of which only one field may be set.
    :param output_only: set by the service, never by a user.
    """

    type: str
    repeated: bool = False
    oneof: str | None = None
    output_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Messages and enums by name.

    :param messages: message -> field -> :class:`Field`.
    :param enums: enum -> name -> number.
    """

    messages: Mapping[str, Mapping[str, Field]]
    enums: Mapping[str, Mapping[str, int]]


ClientSchema = Callable[[], Schema]
"""Reads the schema of the installed client library.

Called only when our own table does not know something.
"""
