"""``make demo``: run the example DAG on a real Airflow on this machine, take its training machine away,
watch it resume.

In: nothing; ``KEEP=1`` in the environment leaves everything running until Ctrl-C. Out: lines for a person
on stdout, and exit 0 only when the promise held: two jobs, one Airflow try, a resume from a step above 0,
an accuracy of 0.9 or more.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from tests.harness.airflow_stack import USER
from tests.harness.laptop import PROJECT, REGION, Laptop
from tests.harness.watch import DAG_ID, Watch

# A machine that needs longer than this is stuck, not slow.
_RUN_SECONDS = 300.0
_MIN_ACCURACY = 0.9

_COLUMNS = ("region", "state", "kind", "runs", "charged", "resumed_from_step", "reached_step", "run_seconds")


class Interrupted(SystemExit):
    """The person at the terminal, or the system, wants this to end."""


class Demo:
    """One demonstration, from an empty directory to the summary."""

    def __init__(self, root: Path, *, keep: bool) -> None:
        self._root = root
        self._keep = keep
        self._started = time.monotonic()

    def run(self) -> list[str]:
        """Run it and return what was not as promised; empty when all was."""
        self._say("starting Airflow on SQLite, the training service's emulator and a Cloud Storage emulator")
        with Laptop(self._root) as laptop:
            self._say(f"all up, on this machine only; Airflow is at {laptop.airflow.url}")
            laptop.airflow.wait_for_dag(DAG_ID)
            run_id = laptop.airflow.api.trigger(DAG_ID)
            watch = Watch(laptop, run_id, self._say)
            run = laptop.airflow.api.wait_for_run(
                DAG_ID, run_id, seconds=_RUN_SECONDS, every=0.25, watch=watch.look
            )
            watch.look()
            self._say(f"run of {DAG_ID}: {run['state']}")
            problems = self._summary(laptop, run_id)
            if self._keep:
                self._stay(laptop)
            self._say("stopping everything")
        return problems

    def _summary(self, laptop: Laptop, run_id: str) -> list[str]:
        api = laptop.airflow.api
        result: dict[str, Any] = api.xcom(DAG_ID, run_id, "train") or {}
        accuracy = api.xcom(DAG_ID, run_id, "evaluate")
        tries = int(api.task_instance(DAG_ID, run_id, "train")["try_number"])
        jobs = laptop.services.api.jobs(PROJECT, REGION)
        ledger: list[dict[str, Any]] = result.get("jobs", [])

        print("\nThe ledger: every job that the task `train` ran, oldest first\n")
        _print_table(ledger)
        resumed = [job["resumed_from_step"] for job in ledger if job.get("resumed_from_step")]
        print(f"\njobs created:            {len(jobs)}")
        print(f"Airflow tries of train:  {tries}")
        print(f"resumed from step:       {', '.join(map(str, resumed)) or '-'}")
        print(f"accuracy:                {'-' if accuracy is None else format(accuracy, '.3f')}\n")

        problems = []
        if len(jobs) != 2:
            problems.append(f"{len(jobs)} jobs were created instead of 2")
        if tries != 1:
            problems.append(f"the Airflow task used {tries} tries instead of 1")
        if not resumed:
            problems.append("no job resumed from a checkpoint")
        if accuracy is None or accuracy < _MIN_ACCURACY:
            problems.append(f"the accuracy is {accuracy}, not {_MIN_ACCURACY} or more")
        if problems:
            for component in (laptop.services.emulator, laptop.airflow.component("scheduler")):
                print(f"--- the end of {component.log}\n{component.tail(15)}", file=sys.stderr)
            print(f"--- the log of train\n{api.log(DAG_ID, run_id, 'train', max(tries, 1))}", file=sys.stderr)
        return problems

    def _stay(self, laptop: Laptop) -> NoReturn:
        print(f"Airflow:   {laptop.airflow.url}\nuser:      {USER}\npassword:  {laptop.airflow.password}")
        print(f"emulator:  {laptop.services.rest_url} (REST), {laptop.services.grpc_target} (gRPC)")
        print(f"storage:   {laptop.services.storage_url}")
        print(f"logs:      {self._root}\n\nIt stays up until you press Ctrl-C.", flush=True)
        while True:
            laptop.check()
            time.sleep(2)

    def _say(self, line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        print(f"{minutes}:{seconds:02d}  {line}", flush=True)


def _print_table(ledger: list[dict[str, Any]]) -> None:
    rows: list[tuple[str, ...]] = [("job", *_COLUMNS)]
    for number, job in enumerate(ledger, start=1):
        cells = (job.get(column) for column in _COLUMNS)
        rows.append((str(number), *("-" if cell is None else str(cell) for cell in cells)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: a second Ctrl-C must not cut the stopping short and leave processes behind.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    print("\nstopping everything", flush=True)
    raise Interrupted(128 + number)


def main() -> int:
    """Run the demo; the exit code of ``make demo``."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    root = Path(tempfile.mkdtemp(prefix="train-digits-demo-"))
    try:
        problems = Demo(root, keep=os.environ.get("KEEP", "0") not in ("", "0")).run()
    except Interrupted:
        shutil.rmtree(root, ignore_errors=True)
        raise
    except Exception as error:
        print(f"\nThe demo failed: {error}\nAll logs are in {root}", file=sys.stderr)
        return 1
    if problems:
        print(f"\nThis was not as promised: {'; '.join(problems)}\nAll logs are in {root}", file=sys.stderr)
        return 1
    shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
