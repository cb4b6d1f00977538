"""Tuning jobs on the engine: their quota, their child jobs, their states.

In: calls of the service (it is a ``Collection``), changes of child jobs, time. Out: child custom jobs,
states, trials and errors in the store, lines in the log. What a study decides is in ``study``.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.cloud.aiplatform_v1.types import StudySpec

from airflow_provider.agent_platform.emulator import catalog, texts
from airflow_provider.agent_platform.emulator.environment import Child
from airflow_provider.agent_platform.emulator.errors import ApiError, failed_precondition
from airflow_provider.agent_platform.emulator.resources import TUNING_JOBS, Parent
from airflow_provider.agent_platform.emulator.service import CustomJobs
from airflow_provider.agent_platform.emulator.states import ENDS, State, state_name
from airflow_provider.agent_platform.emulator.tuning import measurements
from airflow_provider.agent_platform.emulator.tuning.stopping import Progress
from airflow_provider.agent_platform.emulator.tuning.study import Study, TrialState, TuningJob, Verdict
from airflow_provider.agent_platform.emulator.validation_tuning import validate_tuning_job

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.engine import Engine
    from airflow_provider.agent_platform.emulator.service import Service
    from airflow_provider.agent_platform.emulator.store import Row

LOOK_SECONDS = 10.0
"""Seconds of the platform between two looks at the metric files of running trials."""
SHORTEST_LOOK = 0.2
"""Real seconds, whatever the speed."""

logger = logging.getLogger(__name__)


class TuningJobs:
    """The collection of tuning jobs. Every method but :meth:`validate` runs under the engine's lock."""

    kind = TUNING_JOBS
    message = TuningJob

    def __init__(self, service: Service) -> None:
        self._service = service
        self._engine: Engine = service.engine
        self._jobs: dict[str, _Live] = {}
        self._parents: dict[str, str] = {}
        self._folders: dict[str, Path] = {}
        self._engine.listeners.append(self._row_changed)

    # --- what the service asks ---

    def validate(self, message: Any, region: str) -> None:
        """Refuse what the service refuses."""
        validate_tuning_job(message, region=region)
        if message.study_spec.algorithm == StudySpec.Algorithm.ALGORITHM_UNSPECIFIED:
            _load_optuna()

    def submit(self, row: Row, message: Any) -> None:
        """Store the row and begin.

        :raises ApiError: RESOURCE_EXHAUSTED, over quota and the switch says ``refuse``.
        """
        engine = self._engine
        use = _quota_use(message)
        policy = engine.config["over_quota"]
        missing = engine.quotas.missing(row.region, use) if policy != "queue" else []
        if missing and policy == "refuse":
            raise ApiError(8, texts.quota(missing))
        row.life = {"cancelling": False}
        engine.store.add(row)
        engine.note(row, "state", state=state_name(row.state))
        live = _Live(row=row, study=Study(message))
        self._jobs[row.id] = live
        if missing:
            live.study.failure = Verdict(state=State.FAILED, code=8, message=texts.quota(missing))
        engine.ask_quota(row.id, row.region, {} if missing else use, lambda: self._admitted(live))

    def cancel(self, job_id: str) -> None:
        """Begin to cancel."""
        live = self._jobs.get(job_id)
        if live is None or live.study.cancelling:
            return
        live.study.cancelling = True
        live.row.life = {"cancelling": True}
        self._engine.note(live.row, "cancel")
        self._set_state(live, State.CANCELLING)
        for trial in live.study.active:
            self._stop_trial(trial)
        self._advance(live)

    def reset(self) -> None:
        """Forget every job; the engine has forgotten their rows."""
        self._jobs.clear()
        self._parents.clear()
        self._engine.logs.copies.clear()
        self._remove_folders()

    def close(self) -> None:
        """Remove the files, unless the jobs go on with the next process."""
        if not self._engine.store.durable:
            self._remove_folders()

    def _remove_folders(self) -> None:
        for folder in self._folders.values():
            shutil.rmtree(folder, ignore_errors=True)
        self._folders.clear()

    def recover(self) -> None:
        """Go on with the jobs of an earlier process; to be called when the custom jobs have been
        recovered."""
        with self._engine.lock:
            for row in self._engine.store.rows():
                if row.kind != TUNING_JOBS or row.life is None:
                    continue
                message = TuningJob.FromString(row.payload)
                if "error" in row.life:
                    self._set_error(row, *row.life["error"])
                    continue
                self._recover_job(row, message)

    def _recover_job(self, row: Row, message: Any) -> None:
        live = _Live(row=row, study=Study(message))
        live.study.cancelling = bool((row.life or {}).get("cancelling"))
        self._jobs[row.id] = live
        for trial in live.study.active:
            child = self._engine.store.get(_id(trial.custom_job))
            self._parents[_id(trial.custom_job)] = row.id
            self._engine.logs.copies[_id(trial.custom_job)] = (row.id, TUNING_JOBS, trial.id)
            if child is not None and child.launch:
                folder = Path(child.launch["metric_file"]).parent
                folder.mkdir(parents=True, exist_ok=True)
                self._folders[row.id] = folder.parent
            if child is None or child.state in ENDS:
                self._later(0, lambda job_id=row.id, name=trial.custom_job: self._child_ended(job_id, name))
        if row.state == State.QUEUED:
            self._engine.ask_quota(row.id, row.region, _quota_use(message), lambda: self._admitted(live))
        else:
            self._engine.quotas.hold(row.id, row.region, _quota_use(message))
            self._look_later(live)
            self._later(0, lambda: self._advance(live))

    # --- the course of a job ---

    def _admitted(self, live: _Live) -> None:
        if self._jobs.get(live.row.id) is not live:
            return
        if not live.study.cancelling:
            self._set_state(live, State.PENDING)
            self._engine.say(live.row, texts.PREPARING)
        self._advance(live)
        self._look_later(live)

    def _advance(self, live: _Live) -> None:
        """Start what may start; end the job when nothing is left."""
        if self._jobs.get(live.row.id) is not live:
            return
        study = live.study
        if not study.ending and study.stop_by_config(self._progress(live)):
            study.exhausted = True
            if study.message.study_spec.study_stopping_config.should_stop_asap.value:
                for trial in study.active:
                    self._stop_trial(trial)
        for trial in study.new_trials():
            self._start_trial(live, trial)
        self._keep(live)
        verdict = study.verdict()
        if verdict is not None:
            self._end(live, verdict)

    def _progress(self, live: _Live) -> Progress:
        study, clock = live.study, self._engine.clock
        now = clock.wall()
        since_best, best_ns = study.completed_since_best()
        began = live.row.created_ns / 1e9
        return Progress(
            trials=len(study.message.trials),
            completed=sum(1 for one in study.message.trials if one.state == TrialState.SUCCEEDED),
            elapsed=(now - began) * clock.speed,
            now=now,
            without_progress=since_best,
            seconds_without_progress=(now - (best_ns / 1e9 or began)) * clock.speed,
        )

    def _start_trial(self, live: _Live, trial: Any) -> None:
        row, message = live.row, live.study.message
        if row.id not in self._folders:
            self._folders[row.id] = Path(tempfile.mkdtemp(prefix="agent-platform-tuning-"))
        folder = self._folders[row.id] / trial.id
        folder.mkdir(parents=True, exist_ok=True)
        child = Child(
            trial=trial.id,
            arguments=live.study.arguments(trial),
            metric_file=str(folder / "output.metrics"),
        )
        job = CustomJobs.message(display_name=f"{row.display_name[:110]}_trial{trial.id}")
        job.job_spec.CopyFrom(message.trial_job_spec)
        output = job.job_spec.base_output_directory
        if output.output_uri_prefix:
            output.output_uri_prefix = f"{output.output_uri_prefix.rstrip('/')}/{trial.id}"
        if message.HasField("encryption_spec"):
            job.encryption_spec.CopyFrom(message.encryption_spec)
        trial.start_time.FromNanoseconds(int(self._engine.clock.wall() * 1e9))
        children = _Children(self._engine, child, live.row.id, self)
        made = self._service.store_new(children, Parent(project=row.project, region=row.region), job)
        trial.custom_job = made.name
        trial.name = f"{row.name}/trials/{trial.id}"
        self._engine.note(row, "trial", trial=trial.id, custom_job=made.name, arguments=list(child.arguments))

    def adopt(self, child_id: str, parent_id: str, trial: str) -> None:
        """Know whose a child job is before it begins."""
        self._parents[child_id] = parent_id
        self._engine.logs.copies[child_id] = (parent_id, TUNING_JOBS, trial)

    def _stop_trial(self, trial: Any) -> None:
        trial.state = TrialState.STOPPING
        self._engine.cancel(_id(trial.custom_job))

    def _row_changed(self, row: Row) -> None:
        parent = self._parents.get(row.id)
        live = self._jobs.get(parent) if parent is not None else None
        if live is None or parent is None:
            return
        if row.state == State.RUNNING and live.row.state == State.PENDING:
            self._engine.say(live.row, texts.RUNNING)
            self._set_state(live, State.RUNNING)
        elif row.state in ENDS:
            # The engine is in the middle of ending the child: look when it has done so.
            self._later(0, lambda: self._child_ended(parent, row.name))

    def _child_ended(self, parent: str, name: str) -> None:
        live = self._jobs.get(parent)
        trial = live.study.trial_of(name) if live is not None else None
        if live is None or trial is None:
            return
        row = self._engine.store.get(_id(name))
        code, message = _error_of(row)
        if trial.state not in (TrialState.ACTIVE, TrialState.STOPPING):
            # Told again, now with the error that came late.
            self._reason(live, trial, message)
            return
        self._measure(live, trial, row)
        study, state = live.study, row.state if row is not None else State.CANCELLED
        study.ended(
            trial,
            state,
            now_ns=int(self._engine.clock.wall() * 1e9),
            infeasible_fails=self._engine.config["infeasible_is_failure"],
        )
        self._reason(live, trial, message)
        self._engine.note(live.row, "trial_end", trial=trial.id, state=TrialState(trial.state).name)
        if trial.id in study.failed_trials and study.too_many_failed() and study.failure is None:
            study.failure = Verdict(
                state=State.FAILED,
                code=code or 3,
                message=f"{len(study.failed_trials)} trials failed; the last was trial {trial.id}: "
                f"{message or trial.infeasible_reason}",
            )
            for other in study.active:
                self._stop_trial(other)
        self._advance(live)

    def _reason(self, live: _Live, trial: Any, message: str) -> None:
        if message and trial.state == TrialState.INFEASIBLE and trial.infeasible_reason != message:
            trial.infeasible_reason = message
            self._keep(live)

    # --- measurements ---

    def _look_later(self, live: _Live) -> None:
        seconds = max(SHORTEST_LOOK, LOOK_SECONDS / self._engine.clock.speed)
        self._engine.clock.call_later_real(seconds, lambda: self._look(live))

    def _look(self, live: _Live) -> None:
        with self._engine.lock:
            if self._jobs.get(live.row.id) is not live:
                return
            changed = False
            for trial in live.study.active:
                if self._measure(live, trial, self._engine.store.get(_id(trial.custom_job))):
                    changed = True
                    if live.study.should_stop(trial):
                        self._engine.note(live.row, "trial_stop", trial=trial.id)
                        self._stop_trial(trial)
            if changed or live.study.message.study_spec.HasField("study_stopping_config"):
                self._advance(live)
            self._look_later(live)

    def _measure(self, live: _Live, trial: Any, row: Row | None) -> bool:
        path = (row.launch or {}).get("metric_file", "") if row is not None else ""
        if not path:
            return False
        try:
            with Path(path).open("rb") as file:
                text = file.read(measurements.MAX_FILE).decode("utf-8", "replace")
        except OSError:
            return False
        started = trial.start_time.ToNanoseconds() / 1e9
        return live.study.measured(trial, measurements.read(text, live.study.metric_ids, started=started))

    # --- what is written ---

    def _set_state(self, live: _Live, state: State) -> None:
        row, message = live.row, live.study.message
        if row.state == state:
            return
        old, row.state = row.state, int(state)
        message.state = int(state)
        now = int(self._engine.clock.wall() * 1e9)
        if state is State.RUNNING and not message.HasField("start_time"):
            message.start_time.FromNanoseconds(now)
        if state in ENDS:
            message.end_time.FromNanoseconds(now)
        self._keep(live, old)
        self._engine.note(row, "state", state=state_name(state))

    def _keep(self, live: _Live, old_state: int | None = None) -> None:
        row, message = live.row, live.study.message
        message.update_time.FromNanoseconds(int(self._engine.clock.wall() * 1e9))
        row.payload = message.SerializeToString()
        self._engine.store.save(row, row.state if old_state is None else old_state)

    def _end(self, live: _Live, verdict: Verdict) -> None:
        engine, row = self._engine, live.row
        del self._jobs[row.id]
        code, message = verdict.code, verdict.message
        if verdict.state is State.CANCELLED:
            message = message or engine.config["cancel_message"]
        row.life = {"error": [code, message]} if code else None
        said = {
            State.SUCCEEDED: texts.COMPLETED,
            State.FAILED: texts.FAILED,
            State.CANCELLED: texts.CANCELLED,
        }
        if verdict.state is State.FAILED:
            engine.say(row, message, "ERROR")
        engine.say(row, said[verdict.state])
        self._set_state(live, verdict.state)
        self._forget([_id(trial.custom_job) for trial in live.study.message.trials])
        folder = self._folders.pop(row.id, None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if code:
            name = "cancel_error_delay_seconds" if verdict.state is State.CANCELLED else "error_delay_seconds"
            self._later(engine.config[name], lambda: self._set_error(row, code, message))
        engine.delete_if_asked(row)
        engine.give_back_quota(row.id)

    def _forget(self, children: list[str]) -> None:
        for child_id in children:
            self._parents.pop(child_id, None)
            self._engine.logs.copies.pop(child_id, None)

    def _set_error(self, row: Row, code: int, message: str) -> None:
        if self._engine.store.get(row.id) is not row:
            return
        job = TuningJob.FromString(row.payload)
        job.error.code, job.error.message = code, message
        job.update_time.FromNanoseconds(int(self._engine.clock.wall() * 1e9))
        row.payload, row.life = job.SerializeToString(), None
        self._engine.store.save(row, row.state)
        self._engine.note(row, "error", code=code, message=message)

    def _later(self, seconds: float, callback: Any) -> None:
        def locked() -> None:
            with self._engine.lock:
                callback()

        self._engine.clock.call_later(seconds, locked)


class _Live:
    """A tuning job that has not ended."""

    def __init__(self, *, row: Row, study: Study) -> None:
        self.row = row
        self.study = study


class _Children(CustomJobs):
    """Stores a custom job as the child of a tuning job."""

    def __init__(self, engine: Engine, child: Child, parent_id: str, jobs: TuningJobs) -> None:
        super().__init__(engine)
        self._child = child
        self._parent_id = parent_id
        self._jobs = jobs

    def submit(self, row: Row, message: Any) -> None:
        """Store the row and begin, with the quota that the parent holds."""
        self._jobs.adopt(row.id, self._parent_id, self._child.trial)
        self._engine.submit(row, message, child=self._child, holds_quota=True)


def _quota_use(message: Any) -> dict[str, int]:
    """What all parallel trials use together."""
    parallel = min(message.parallel_trial_count, message.max_trial_count)
    return {metric: amount * parallel for metric, amount in catalog.quota_use(message.trial_job_spec).items()}


def _error_of(row: Row | None) -> tuple[int, str]:
    """A child's error, also where the API does not show it yet."""
    if row is None:
        return 0, ""
    if row.life and "error" in row.life:
        code, message = row.life["error"]
        return int(code), str(message)
    error = CustomJobs.message.FromString(row.payload).error
    return int(error.code), str(error.message)


def _id(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _load_optuna() -> None:
    """Import it outside the engine's lock: it takes a second.

    :raises ApiError: FAILED_PRECONDITION, it is not installed.
    """
    if importlib.util.find_spec("optuna") is None:
        raise failed_precondition(
            "The default search algorithm needs optuna: install airflow-provider-agent-platform[emulator], or "
            "choose GRID_SEARCH or RANDOM_SEARCH."
        )
    import optuna  # noqa: F401
