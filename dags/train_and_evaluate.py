"""Look at a model while it is still being trained.

``train`` writes a checkpoint every 500 steps. ``reached`` waits for the first of them, without a worker slot, and
``evaluate_early`` measures it while the training goes on: what goes wrong is known after minutes, not at the
end. ``evaluate`` measures the finished model.

It trains what ``train_digits.py`` trains, with the same two files of ``training/`` in the image, and reads the
same Airflow Variables. Start it with ``{"steps": 10000}`` for a longer training.
"""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator
from airflow_provider.agent_platform.sensors.checkpoint import CheckpointSensor

if TYPE_CHECKING:
    from google.cloud.storage import Blob

# A folder of its own for each run: a checkpoint that is found in it is one of this run.
FOLDER = (
    "{{ var.value.get('train_digits_root', 'gs://my-training-bucket/train-digits') }}"
    "/evaluated/{{ run_id | replace(':', '-') | replace('+', '-') }}"
)
DATA = f"{FOLDER}/data/digits.npz"
IMAGE = "{{ var.value.get('train_digits_image', 'us-docker.pkg.dev/my-project/training/digits:1') }}"
SCRIPT = "{{ var.value.get('train_digits_script', '/app/digits.py') }}"

EARLY_STEP = 500
MIN_EARLY_ACCURACY = 0.5
MIN_ACCURACY = 0.9

with DAG(
    "train_and_evaluate",
    schedule=None,
    catchup=False,
    params={"steps": Param(2000, type="integer", minimum=EARLY_STEP)},
    tags=["example", "training"],
    doc_md=__doc__,
) as dag:

    @task
    def prepare(uri: str) -> None:
        """Write the digits that scikit-learn ships to Cloud Storage, split into two parts."""
        import numpy as np
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        digits = load_digits()
        parts = train_test_split(
            digits.data / digits.data.max(),
            digits.target,
            test_size=0.2,
            random_state=20,
            stratify=digits.target,
        )
        names = ("train_images", "test_images", "train_labels", "test_labels")
        file = io.BytesIO()
        np.savez_compressed(file, **dict(zip(names, parts, strict=True)))
        blob(uri).upload_from_string(file.getvalue())

    train = ContainerTrainingOperator(
        task_id="train",
        image=IMAGE,
        command=["python3", SCRIPT],
        args=["--data", DATA, "--steps", "{{ params.steps }}", "--save-every", "500"],
        machine_type="e2-standard-4",
        strategy="SPOT",
        base_output_directory=FOLDER,
        # This training ends within minutes. Leave the default, 30 seconds, where it takes hours.
        poll_interval=5,
        retries=2,
    )

    # It starts beside the training, not after it. A checkpoint is found here only when it is complete. When
    # ``train`` ends without one, the sensor fails at once; one that hangs is what the timeout is for.
    reached = CheckpointSensor(
        task_id="reached",
        base_output_directory=FOLDER,
        min_step=EARLY_STEP,
        training_task_id="train",
        # One listing of the folder each time. The default, 60 seconds, is right for a long training.
        poke_interval=5,
        timeout=timedelta(hours=6).total_seconds(),
    )

    @task
    def evaluate_early(data_uri: str, checkpoint: dict[str, Any]) -> float:
        """Return the accuracy of a checkpoint; fail when the training is on a wrong way.

        A failure here tells you. It does not stop the training: mark ``train`` as failed to cancel its job.
        """
        accuracy = accuracy_of(f"{checkpoint['uri']}/model.joblib", data_uri)
        print(f"accuracy {accuracy:.3f} at step {checkpoint['step']}")
        if accuracy < MIN_EARLY_ACCURACY:
            raise AirflowFailException(
                f"accuracy {accuracy:.3f} at step {checkpoint['step']} is under {MIN_EARLY_ACCURACY}"
            )
        return accuracy

    @task
    def evaluate(data_uri: str, model_uri: str) -> float:
        """Return the accuracy of the finished model; fail when it is too low."""
        accuracy = accuracy_of(model_uri, data_uri)
        print(f"accuracy {accuracy:.3f} at the end")
        if accuracy < MIN_ACCURACY:
            raise AirflowFailException(
                f"accuracy {accuracy:.3f} is under {MIN_ACCURACY}: the model is not used"
            )
        return accuracy

    def accuracy_of(model_uri: str, data_uri: str) -> float:
        """Measure a model on images that the training never saw."""
        import joblib
        import numpy as np

        with np.load(io.BytesIO(blob(data_uri).download_as_bytes()), allow_pickle=False) as data:
            images, labels = data["test_images"], data["test_labels"]
        # A joblib file runs code when it is read: this one comes from our own training.
        model = joblib.load(io.BytesIO(blob(model_uri).download_as_bytes()))
        return float(model.score(images, labels))

    def blob(uri: str) -> Blob:
        """Return a Cloud Storage object, by the connection that the training job uses too."""
        from google.cloud.storage import Blob

        return Blob.from_uri(uri, client=TrainingJobHook().storage_client())

    prepared = prepare(DATA)
    prepared >> [train, reached]
    evaluate_early(DATA, reached.output)  # type: ignore[arg-type]  # its value, when the task runs
    train >> evaluate(DATA, f"{FOLDER}/model/model.joblib")
