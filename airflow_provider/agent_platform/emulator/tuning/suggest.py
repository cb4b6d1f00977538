"""Which values a trial is to try: grid, random, or Bayesian.

In: parameters, the results of the trials so far. Out: the values of the next trial, or None when there are
no more. The same seed and the same results give the same values, so that a study goes on after a restart of
the emulator.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from google.cloud.aiplatform_v1.types import StudySpec

from airflow_provider.agent_platform.emulator.tuning.space import Kind, Parameter, Scale, Value, walk

if TYPE_CHECKING:
    import optuna

Algorithm = StudySpec.Algorithm
Values = dict[str, Value]

STARTUP_TRIALS = 5
"""Random trials before the Bayesian sampler has something to go by."""


class Suggester(Protocol):
    """Suggests trials one by one, numbered from 1."""

    def suggest(self) -> Values | None:
        """The next trial's values; None when the space is exhausted."""

    def repeat(self, values: Values) -> None:
        """The next trial was suggested before a restart, with these values."""

    def result(self, number: int, values: Sequence[float] | None) -> None:
        """Trial ``number`` has ended with these objective values, None for infeasible."""


Goal: TypeAlias = Literal["maximize", "minimize"]


def make(algorithm: int, parameters: tuple[Parameter, ...], goals: Sequence[Goal], seed: int) -> Suggester:
    """The suggester of an algorithm.

    :param goals: ``maximize`` or ``minimize`` for each metric.
    """
    if algorithm == Algorithm.GRID_SEARCH:
        return Grid(parameters)
    if algorithm == Algorithm.RANDOM_SEARCH:
        return Random(parameters, seed)
    return Bayesian(parameters, goals, seed)


class Grid:
    """Every combination, the last parameter changing fastest."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self._points = combinations(parameters)

    def suggest(self) -> Values | None:
        """The next point of the grid."""
        return next(self._points, None)

    def repeat(self, values: Values) -> None:
        """Pass over a point."""
        next(self._points, None)

    def result(self, number: int, values: Sequence[float] | None) -> None:
        """A grid does not learn."""


def combinations(parameters: tuple[Parameter, ...]) -> Iterator[Values]:
    """Every combination of values; a parameter that depends on another is there only where it is active."""
    if not parameters:
        yield {}
        return
    first, rest = parameters[0], parameters[1:]
    for value in _grid_values(first):
        active = tuple(first.active(value))
        for below, behind in itertools.product(combinations(active), combinations(rest)):
            yield {first.name: value, **below, **behind}


def _grid_values(parameter: Parameter) -> Iterator[Value]:
    if parameter.kind is Kind.INTEGER:
        return iter(range(int(parameter.low), int(parameter.high) + 1))
    return iter(parameter.values)


class Random:
    """Independent draws."""

    def __init__(self, parameters: tuple[Parameter, ...], seed: int) -> None:
        self._parameters = parameters
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def suggest(self) -> Values | None:
        """A new draw."""
        return self._draw(self._parameters)

    def repeat(self, values: Values) -> None:
        """Draw what was drawn."""
        self.suggest()

    def _draw(self, parameters: tuple[Parameter, ...]) -> Values:
        values: Values = {}
        for parameter in parameters:
            value = parameter.at(self._random.random())
            values[parameter.name] = value
            values.update(self._draw(tuple(parameter.active(value))))
        return values

    def result(self, number: int, values: Sequence[float] | None) -> None:
        """Draws do not learn."""


class Bayesian:
    """Optuna's TPE sampler, asked and told. It treats running trials as bad ones, so that parallel ones
    differ.

    Stands in for the service's own default, which is Bayesian too but not public: the values differ, what a
    client sees does not.
    """

    def __init__(self, parameters: tuple[Parameter, ...], goals: Sequence[Goal], seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._parameters = parameters
        self._failed = optuna.trial.TrialState.FAIL
        self._asked: dict[int, optuna.trial.Trial] = {}
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=STARTUP_TRIALS, seed=seed % 2**32, constant_liar=True
        )
        self._study = optuna.create_study(sampler=sampler, directions=[*goals])

    def suggest(self) -> Values | None:
        """Ask the sampler."""
        trial = self._study.ask()
        self._asked[len(self._asked) + 1] = trial
        return self._ask(trial, self._parameters)

    def _ask(self, trial: Any, parameters: tuple[Parameter, ...]) -> Values:
        values: Values = {}
        for parameter in parameters:
            value = _suggest(trial, parameter)
            values[parameter.name] = value
            values.update(self._ask(trial, tuple(parameter.active(value))))
        return values

    def repeat(self, values: Values) -> None:
        """Give the sampler the values instead of asking for them."""
        self._study.enqueue_trial(
            {one.name: _inner(one, values[one.name]) for one in walk(self._parameters) if one.name in values}
        )
        self.suggest()

    def result(self, number: int, values: Sequence[float] | None) -> None:
        """Tell the sampler."""
        trial = self._asked[number]
        if values is None:
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, list(values))


def _suggest(trial: Any, parameter: Parameter) -> Value:
    name, log = parameter.name, parameter.scale == Scale.UNIT_LOG_SCALE
    if parameter.kind is Kind.CATEGORICAL:
        return str(trial.suggest_categorical(name, list(parameter.values)))
    if parameter.kind is Kind.DISCRETE:
        # By position: the values are in order, and nothing else about them is known.
        return parameter.values[int(trial.suggest_int(name, 0, len(parameter.values) - 1))]
    if parameter.kind is Kind.INTEGER:
        return int(trial.suggest_int(name, int(parameter.low), int(parameter.high), log=log))
    if parameter.scale == Scale.UNIT_REVERSE_LOG_SCALE:
        mirrored = trial.suggest_float(name, parameter.low, parameter.high, log=True)
        return float(parameter.low + parameter.high - mirrored)
    return float(trial.suggest_float(name, parameter.low, parameter.high, log=log))


def _inner(parameter: Parameter, value: Value) -> Value:
    """A value as the sampler knows it; the inverse of :func:`_suggest`."""
    if parameter.kind is Kind.DISCRETE:
        return parameter.values.index(value)
    if parameter.scale == Scale.UNIT_REVERSE_LOG_SCALE and not isinstance(value, str):
        return parameter.low + parameter.high - value
    return value
