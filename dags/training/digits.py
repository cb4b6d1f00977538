"""Train a small neural network on handwritten digits: the code that runs on the training service.

In: ``--data``, a ``gs://`` object that the task ``prepare`` wrote, and the environment that the service gives
(``AIP_CHECKPOINT_DIR``, ``AIP_MODEL_DIR``) and the provider adds (``AIRFLOW_RESUME_FROM``). Out:
checkpoints on the way, and ``model.joblib`` in ``AIP_MODEL_DIR``. No Airflow here: in production this file
and ``checkpoint_io.py`` lie in the job's image.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
from pathlib import Path

import joblib
import numpy as np  # noqa: TID253 - this is training code: no DAG file imports it
from checkpoint_io import Stop, resume_from, save  # type: ignore[import-not-found]  # found beside this file
from google.cloud import storage  # noqa: TID253 - as above
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

SEED = 20
BATCH = 256
CLASSES = np.arange(10)


def main() -> None:
    """Train, checkpoint, stop when told to, and go on where an earlier run stopped."""
    options = _options()
    # Matrices this small are multiplied faster by one core than by several that wait for each other.
    threadpool_limits(limits=1)
    images, labels = _read_data(options.data)
    model = MLPClassifier(hidden_layer_sizes=(256, 128), learning_rate_init=2e-4, random_state=SEED)
    stop = Stop()

    with resume_from() as (checkpoint, step):
        if checkpoint:
            model = joblib.load(checkpoint / "model.joblib")
    print(f"resuming from step {step}" if step else "starting from step 0", flush=True)

    while step < options.steps:
        # Seeded by the step: a resumed training sees the batches that it would have seen.
        batch = np.random.default_rng([SEED, step]).integers(0, len(images), BATCH)
        model.partial_fit(images[batch], labels[batch], classes=CLASSES)
        step += 1
        if step % 10 == 0:
            print(f"step {step} of {options.steps}, loss {model.loss_:.4f}", flush=True)
        if step % options.save_every == 0 or stop:
            save(step, lambda folder: joblib.dump(model, folder / "model.joblib"))
            print(f"saved a checkpoint at step {step}", flush=True)
        if stop:
            print(f"told to stop at step {step}", flush=True)
            raise SystemExit(stop.exit_code)

    _write_model(model)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="gs:// address of the data set, an .npz file")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save-every", type=int, default=50, help="steps between two checkpoints")
    return parser.parse_args()


def _read_data(uri: str) -> tuple[np.ndarray, np.ndarray]:
    content = storage.Blob.from_uri(uri, client=storage.Client()).download_as_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as data:
        return data["train_images"], data["train_labels"]


def _write_model(model: MLPClassifier) -> None:
    uri = os.environ["AIP_MODEL_DIR"].rstrip("/") + "/model.joblib"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.joblib"
        joblib.dump(model, path)
        storage.Blob.from_uri(uri, client=storage.Client()).upload_from_filename(str(path))
    print(f"wrote the model to {uri}", flush=True)


if __name__ == "__main__":
    main()
