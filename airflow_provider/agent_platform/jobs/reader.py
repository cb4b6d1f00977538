"""Reads what a user wrote for a message of the API, field by field, by the table of ``jobs.schema``.

In: dicts in snake_case or camelCase, messages, values in any form that means one thing. Out: a dict in the
names of the API, and the problems found. Rules that join several fields are not here: they are in
``jobs.checks``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider.agent_platform.jobs.errors import SpecError, SpecProblem, shown
from airflow_provider.agent_platform.jobs.identity import check_labels
from airflow_provider.agent_platform.jobs.messages import message_name, plain
from airflow_provider.agent_platform.jobs.scalars import READERS, ValueFault, enum_name, shown_at
from airflow_provider.agent_platform.jobs.schema import ClientSchema, Field, known_schema, nearest
from airflow_provider.agent_platform.jobs.templating import is_template


class Reader:
    """Reads values and collects what is wrong with them, so that a user sees all problems at once.

    :param at_parse: keep values that are not known yet (see ``jobs.templating``) instead of refusing them.
    :param client_schema: asked when our table does not know a field or a name.
    """

    def __init__(self, *, at_parse: bool = False, client_schema: ClientSchema | None = None) -> None:
        self.at_parse = at_parse
        self.problems: list[SpecProblem] = []
        self._client_schema = client_schema

    def problem(self, path: str, message: str) -> None:
        """Note a problem.

        :param path: the field.
        :param message: what is wrong, what is allowed, what to do.
        """
        self.problems.append(SpecProblem(path=path, message=message))

    def finish(self) -> None:
        """Raise what was found.

        :raises SpecError: when anything was.
        """
        if self.problems:
            raise SpecError(self.problems)

    def pending(self, value: object) -> bool:
        """Return whether a value is not known yet and need not be.

        :param value: one value.
        """
        return self.at_parse and is_template(value)

    def name_of(self, message: str, key: str) -> str | None:
        """Return the snake_case name of a field, looked for in our table, then in the client, or None.

        :param message: name of the message type.
        :param key: in either case.
        """
        known = known_schema().field_named(message, key)
        if known is not None or self._client_schema is None:
            return known
        return self._client_schema().field_named(message, key)

    def message(self, name: str, value: object, path: str) -> Any:
        """Read a message; returns a dict, or the value itself while it is not known yet.

        :param name: of the message type.
        :param value: a dict or a message.
        :param path: where it stands, for problems; "" is the top.
        """
        if self.pending(value):
            return value
        given = message_name(value)
        if given is not None and given != name:
            self.problem(path, f"is a {given} message, but a {name} belongs here.")
            return {}
        value = plain(value)
        if not isinstance(value, Mapping):
            self.problem(
                path, f"{shown_at(value, path)} is no {name}: give a dict of its fields, or the message."
            )
            return {}
        result: dict[str, Any] = {}
        for key, item in value.items():
            self._member(name, str(key), item, path, result)
        self._exclusive(name, result, path)
        return result

    def field(self, message: str, name: str, value: object, path: str) -> Any:
        """Read one field of a message.

        :param message: name of the message type.
        :param name: snake_case name of the field, from :meth:`name_of`.
        :param value: what the user gave; not None.
        :param path: where it stands, for problems.
        """
        field = self._field(message, name)
        if field.output_only:
            self.problem(path, "is set by the service alone: leave it out.")
            return None
        if not field.repeated:
            return self._one(field, value, path)
        if self.pending(value):
            return value
        items = plain(value)
        if not isinstance(items, list):
            self.problem(path, f"{shown_at(value, path)} is no list: give a list of {field.type}.")
            return []
        return [self._one(field, item, f"{path}[{index}]") for index, item in enumerate(items)]

    def _member(self, message: str, key: str, item: object, path: str, result: dict[str, Any]) -> None:
        name = self.name_of(message, key)
        where = f"{path}.{name or key}" if path else name or key
        if name is None:
            fields = known_schema().messages.get(message, {})
            self.problem(where, f"{message} has no such field. {nearest(key, fields)}")
        elif name in result:
            self.problem(where, "is given twice, in snake_case and in camelCase: leave one out.")
        elif item is not None:  # None is how a dict says "not given"
            result[name] = self.field(message, name, item, where)

    def _field(self, message: str, name: str) -> Field:
        fields = known_schema().messages.get(message, {})
        if name not in fields and self._client_schema is not None:
            fields = self._client_schema().messages[message]
        return fields[name]

    def _exclusive(self, message: str, result: Mapping[str, Any], path: str) -> None:
        groups: dict[str, list[str]] = {}
        for name in result:
            group = self._field(message, name).oneof
            if group is not None:
                groups.setdefault(group, []).append(name)
        for names in groups.values():
            if len(names) > 1:
                self.problem(path, f"{' and '.join(names)} exclude each other: give exactly one.")

    def _one(self, field: Field, value: object, path: str) -> Any:
        if self.pending(value):
            return value
        if value is None or (is_template(value) and not isinstance(value, str)):
            self.problem(
                path, f"{shown(value)} is no value: lists hold no None, and lazy values must be resolved."
            )
            return None
        if field.type == "labels":
            return self._labels(value)
        try:
            if field.type in READERS:
                return READERS[field.type](value, path)
            if self._is_enum(field.type):
                return self._enum(field.type, value)
        except ValueFault as fault:
            self.problem(path, str(fault))
            return None
        return self.message(field.type, value, path)

    def _is_enum(self, name: str) -> bool:
        if name in known_schema().enums:
            return True
        return (
            self._client_schema is not None
            and name not in known_schema().messages
            and name in self._client_schema().enums
        )

    def _enum(self, name: str, value: object) -> str:
        known = known_schema().enums.get(name, {})
        try:
            return enum_name(name, known, value)
        except ValueFault:
            if self._client_schema is None:
                raise
        return enum_name(name, {**known, **self._client_schema().enums.get(name, {})}, value)

    def _labels(self, value: object) -> dict[str, Any]:
        items = plain(value)
        held: dict[str, Any] = {}
        if isinstance(items, dict):
            held = {key: item for key, item in items.items() if self.pending(item)}
            items = {key: item for key, item in items.items() if key not in held}
        try:
            return {**check_labels(items), **held}
        except SpecError as error:
            self.problems.extend(error.problems)
            return {}
