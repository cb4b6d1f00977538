"""The shape of the API's messages: which fields there are and what they hold.

In: the table of ``jobs.api_fields``. Out: for a message its fields, for an enum its names. A newer client's
fields come in through :data:`ClientSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from airflow_provider.agent_platform.jobs.api_fields import ENUMS, MESSAGES

OUTPUT = "output"
SCALARS = frozenset({"string", "bool", "int32", "int64", "double", "duration", "timestamp", "labels", OUTPUT})


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a message.

    :param type: one of :data:`SCALARS`, or the name of an enum or a message, as in ``StudySpec.MetricSpec``.
    :param repeated: a list of them.
    :param oneof: name of the group of which only one field may be set.
    """

    type: str
    repeated: bool = False
    oneof: str | None = None

    @property
    def output_only(self) -> bool:
        """Whether only the service sets the field."""
        return self.type == OUTPUT

    @classmethod
    def parse(cls, cell: str) -> Field:
        """Read a cell of the table: ``[repeated] TYPE [oneof:GROUP]``."""
        words = cell.split()
        repeated = words[0] == "repeated"
        oneof = words[-1].partition(":")[2] or None
        return cls(type=words[1 if repeated else 0], repeated=repeated, oneof=oneof)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Messages and enums by name.

    :param messages: message -> field -> :class:`Field`.
    :param enums: enum -> name -> number.
    """

    messages: Mapping[str, Mapping[str, Field]]
    enums: Mapping[str, Mapping[str, int]]

    def field_named(self, message: str, key: str) -> str | None:
        """Return the snake_case name of a field that is given in either case, or None.

        :param message: name of the message.
        :param key: ``machine_type`` or ``machineType``.
        """
        fields = self.messages.get(message, {})
        if key in fields:
            return key
        return next((name for name in fields if camel_case(name) == key), None)


ClientSchema = Callable[[], Schema]
"""Reads the schema of the installed client; called only when our own table does not know something."""


@cache
def known_schema() -> Schema:
    """Return the table of ``jobs.api_fields`` as a :class:`Schema`."""
    return Schema(
        messages={
            message: {name: Field.parse(cell) for name, cell in fields.items()}
            for message, fields in MESSAGES.items()
        },
        enums=ENUMS,
    )


def camel_case(name: str) -> str:
    """Return the JSON name of a field: ``boot_disk_size_gb`` is ``bootDiskSizeGb``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def nearest(key: object, names: Mapping[str, object]) -> str:
    """Return a hint for a name that is not among the known ones: the nearest, and all of them.

    :param key: what the user wrote.
    :param names: what there is.
    """
    import difflib  # only a mistake needs it

    text = str(key)
    candidates = {name.lower(): name for name in names} | {camel_case(name).lower(): name for name in names}
    close = difflib.get_close_matches(text.lower(), list(candidates), n=1)
    guess = f"Did you mean {candidates[close[0]]!r}? " if close else ""
    return f"{guess}Known: {', '.join(sorted(names))}."
