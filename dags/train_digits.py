"""Train a classifier of handwritten digits on Spot machines, and refuse it when it is not good enough.

Three tasks: ``prepare`` puts the data set into Cloud Storage, ``train`` runs ``training/digits.py`` on the
training service, ``evaluate`` reads the model and fails under 90 % accuracy. When the Spot machine is taken
away, ``train`` submits a new job inside the same Airflow try, and the training goes on from its newest
complete checkpoint.

Set two Airflow Variables to run it in your own project: ``train_digits_root`` (a ``gs://`` folder; its
bucket is in the region of the jobs) and ``train_digits_image`` (an image with scikit-learn,
google-cloud-storage, and the two files of ``training/`` in ``/app``). Project and region come from the
connection ``google_cloud_default``.
"""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider.agent_platform.hooks.training_job import TrainingJobHook
from airflow_provider.agent_platform.operators.custom_job import ContainerTrainingOperator

if TYPE_CHECKING:
    from google.cloud.storage import Blob

# One folder for each run of the DAG, and the same one for every try: checkpoints are found again there.
FOLDER = (
    "{{ var.value.get('train_digits_root', 'gs://my-training-bucket/train-digits') }}"
    "/{{ run_id | replace(':', '-') | replace('+', '-') }}"
)
DATA = f"{FOLDER}/data/digits.npz"
IMAGE = "{{ var.value.get('train_digits_image', 'us-docker.pkg.dev/my-project/training/digits:1') }}"
# Where the script lies in the image. An emulator that runs workers as local processes takes a path of this
# machine.
SCRIPT = "{{ var.value.get('train_digits_script', '/app/digits.py') }}"

MIN_ACCURACY = 0.9

with DAG(
    "train_digits",
    schedule=None,
    catchup=False,
    tags=["example", "training"],
    doc_md=__doc__,
) as dag:

    @task
    def prepare(uri: str) -> None:
        """Write the digits that scikit-learn ships to Cloud Storage, split into a part to train on and one
        to test."""
        import numpy as np
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        digits = load_digits()
        train_images, test_images, train_labels, test_labels = train_test_split(
            digits.data / digits.data.max(),
            digits.target,
            test_size=0.2,
            random_state=20,
            stratify=digits.target,
        )
        file = io.BytesIO()
        np.savez_compressed(
            file,
            train_images=train_images,
            train_labels=train_labels,
            test_images=test_images,
            test_labels=test_labels,
        )
        blob(uri).upload_from_string(file.getvalue())
        print(f"wrote {len(train_images)} images to train on and {len(test_images)} to test with to {uri}")

    train = ContainerTrainingOperator(
        task_id="train",
        image=IMAGE,
        command=["python3", SCRIPT],
        args=["--data", DATA, "--steps", "400", "--save-every", "50"],
        machine_type="e2-standard-4",
        strategy="SPOT",
        base_output_directory=FOLDER,
        queue_timeout=timedelta(hours=6),
        # This training ends within a minute. Leave the default, 30 seconds, where it takes hours.
        poll_interval=5,
        retries=2,
    )

    @task
    def evaluate(data_uri: str, model_uri: str) -> float:
        """Return the accuracy on images that the training never saw; fail when it is too low."""
        import joblib
        import numpy as np

        with np.load(io.BytesIO(blob(data_uri).download_as_bytes()), allow_pickle=False) as data:
            images, labels = data["test_images"], data["test_labels"]
        # A joblib file runs code when it is read: this one comes from our own training.
        model = joblib.load(io.BytesIO(blob(model_uri).download_as_bytes()))
        accuracy = float(model.score(images, labels))
        print(f"accuracy {accuracy:.3f} on {len(labels)} images")
        if accuracy < MIN_ACCURACY:
            raise AirflowFailException(
                f"accuracy {accuracy:.3f} is under {MIN_ACCURACY}: the model is not used"
            )
        return accuracy

    def blob(uri: str) -> Blob:
        """Return a Cloud Storage object, by the connection that the training job uses too."""
        from google.cloud.storage import Blob

        return Blob.from_uri(uri, client=TrainingJobHook().storage_client())

    prepare(DATA) >> train >> evaluate(DATA, f"{FOLDER}/model/model.joblib")
