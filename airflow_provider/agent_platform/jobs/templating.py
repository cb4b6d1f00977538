"""Values that are not known yet while a DAG is parsed.

In: anything a user may pass to an operator. Out: whether its value will only be there when the task runs.
Airflow is not imported: its lazy values are recognised by what they can do.
"""

from __future__ import annotations

import types
from collections.abc import Mapping

_MARKS = ("{{", "{%", "{#")


def is_template(value: object) -> bool:
    """Return whether Airflow will replace the value before the task runs.

    That is: text with Jinja in it, an XComArg or another lazy value (they have ``resolve`` and
    ``iter_references``), or a function, which Airflow calls with the context.

    :param value: one value; what is inside a list or a dict is not looked at.
    """
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return True
    kind = type(value)
    return hasattr(kind, "resolve") and hasattr(kind, "iter_references")


def holds_template(value: object) -> bool:
    """Return whether the value, or anything inside it, is a template.

    :param value: any nesting of dicts, lists and values.
    """
    if isinstance(value, Mapping):
        return any(holds_template(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_template(item) for item in value)
    return is_template(value)
