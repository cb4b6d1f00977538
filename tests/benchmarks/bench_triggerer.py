"""What waiting costs in a real triggerer: its processor time beside triggers that only sleep, its memory, and how
late an end is seen.

A triggerer of Airflow's own runs, on PostgreSQL where its programs are installed, else on SQLite; its tasks are
written into the database (``deferred_tasks``). Nothing else of Airflow runs: what is measured is its two processes.
For the cost the jobs are RUNNING for ever on a stub; for the lateness they are those of the emulator's simulated
runner and end at random moments, and a task counts as seen when the triggerer has set it to "scheduled".

Every kind of trigger gets a fresh triggerer. The google provider's is measured as well where it is installed. Figures
that end in ``_over_sleeping`` are differences within this run.

The kind "checkpoints" is ours with an output directory for each job, looked at for checkpoints, of a `checkpoint_interval` of
48 minutes: each is looked at every three minutes, five times as often as with the default. It is measured when asked for,
over at least three minutes.

``BENCH_TRIGGERER_SIZES`` ("1000"; 10000 takes nine minutes more), ``BENCH_TRIGGERER_KINDS`` ("sleeping,ours,google"),
``BENCH_TRIGGERER_SECONDS`` (60, of each measurement), ``BENCH_TRIGGERER_LATENCY`` (1000 jobs; 0 leaves it out) make
another run.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from airflow_provider.agent_platform.checkpoints.watch import LOOK_SECONDS, LOOKS_PER_INTERVAL
from airflow_provider.agent_platform.triggers.training_job import TRIGGER_CLASS_PATH
from tests.benchmarks import compared_triggers
from tests.benchmarks.deferred_tasks import DAG_FILE, ROOT, defer
from tests.benchmarks.ending_jobs import ending_jobs
from tests.benchmarks.job_service_stub import Stub, job_name, running_stub
from tests.benchmarks.measured_triggerer import running_triggerer, scheduled
from tests.checkpoints.storage import StorageServer
from tests.harness.airflow_stack import AirflowStack
from tests.harness.postgres import PostgresServer, find_binaries
from tests.harness.waiting import wait_until

POLL_INTERVAL = 30.0
"""The default of the operators."""
SHORT_INTERVAL = 10.0
"""Of the jobs that end. What Airflow adds (a second or two) is the same at every interval, so a short one is the harder
test of the ratio."""
ENDING_SECONDS = 150.0
"""From the first end to the last one: some seven a second of a thousand jobs."""
SPARE = 100
"""A triggerer that is full asks its database less, and writes a line about it each second."""
SETTLE = 15.0
"""Seconds between the last trigger's first look and the measurement."""
CONNECTION = (
    '{"conn_type": "google_cloud_platform", "extra": {"project": "project", "region": "us-central1"}}'
)


def main() -> dict[str, float]:
    """Measure everything; answer the figures."""
    sizes = [int(size) for size in _setting("SIZES", "1000").split(",") if size]
    kinds = _setting("KINDS", "sleeping,ours,google").split(",")
    if "google" in kinds and (why := compared_triggers.why_not_google()):
        print(f"The google provider's trigger is not measured: {why}.", file=sys.stderr)
        kinds.remove("google")
    figures: dict[str, float] = {}
    with ExitStack() as exits:
        stack = exits.enter_context(_airflow(capacity=max([*sizes, _latency_jobs()]) + SPARE))
        for size in sizes:
            with running_stub(size) as stub:
                row = _costs(stack, stub, size, kinds)
            figures.update({f"{name}_at_{size}": value for name, value in row.items()})
        if jobs := _latency_jobs():
            figures.update(_lateness(stack, jobs))
    return figures


def _setting(name: str, default: str) -> str:
    return os.environ.get(f"BENCH_TRIGGERER_{name}", default)


def _latency_jobs() -> int:
    return int(_setting("LATENCY", "1000"))


@contextmanager
def _airflow(capacity: int) -> Iterator[AirflowStack]:
    """A database and the settings of an Airflow; no process runs yet."""
    root = Path(tempfile.mkdtemp(prefix="bench-triggerer-"))
    dags = root / "dags"
    dags.mkdir()
    (dags / "waiting.py").write_text(DAG_FILE)
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with ExitStack() as exits:
        exits.callback(shutil.rmtree, root, ignore_errors=True)
        binaries = find_binaries()
        url = None
        if binaries is not None:
            url = exits.enter_context(PostgresServer(binaries)).create_database("airflow")
        stack = AirflowStack(
            root / "airflow",
            dags,
            database_url=url,
            env={
                "PYTHONPATH": os.pathsep.join(path),
                "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": CONNECTION,
                "AIRFLOW__TRIGGERER__CAPACITY": str(capacity),
            },
        )
        exits.callback(stack.close)
        stack.prepare()
        yield stack


# --- what waiting costs -----------------------------------------------------------------------------


def _costs(stack: AirflowStack, stub: Stub, size: int, kinds: list[str]) -> dict[str, float]:
    row: dict[str, float] = {}
    for kind in kinds:
        classpath, kwargs, word = _triggers(kind, stub, size)
        defer(stack, f"{kind}-{size}", classpath, kwargs)
        stack.env["AGENT_PLATFORM_EMULATOR_HOST"] = stub.target
        with ExitStack() as exits:
            settle, window = SETTLE, float(_setting("SECONDS", "60"))
            if kind == "checkpoints":
                stack.env["STORAGE_EMULATOR_HOST"] = exits.enter_context(StorageServer()).url
                settle, window = settle + LOOK_SECONDS, max(window, LOOK_SECONDS)
            triggerer = exits.enter_context(running_triggerer(stack))
            all_said = triggerer.wait_until_all_said(f"{kind}-{size}", word, size, seconds=600)
            time.sleep(settle)
            settled_at, calls, spent, begun = time.time(), stub.calls(), triggerer.spent(), time.monotonic()
            time.sleep(window)
            seconds = time.monotonic() - begun
            found = triggerer.spent().since(spent, seconds)
            found["calls_per_min"] = (stub.calls() - calls) * 60 / seconds
            found["all_begun_s"] = all_said
            found.update(triggerer.memory_mb())
            found.update({f"later_{name}": value for name, value in triggerer.blocked(settled_at).items()})
            found.update(triggerer.blocked())
        row.update({f"{kind}_{name}": value for name, value in found.items()})
        print(size, kind, {k: round(v, 3) for k, v in found.items()}, file=sys.stderr)
    for kind in kinds:
        if kind != "sleeping" and "sleeping" in kinds:
            over = row[f"{kind}_cpu_s_per_min"] - row["sleeping_cpu_s_per_min"]
            row[f"{kind}_cpu_s_per_min_over_sleeping"] = over
    return row


def _triggers(kind: str, stub: Stub, size: int) -> tuple[str, list[dict[str, Any]], str]:
    """Answer a class path, the kwargs of each trigger, and what it logs when it has begun."""
    if kind == "sleeping":
        return compared_triggers.SLEEPING, [{"seconds": 1e6}] * size, "starting"
    names = [job_name(number) for number in range(size)]
    if kind == "google":
        return (
            compared_triggers.GOOGLES,
            [{"target": stub.target, "job_name": name, "poll_interval": POLL_INTERVAL} for name in names],
            "JOB_STATE_RUNNING",
        )
    common: dict[str, Any] = {"version": 1, "poll_interval": POLL_INTERVAL, "run_timeout": 1e9}
    if kind == "ours":
        return TRIGGER_CLASS_PATH, [{**common, "job_name": name} for name in names], "RUNNING"
    if kind == "checkpoints":
        return (
            TRIGGER_CLASS_PATH,
            [
                {
                    **common,
                    "job_name": name,
                    "base_output_directory": f"gs://bucket/run-{number}",
                    "checkpoint_interval": LOOK_SECONDS * LOOKS_PER_INTERVAL,
                }
                for number, name in enumerate(names)
            ],
            "RUNNING",
        )
    raise ValueError(f"no such kind of trigger: {kind}")


# --- how late an end is seen ------------------------------------------------------------------------


def _lateness(stack: AirflowStack, count: int) -> dict[str, float]:
    first = 40.0 + count / 25  # by then all of them are waited for
    with ending_jobs(count, first, first + ENDING_SECONDS) as jobs:
        common: dict[str, Any] = {"version": 1, "poll_interval": SHORT_INTERVAL}
        defer(stack, "ending", TRIGGER_CLASS_PATH, [{**common, "job_name": name} for name in jobs.names])
        stack.env["AGENT_PLATFORM_EMULATOR_HOST"] = jobs.target
        with running_triggerer(stack) as triggerer:
            triggerer.wait_until_all_said("ending", "RUNNING", count, seconds=first)
            wait_until(
                lambda: len(scheduled(stack, "ending")) == count, "the tasks to go on", seconds=400, every=1
            )
            said, seen = triggerer.said("ending", "SUCCEEDED"), scheduled(stack, "ending")
            blocked = triggerer.blocked()
        ends = [end.timestamp() for end in jobs.ends()]
    late = sorted(seen[number].timestamp() - end for number, end in enumerate(ends))
    # The last lines of a trigger may miss its file: Airflow's supervisor closes it when the trigger is reported ended,
    # and reads that before lines that wait.
    ours = sorted(moment - ends[number] for number, moment in said.items())
    airflows = sorted(seen[number].timestamp() - said[number] for number in said)
    figures = {
        "interval_s": SHORT_INTERVAL,
        "late_p50_s": _at(late, 0.5),
        "late_p99_s": _at(late, 0.99),
        "late_most_s": late[-1],
        "late_p99_of_interval": _at(late, 0.99) / SHORT_INTERVAL,
        "late_logged": len(said),
        "late_until_logged_p99_s": _at(ours, 0.99),
        "late_from_log_to_scheduled_p50_s": _at(airflows, 0.5),
        "late_from_log_to_scheduled_p99_s": _at(airflows, 0.99),
    }
    return {**figures, **{f"late_{name}": value for name, value in blocked.items()}}


def _at(ordered: Sequence[float], part: float) -> float:
    return ordered[math.ceil(part * len(ordered)) - 1]


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:<48}{value:>14,.3f}")
