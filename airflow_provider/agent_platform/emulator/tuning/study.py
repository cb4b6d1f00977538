"""One tuning job: its message, its trials, and what follows when one of them ends.

In: suggestions, measurements, ends of child jobs. Out: what to do next. It starts nothing and reads no file:
``controller`` does. Everything that must survive a restart of the emulator is in the message itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud.aiplatform_v1 import types
from google.cloud.aiplatform_v1.types import StudySpec
from google.cloud.aiplatform_v1.types import Trial as TrialMessage

from airflow_provider.agent_platform.emulator.states import State
from airflow_provider.agent_platform.emulator.tuning import space, stopping, suggest
from airflow_provider.agent_platform.emulator.tuning.measurements import Measurement, final

TuningJob = types.HyperparameterTuningJob.pb()
TrialState = TrialMessage.State
Selection = StudySpec.MeasurementSelectionType
Goal = StudySpec.MetricSpec.GoalType

ACTIVE = frozenset({TrialState.ACTIVE, TrialState.STOPPING})


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How the job ends."""

    state: State
    code: int = 0
    message: str = ""


class Study:
    """The trials of one job.

    :param message: the job, bare protobuf; changed in place.
    """

    def __init__(self, message: Any) -> None:
        self.message = message
        spec = message.study_spec
        self.parameters = space.parameters_of(spec.parameters)
        self.metric_ids = [metric.metric_id for metric in spec.metrics]
        self.maximize = spec.metrics[0].goal != Goal.MINIMIZE
        goals: list[suggest.Goal] = [
            "minimize" if metric.goal == Goal.MINIMIZE else "maximize" for metric in spec.metrics
        ]
        self._suggester = suggest.make(
            spec.algorithm, self.parameters, goals, int(message.name.rsplit("/", 1)[1])
        )
        self.exhausted = False
        self.cancelling = False
        self.failed_trials: list[str] = []
        self.failure: Verdict | None = None
        self._replay()

    def _replay(self) -> None:
        """Bring the suggester to where it was before a restart: ask for each trial again, tell each
        result."""
        for trial in self.message.trials:
            self._suggester.repeat(self._values(trial))
        for trial in self.message.trials:
            if trial.state not in ACTIVE:
                self._tell(trial)

    @property
    def active(self) -> list[Any]:
        """Trials whose child job has not ended."""
        return [trial for trial in self.message.trials if trial.state in ACTIVE]

    @property
    def ending(self) -> bool:
        """No more trials are wanted."""
        return self.cancelling or self.failure is not None or self.exhausted

    def trial_of(self, child_name: str) -> Any | None:
        """The trial of a child job."""
        return next((trial for trial in self.message.trials if trial.custom_job == child_name), None)

    def new_trials(self) -> Iterator[Any]:
        """Suggest as many trials as may run now; the caller gives each its child job."""
        while (
            not self.ending
            and len(self.message.trials) < self.message.max_trial_count
            and len(self.active) < self.message.parallel_trial_count
        ):
            values = self._suggester.suggest()
            if values is None:
                self.exhausted = True
                return
            number = str(len(self.message.trials) + 1)
            trial = self.message.trials.add(id=number, state=TrialState.ACTIVE)
            for name, value in values.items():
                trial.parameters.add(parameter_id=name, value=space.to_message(value))
            yield trial

    def arguments(self, trial: Any) -> tuple[str, ...]:
        """What is appended to the arguments of a trial's workers."""
        return space.argument_values(self.parameters, self._values(trial))

    def _values(self, trial: Any) -> dict[str, space.Value]:
        return {
            one.parameter_id: space.from_message(self.parameters, one.parameter_id, one.value)
            for one in trial.parameters
        }

    def measured(self, trial: Any, measurements: Sequence[Measurement]) -> bool:
        """Take in what a trial has reported; answers whether anything is new."""
        if [_key(one) for one in trial.measurements] == [_key(_message(one)) for one in measurements]:
            return False
        del trial.measurements[:]
        trial.measurements.extend(_message(one) for one in measurements)
        return True

    def should_stop(self, trial: Any) -> bool:
        """Early stopping of a running trial."""
        spec = self.message.study_spec
        if trial.state != TrialState.ACTIVE or spec.WhichOneof("automated_stopping_spec") is None:
            return False
        completed = [one for one in self.message.trials if one.state == TrialState.SUCCEEDED]
        return stopping.median_says_stop(
            measurements_of(trial),
            [measurements_of(one) for one in completed],
            self.metric_ids[0],
            maximize=self.maximize,
            by_duration=spec.median_automated_stopping_spec.use_elapsed_duration,
        )

    def ended(self, trial: Any, state: int, *, now_ns: int, infeasible_fails: bool) -> None:
        """A trial's child job has ended.

        :param state: the child's.
        :param infeasible_fails: a trial without a measurement counts as failed although its job succeeded.
        """
        spec = self.message.study_spec
        best = spec.measurement_selection_type == Selection.BEST_MEASUREMENT
        # A trial that was stopped early is judged by what it had measured.
        good = state == State.SUCCEEDED or (state == State.CANCELLED and trial.state == TrialState.STOPPING)
        result = (
            final(measurements_of(trial), self.metric_ids, best=best, maximize=self.maximize)
            if good
            else None
        )
        trial.end_time.FromNanoseconds(now_ns)
        if result is not None:
            trial.state = TrialState.SUCCEEDED
            trial.final_measurement.CopyFrom(_message(result))
        else:
            trial.state = TrialState.INFEASIBLE
            trial.infeasible_reason = _reason(state, self.metric_ids)
            if state == State.FAILED or (infeasible_fails and state == State.SUCCEEDED):
                self.failed_trials.append(trial.id)
        self._tell(trial)

    def too_many_failed(self) -> bool:
        """``max_failed_trial_count``; 0 means that the first failed trial is one too many."""
        return len(self.failed_trials) >= max(1, int(self.message.max_failed_trial_count))

    def stop_by_config(self, progress: stopping.Progress) -> bool:
        """``study_stopping_config`` asks for the end of the study."""
        spec = self.message.study_spec
        if not spec.HasField("study_stopping_config") or not self.message.trials:
            return False
        return stopping.study_should_stop(spec.study_stopping_config, progress)

    def completed_since_best(self) -> tuple[int, int]:
        """Completed trials since the best one, and the end time of that one in nanoseconds (0: none yet)."""
        done = [trial for trial in self.message.trials if trial.state == TrialState.SUCCEEDED]
        done.sort(key=lambda trial: trial.end_time.ToNanoseconds())
        if not done:
            return 0, 0
        sign = 1 if self.maximize else -1
        best = max(range(len(done)), key=lambda index: (sign * self._objective(done[index]), -index))
        return len(done) - 1 - best, done[best].end_time.ToNanoseconds()

    def _objective(self, trial: Any) -> float:
        return next(
            float(metric.value)
            for metric in trial.final_measurement.metrics
            if metric.metric_id == self.metric_ids[0]
        )

    def verdict(self) -> Verdict | None:
        """How the job ends, None while trials run or are still to come."""
        if self.active:
            return None
        if self.cancelling:
            return Verdict(state=State.CANCELLED, code=1)
        if self.failure is not None:
            return self.failure
        if self.exhausted or len(self.message.trials) >= self.message.max_trial_count:
            return Verdict(state=State.SUCCEEDED)
        return None

    def _tell(self, trial: Any) -> None:
        values: list[float] | None = None
        if trial.state == TrialState.SUCCEEDED:
            found = {metric.metric_id: metric.value for metric in trial.final_measurement.metrics}
            values = [found[name] for name in self.metric_ids]
        self._suggester.result(int(trial.id), values)


def measurements_of(trial: Any) -> list[Measurement]:
    """A trial's measurements, read back from its message."""
    return [
        Measurement(
            step=one.step_count,
            elapsed=one.elapsed_duration.ToNanoseconds() / 1e9,
            metrics={metric.metric_id: metric.value for metric in one.metrics},
        )
        for one in trial.measurements
    ]


def _message(measurement: Measurement) -> Any:
    message = types.Measurement.pb()(step_count=measurement.step)
    message.elapsed_duration.FromMicroseconds(round(measurement.elapsed * 1e6))
    for name, value in measurement.metrics.items():
        message.metrics.add(metric_id=name, value=value)
    return message


def _key(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _reason(state: int, metric_ids: Sequence[str]) -> str:
    if state == State.SUCCEEDED:
        return f"The trial ended without a measurement of {', '.join(metric_ids)}."
    if state == State.FAILED:
        return "The trial's job failed."
    return "The trial's job was cancelled."
