"""The pure parts of tuning: parameters, suggestions, measurements, stopping, and one study without an
engine."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import HyperparameterTuningJob, StudySpec
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.agent_platform.emulator.states import State
from airflow_provider.agent_platform.emulator.tuning import measurements, space, stopping, suggest
from airflow_provider.agent_platform.emulator.tuning.measurements import Measurement
from airflow_provider.agent_platform.emulator.tuning.space import Kind, Parameter
from airflow_provider.agent_platform.emulator.tuning.study import Study, TrialState, TuningJob

LOG, REVERSE = 2, 3


def double(name: str = "x", low: float = 0.0, high: float = 1.0, scale: int = 0) -> Parameter:
    return Parameter(name=name, kind=Kind.DOUBLE, low=low, high=high, scale=scale)


def integer(name: str = "n", low: int = 0, high: int = 2, **more: Any) -> Parameter:
    return Parameter(name=name, kind=Kind.INTEGER, low=low, high=high, **more)


def discrete(*values: float, name: str = "d") -> Parameter:
    return Parameter(name=name, kind=Kind.DISCRETE, values=values)


def categorical(*values: str, name: str = "c", **more: Any) -> Parameter:
    return Parameter(name=name, kind=Kind.CATEGORICAL, values=values, **more)


CONDITIONAL = categorical(
    "sgd", "adam", name="optimizer", children=((("sgd",), double("momentum", 0.5, 0.9)),)
)
SPACE = (
    double("lr", 1e-5, 1e-1, LOG),
    integer("layers", 1, 4),
    discrete(16.0, 32.0, name="batch"),
    CONDITIONAL,
)


@given(share=st.floats(0, 1), scale=st.sampled_from([0, 1, LOG, REVERSE]))
@settings(deadline=None)
def test_every_scale_stays_within_the_bounds(share: float, scale: int) -> None:
    value = double("x", 0.001, 10.0, scale).at(share)
    assert isinstance(value, float)
    assert 0.001 <= value <= 10.0
    whole = integer("n", 1, 64, scale=scale).at(share)
    assert isinstance(whole, int)
    assert 1 <= whole <= 64


def test_a_log_scale_spends_half_of_its_space_below_the_geometric_mean() -> None:
    assert double("x", 0.01, 100.0, LOG).at(0.5) == pytest.approx(1.0)
    assert double("x", 0.01, 100.0, REVERSE).at(0.5) == pytest.approx(99.01)
    assert double("x", 0.0, 4.0).at(0.5) == 2.0


def test_every_whole_number_has_the_same_share() -> None:
    found = [integer("n", 1, 4).at(index / 400) for index in range(400)]
    assert [found.count(number) for number in (1, 2, 3, 4)] == pytest.approx([100] * 4, abs=1)


def test_arguments_are_written_so_that_programs_can_read_them() -> None:
    values: dict[str, space.Value] = {
        "lr": 0.001,
        "layers": 2,
        "batch": 16.0,
        "optimizer": "sgd",
        "momentum": 0.9,
    }
    assert space.argument_values(SPACE, values) == (
        "--lr=0.001",
        "--layers=2",
        "--batch=16",
        "--optimizer=sgd",
        "--momentum=0.9",
    )
    assert space.argument_values((discrete(0.5, 1.5),), {"d": 1.5}) == ("--d=1.5",)
    assert space.argument_values((double(),), {"x": 2.0}) == ("--x=2.0",)


def test_a_grid_is_every_combination_and_then_nothing() -> None:
    grid = suggest.Grid((integer("n", 0, 1), categorical("a", "b")))
    points = [grid.suggest() for _ in range(5)]
    assert points == [{"n": 0, "c": "a"}, {"n": 0, "c": "b"}, {"n": 1, "c": "a"}, {"n": 1, "c": "b"}, None]


def test_a_grid_has_conditional_parameters_only_where_they_are_active() -> None:
    parent = categorical("sgd", "adam", name="o", children=((("sgd",), discrete(0.5, 0.9, name="m")),))
    assert list(suggest.combinations((parent, integer("n", 1, 1)))) == [
        {"o": "sgd", "m": 0.5, "n": 1},
        {"o": "sgd", "m": 0.9, "n": 1},
        {"o": "adam", "n": 1},
    ]


@pytest.mark.parametrize("make", ["random", "bayesian"])
def test_suggestions_lie_in_the_space(make: str) -> None:
    suggester = suggester_of(make, 7)
    for number in range(1, 21):
        values = suggester.suggest()
        assert values is not None
        assert 1e-5 <= float(values["lr"]) <= 1e-1
        assert values["layers"] in (1, 2, 3, 4)
        assert values["batch"] in (16.0, 32.0)
        assert ("momentum" in values) is (values["optimizer"] == "sgd")
        suggester.result(number, None if number % 5 == 0 else [float(values["lr"])])


def suggester_of(name: str, seed: int) -> suggest.Suggester:
    if name == "random":
        return suggest.Random(SPACE, seed)
    return suggest.Bayesian(SPACE, ["minimize"], seed)


@pytest.mark.parametrize("make", ["random", "bayesian"])
def test_the_same_seed_suggests_the_same(make: str) -> None:
    first, second, other = suggester_of(make, 1), suggester_of(make, 1), suggester_of(make, 2)
    assert first.suggest() == second.suggest()
    assert first.suggest() != other.suggest()


def test_the_default_algorithm_learns_where_the_good_values_are() -> None:
    suggester = suggest.make(0, (double("x", 0.0, 10.0),), ["minimize"], seed=11)
    tried: list[float] = []
    for number in range(1, 41):
        values = suggester.suggest()
        assert values is not None
        tried.append(float(values["x"]))
        suggester.result(number, [(tried[-1] - 7.0) ** 2])
    late = tried[20:]
    assert sum(abs(x - 7.0) < 1.5 for x in late) > len(late) / 2


def test_a_sampler_that_is_told_what_it_had_suggested_knows_those_results() -> None:
    parameters = (
        double("x", 0.1, 10.0, REVERSE),
        discrete(1.0, 2.0, 4.0),
        integer("n", 1, 8, scale=LOG),
        CONDITIONAL,
    )
    original = suggest.Bayesian(parameters, ["maximize"], 3)
    suggested = [original.suggest() or {} for _ in range(8)]
    # Another seed: what is the same must come from what it was told.
    again = suggest.Bayesian(parameters, ["maximize"], 99)
    for values in suggested:
        again.repeat(values)
    told, asked = again._study.get_trials(), original._study.get_trials()
    for one, other in zip(told, asked, strict=True):
        assert one.params == pytest.approx(other.params)
    for number, values in enumerate(suggested, 1):
        again.result(number, [float(values["x"])])
    assert len(again._study.get_trials(deepcopy=False)) == 8
    assert again._study.best_value == max(float(values["x"]) for values in suggested)
    assert again.suggest() is not None


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_the_metric_file_is_read_as_the_package_writes_it() -> None:
    text = lines(
        {"timestamp": 1010.5, "trial": "1", "loss": "0.9", "global_step": "1000", "checkpoint_path": ""},
        {"timestamp": 1020, "trial": "1", "loss": "0.5", "global_step": "2000", "checkpoint_path": ""},
        {"timestamp": 1020, "trial": "1", "accuracy": "0.8", "global_step": "2000", "checkpoint_path": ""},
        {"timestamp": 1030, "trial": "1", "other": "1", "global_step": "3000", "checkpoint_path": ""},
    )
    assert measurements.read(text, ["loss", "accuracy"], started=1000) == [
        Measurement(step=1000, elapsed=10.5, metrics={"loss": 0.9}),
        Measurement(step=2000, elapsed=20.0, metrics={"loss": 0.5, "accuracy": 0.8}),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "{",
        "[]",
        "null",
        '{"loss": "nan", "global_step": "1"}',
        '{"loss": "inf"}',
        '{"loss": null}',
        '{"loss": true}',
        '{"loss": {}}',
        '{"global_step": "1"}',
    ],
)
def test_a_line_that_means_nothing_is_left_out(bad: str) -> None:
    good = lines({"timestamp": 1.0, "loss": "0.5", "global_step": "1"})
    assert [one.metrics for one in measurements.read(f"{bad}\n{good}", ["loss"], started=0)] == [
        {"loss": 0.5}
    ]


def test_a_half_written_file_is_read_as_far_as_it_goes() -> None:
    text = lines({"loss": "1", "global_step": "1"}, {"loss": "2", "global_step": "2"})
    assert [one.step for one in measurements.read(text[:-5], ["loss"], started=0)] == [1]


def points(*values: float, name: str = "loss") -> list[Measurement]:
    return [
        Measurement(step=step, elapsed=float(step), metrics={name: value})
        for step, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("best", "maximize", "expected"),
    [(False, False, 3.0), (False, True, 3.0), (True, False, 1.0), (True, True, 5.0)],
)
def test_the_last_or_the_best_measurement_counts(best: bool, maximize: bool, expected: float) -> None:
    found = measurements.final(points(5, 1, 3), ["loss"], best=best, maximize=maximize)
    assert found is not None
    assert found.metrics["loss"] == expected


def test_a_measurement_without_all_metrics_does_not_count() -> None:
    assert measurements.final(points(1, 2), ["loss", "accuracy"], best=False, maximize=False) is None


def stops(running: list[Measurement], *completed: list[Measurement], maximize: bool = True) -> bool:
    return stopping.median_says_stop(running, completed, "loss", maximize=maximize, by_duration=False)


def test_the_median_rule_stops_what_is_worse_than_the_median_of_averages() -> None:
    completed = [points(1, 1, 1), points(3, 3, 3), points(5, 5, 5)]
    assert stops(points(2, 2), *completed)
    assert not stops(points(3, 3), *completed)  # strictly worse only
    assert not stops(points(0, 4), *completed)  # its best value counts
    assert stops(points(4, 4), *completed, maximize=False)
    assert not stops(points(2, 2), *completed, maximize=False)


def test_the_median_rule_looks_at_completed_trials_up_to_the_same_step() -> None:
    late_bloomer = points(0, 0, 100, 100)
    assert not stops(points(1, 1), late_bloomer, late_bloomer)
    assert stops(points(1, 1, 1, 1), late_bloomer, late_bloomer)


def test_the_median_rule_needs_completed_trials_and_a_measurement() -> None:
    assert not stops(points(0), points(9))
    assert not stops([], points(9), points(9))


def config(**fields: Any) -> Any:
    return StudySpec.StudyStoppingConfig.pb(StudySpec.StudyStoppingConfig(fields))


def progress(**fields: Any) -> stopping.Progress:
    values: dict[str, Any] = {
        "trials": 5,
        "completed": 4,
        "elapsed": 100.0,
        "now": 1_000.0,
        "without_progress": 2,
        "seconds_without_progress": 50.0,
    }
    return stopping.Progress(**{**values, **fields})


@pytest.mark.parametrize(
    ("conditions", "stop"),
    [
        ({}, False),
        ({"max_num_trials": 5}, True),
        ({"max_num_trials": 6}, False),
        ({"max_num_trials_no_progress": 2}, True),
        ({"max_num_trials_no_progress": 3}, False),
        ({"max_duration_no_progress": "50s"}, True),
        ({"max_duration_no_progress": "51s"}, False),
        ({"maximum_runtime_constraint": {"max_duration": "100s"}}, True),
        ({"maximum_runtime_constraint": {"max_duration": "101s"}}, False),
        (
            {
                "maximum_runtime_constraint": {
                    "end_time": datetime.datetime.fromtimestamp(999, datetime.timezone.utc)
                }
            },
            True,
        ),
        ({"max_num_trials": 5, "min_num_trials": 5}, False),
        ({"max_num_trials": 5, "minimum_runtime_constraint": {"max_duration": "101s"}}, False),
        ({"max_num_trials": 5, "minimum_runtime_constraint": {"max_duration": "99s"}}, True),
    ],
)
def test_a_study_stops_by_its_own_conditions(conditions: dict[str, Any], stop: bool) -> None:
    assert stopping.study_should_stop(config(**conditions), progress()) is stop


def study(**changes: Any) -> Study:
    value: dict[str, Any] = {
        "name": "projects/1/locations/us-central1/hyperparameterTuningJobs/1234567890123456789",
        "display_name": "t",
        "max_trial_count": 4,
        "parallel_trial_count": 2,
        "study_spec": {
            "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
            "parameters": [
                {
                    "parameter_id": "x",
                    "double_value_spec": {"min_value": 0.0, "max_value": 1.0},
                    "scale_type": "UNIT_LINEAR_SCALE",
                }
            ],
            "algorithm": "RANDOM_SEARCH",
        },
    }
    value.update(changes)
    return Study(HyperparameterTuningJob.pb(HyperparameterTuningJob(value)))


def end(one: Study, trial: Any, state: State, *values: float) -> None:
    one.measured(trial, points(*values))
    one.ended(trial, state, now_ns=1_000_000_000, infeasible_fails=False)


def test_no_more_trials_run_at_once_than_asked() -> None:
    one = study()
    assert [trial.id for trial in one.new_trials()] == ["1", "2"]
    assert list(one.new_trials()) == []
    end(one, one.message.trials[0], State.SUCCEEDED, 0.5)
    assert [trial.id for trial in one.new_trials()] == ["3"]
    assert one.verdict() is None


def test_a_study_succeeds_when_all_trials_have_ended() -> None:
    one = study(max_trial_count=2)
    for trial in list(one.new_trials()):
        assert one.verdict() is None
        end(one, trial, State.SUCCEEDED, 0.5)
    verdict = one.verdict()
    assert verdict is not None
    assert verdict.state is State.SUCCEEDED
    assert [trial.state for trial in one.message.trials] == [TrialState.SUCCEEDED] * 2


@pytest.mark.parametrize(
    ("state", "values", "expected", "failed"),
    [
        (State.SUCCEEDED, (0.5,), TrialState.SUCCEEDED, False),
        (State.SUCCEEDED, (), TrialState.INFEASIBLE, False),
        (State.FAILED, (0.5,), TrialState.INFEASIBLE, True),
        (State.CANCELLED, (0.5,), TrialState.INFEASIBLE, False),
    ],
)
def test_a_trial_ends_as_its_job_and_its_measurements_say(
    state: State, values: tuple[float, ...], expected: TrialState, failed: bool
) -> None:
    one = study()
    trial = next(iter(one.new_trials()))
    end(one, trial, state, *values)
    assert trial.state == expected
    assert one.too_many_failed() is failed
    assert bool(trial.infeasible_reason) is (expected == TrialState.INFEASIBLE)


def test_a_trial_that_was_stopped_early_keeps_what_it_had_measured() -> None:
    one = study()
    trial = next(iter(one.new_trials()))
    trial.state = TrialState.STOPPING
    end(one, trial, State.CANCELLED, 0.9, 0.8)
    assert trial.state == TrialState.SUCCEEDED
    assert trial.final_measurement.metrics[0].value == 0.8


@pytest.mark.parametrize(("allowed", "failures"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_the_job_fails_with_the_last_failed_trial_it_can_bear(allowed: int, failures: int) -> None:
    one = study(max_failed_trial_count=allowed, parallel_trial_count=4)
    trials = list(one.new_trials())
    for number, trial in enumerate(trials[:failures], 1):
        end(one, trial, State.FAILED)
        assert one.too_many_failed() is (number == failures)


def test_a_study_that_is_read_back_goes_on_where_it_was() -> None:
    one = study(max_trial_count=6)
    for _ in range(2):
        for trial in list(one.new_trials()):
            end(one, trial, State.SUCCEEDED, 0.5)
    again = Study(TuningJob.FromString(one.message.SerializeToString()))
    fresh, expected = list(again.new_trials()), list(one.new_trials())
    assert [trial.parameters[0].value for trial in fresh] == [trial.parameters[0].value for trial in expected]
    assert [trial.id for trial in fresh] == ["5", "6"]


def test_trials_since_the_best_are_counted_in_the_order_of_their_ends() -> None:
    one = study(parallel_trial_count=4)
    for trial, (second, loss) in zip(
        list(one.new_trials()), [(10, 0.9), (40, 0.1), (30, 0.5), (20, 0.7)], strict=True
    ):
        one.measured(trial, points(loss))
        one.ended(trial, State.SUCCEEDED, now_ns=second * 10**9, infeasible_fails=False)
    assert one.completed_since_best() == (0, 40 * 10**9)
