"""The parameters of a study, and how a value of one is written.

In: ``StudySpec.parameters`` as bare protobuf. Out: :class:`Parameter` trees, argument texts,
``Trial.Parameter`` values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from google.cloud.aiplatform_v1.types import StudySpec
from google.protobuf import struct_pb2

Value: TypeAlias = float | int | str
Scale = StudySpec.ParameterSpec.ScaleType

EPSILON = 1e-10
"""How near a parent's discrete value must be to match a condition."""


class Kind(str, Enum):
    """The type of a parameter."""

    DOUBLE = "double"
    INTEGER = "integer"
    DISCRETE = "discrete"
    CATEGORICAL = "categorical"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter, with those that depend on its value.

    :param low: smallest value of a double or an integer.
    :param values: the values of a discrete or a categorical one.
    :param scale: number of ``ScaleType``.
    :param children: (values of this one, the parameter that is active then).
    """

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    values: tuple[Value, ...] = ()
    scale: int = 0
    children: tuple[tuple[tuple[Value, ...], Parameter], ...] = ()

    def active(self, value: Value) -> Iterator[Parameter]:
        """The parameters that depend on this one and are there for a value of it."""
        for values, child in self.children:
            if any(_same(value, one) for one in values):
                yield child

    def at(self, share: float) -> Value:
        """The value at a share (0 to 1) of the feasible space, as the scale spreads it."""
        if self.kind in (Kind.DISCRETE, Kind.CATEGORICAL):
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.kind is Kind.INTEGER:
            # Each whole number gets a range of its own, half a number to each side.
            spread = self._spread(share, self.low - 0.5, self.high + 0.5)
            return int(min(max(round(spread), self.low), self.high))
        return min(max(self._spread(share, self.low, self.high), self.low), self.high)

    def _spread(self, share: float, low: float, high: float) -> float:
        if self.scale == Scale.UNIT_LOG_SCALE:
            low = max(low, self.low / 2)
            return low * math.pow(high / low, share)
        if self.scale == Scale.UNIT_REVERSE_LOG_SCALE:
            low = max(low, self.low / 2)
            return low + high - low * math.pow(high / low, 1 - share)
        return low + (high - low) * share


def parameters_of(specs: Any) -> tuple[Parameter, ...]:
    """Read ``StudySpec.parameters``; the specs have been validated."""
    return tuple(_parameter(spec) for spec in specs)


def _parameter(spec: Any) -> Parameter:
    kind = Kind(spec.WhichOneof("parameter_value_spec").removesuffix("_value_spec"))
    values = getattr(spec, f"{kind.value}_value_spec")
    bounded = kind in (Kind.DOUBLE, Kind.INTEGER)
    return Parameter(
        name=spec.parameter_id,
        kind=kind,
        low=float(values.min_value) if bounded else 0.0,
        high=float(values.max_value) if bounded else 0.0,
        values=() if bounded else tuple(values.values),
        scale=int(spec.scale_type),
        children=tuple(
            (_condition(conditional), _parameter(conditional.parameter_spec))
            for conditional in spec.conditional_parameter_specs
        ),
    )


def _condition(conditional: Any) -> tuple[Value, ...]:
    which = conditional.WhichOneof("parent_value_condition")
    return tuple(getattr(conditional, which).values) if which else ()


def _same(value: Value, other: Value) -> bool:
    if isinstance(value, str) or isinstance(other, str):
        return value == other
    return abs(value - other) <= EPSILON


def text(value: Value) -> str:
    """A value as a trial's argument: whole numbers without a point, because programs read them with ``int``.

    A double that happens to be whole keeps its point.
    """
    return value if isinstance(value, str) else repr(value)


def argument_values(parameters: tuple[Parameter, ...], values: Mapping[str, Value]) -> tuple[str, ...]:
    """``--name=value`` for each parameter of a trial, in the order of the spec."""
    return tuple(f"--{name}={_written(parameters, name, value)}" for name, value in values.items())


def _written(parameters: tuple[Parameter, ...], name: str, value: Value) -> str:
    parameter = next((one for one in walk(parameters) if one.name == name), None)
    if parameter is not None and parameter.kind is Kind.DISCRETE and isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return text(value)


def walk(parameters: tuple[Parameter, ...]) -> Iterator[Parameter]:
    """Every parameter, also those that depend on others."""
    for parameter in parameters:
        yield parameter
        yield from walk(tuple(child for _, child in parameter.children))


def to_message(value: Value) -> struct_pb2.Value:
    """A value as ``Trial.Parameter.value``: a number, or a text for a categorical one."""
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    return struct_pb2.Value(number_value=float(value))


def from_message(parameters: tuple[Parameter, ...], name: str, value: Any) -> Value:
    """Read ``Trial.Parameter.value`` back, as the parameter's own type."""
    if value.WhichOneof("kind") == "string_value":
        return str(value.string_value)
    parameter = next((one for one in walk(parameters) if one.name == name), None)
    number = float(value.number_value)
    return int(number) if parameter is not None and parameter.kind is Kind.INTEGER else number
