"""Google's Python SDK against the emulator: what a user of the SDK writes, with the endpoint set and
nothing else.

A program, so that the SDK is configured from its environment and options alone::

    python sdk_jobs.py --transport rest --endpoint http://127.0.0.1:8086
    GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=front.pem python sdk_jobs.py --transport grpc --endpoint localhost:8443

Prints one JSON object with what it saw.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.cloud.aiplatform import hyperparameter_tuning, jobs

POLL_SECONDS = 0.2


def pool(*command: str) -> list[dict[str, Any]]:
    return [
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "container_spec": {"image_uri": "gcr.io/my-project/trainer", "command": list(command)},
        }
    ]


def run_a_job() -> dict[str, Any]:
    job = aiplatform.CustomJob(
        display_name="sdk-job",
        worker_pool_specs=pool(sys.executable, "-c", "print('trained')"),
        labels={"from": "sdk"},
    )
    job.run(timeout=3600, sync=True)
    again = aiplatform.CustomJob.get(job.resource_name)
    listed = aiplatform.CustomJob.list(filter='labels.from="sdk" AND state="JOB_STATE_SUCCEEDED"')
    return {
        "state": again.state.name,
        "listed": [one.resource_name for one in listed],
        "name": job.resource_name,
    }


def run_a_failing_job() -> str:
    job = aiplatform.CustomJob(
        display_name="sdk-failing", worker_pool_specs=pool(sys.executable, "-c", "raise SystemExit(3)")
    )
    try:
        job.run(sync=True)
    except RuntimeError:
        # The service fills in the error about a minute after the end, so that the SDK's own text may lack it.
        ended: Any = job
        while not (ended.error and ended.error.message):
            time.sleep(POLL_SECONDS)
            ended = aiplatform.CustomJob.get(job.resource_name)
        return str(ended.error)
    raise AssertionError("a job that exits 3 must fail")


def cancel_and_delete() -> dict[str, Any]:
    job = aiplatform.CustomJob(
        display_name="sdk-long", worker_pool_specs=pool(sys.executable, "-c", "import time; time.sleep(600)")
    )
    job.submit()
    job.cancel()
    try:
        job.wait_for_completion()
    except RuntimeError as error:
        message = str(error)
    state = job.state.name
    job.delete()
    return {
        "state": state,
        "message": message,
        "left": [j.name for j in aiplatform.CustomJob.list(filter='display_name="sdk-long"')],
    }


TRIAL = """
import json, os, sys
x = float(next(a for a in sys.argv if a.startswith('--x=')).split('=')[1])
with open(os.environ['CLOUD_ML_HP_METRIC_FILE'], 'w') as metrics:
    print(json.dumps({'timestamp': 1.0, 'trial': os.environ['CLOUD_ML_TRIAL_ID'], 'loss': str((x - 2) ** 2),
                      'global_step': '1', 'checkpoint_path': ''}), file=metrics)
"""


def run_a_tuning_job() -> dict[str, Any]:
    trial = aiplatform.CustomJob(
        display_name="sdk-trial", worker_pool_specs=pool(sys.executable, "-c", TRIAL)
    )
    job = aiplatform.HyperparameterTuningJob(
        display_name="sdk-tuning",
        custom_job=trial,
        metric_spec={"loss": "minimize"},
        parameter_spec={"x": hyperparameter_tuning.DoubleParameterSpec(min=0, max=4, scale="linear")},
        max_trial_count=4,
        parallel_trial_count=2,
        search_algorithm="random",
    )
    job.run(sync=True)
    return {
        "state": job.state.name,
        "trials": [
            {
                "id": trial.id,
                "state": trial.state.name,
                "x": trial.parameters[0].value,
                "loss": trial.final_measurement.metrics[0].value,
            }
            for trial in job.trials
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--transport", choices=("grpc", "rest"), required=True)
    parser.add_argument("--tuning", action="store_true")
    options = parser.parse_args()
    jobs._JOB_WAIT_TIME = POLL_SECONDS  # type: ignore[assignment]  # the SDK looks every five seconds
    aiplatform.init(
        project="my-project",
        location="us-central1",
        staging_bucket="gs://my-bucket",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]  # google-auth has no types there
        api_endpoint=options.endpoint,
        api_transport=options.transport,
    )
    if options.tuning:
        print(json.dumps({"tuning": run_a_tuning_job()}))
        return
    print(json.dumps({"job": run_a_job(), "failing": run_a_failing_job(), "cancelled": cancel_and_delete()}))


if __name__ == "__main__":
    main()
