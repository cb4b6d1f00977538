"""All of it on one machine: Airflow, the emulator of the training service and a Cloud Storage emulator.

In: a directory. Out: a running set-up that knows its project, region and bucket. Not here: what is run on it
(``demo``, ``tests/system``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.harness.airflow_stack import AirflowStack
from tests.harness.services import Services

REPOSITORY = Path(__file__).resolve().parents[2]
DAGS = REPOSITORY / "dags"

PROJECT = "demo-project"
REGION = "us-central1"
BUCKET = "demo-training"

_CONNECTION = {"conn_type": "google_cloud_platform", "extra": {"project": PROJECT, "region": REGION}}

# What dags/train_digits.py asks for: in production these are Airflow Variables.
_VARIABLES = {
    "train_digits_root": f"gs://{BUCKET}/train-digits",
    "train_digits_script": str(DAGS / "training" / "digits.py"),
}


class Laptop:
    """The whole set-up for as long as the ``with`` block runs.

    :param root: takes everything that is written; made if absent.
    :param dags_folder: the DAGs to run.
    :param database_url: Airflow's database; ``None`` for SQLite below ``root``.
    :param speed: how many times faster than the real service the emulator's delays pass.
    :param runner: the emulator's: ``process`` or ``simulated``.
    :param airflow_env: more environment for Airflow, over the settings of the stack.
    """

    def __init__(
        self,
        root: Path,
        *,
        dags_folder: Path = DAGS,
        database_url: str | None = None,
        speed: float = 60,
        runner: str = "process",
        airflow_env: Mapping[str, str] | None = None,
    ) -> None:
        self.services = Services(root / "services", bucket=BUCKET, speed=speed, runner=runner)
        self.airflow = AirflowStack(
            root / "airflow",
            dags_folder,
            database_url=database_url,
            env={
                **self.services.client_env,
                "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(_CONNECTION),
                **{f"AIRFLOW_VAR_{name.upper()}": value for name, value in _VARIABLES.items()},
                **(airflow_env or {}),
            },
        )

    def __enter__(self) -> Laptop:
        try:
            # The emulators start while Airflow makes its database.
            self.services.start()
            self.airflow.prepare()
            self.services.wait_ready()
            self.airflow.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def check(self) -> None:
        """Raise when a process has died by itself."""
        self.services.check()
        self.airflow.check()

    def pids(self) -> list[int]:
        """Return the ids of every process of the set-up."""
        return [*self.airflow.pids(), *(pid for each in self.services.components for pid in each.members())]

    def close(self) -> None:
        """Stop Airflow first, so that nobody asks emulators that are gone."""
        try:
            self.airflow.close()
        finally:
            self.services.close()
