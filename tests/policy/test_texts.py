"""What is read out of the platform's sentences."""

from __future__ import annotations

import pytest

from airflow_provider.agent_platform.policy import texts
from airflow_provider.agent_platform.policy.outcome import FoundError
from tests.policy.builders import QUOTA, STOCKOUT, exited

LOGS = (
    " To find out more about why your job exited please check the logs: https://console.cloud.google.com/logs/"
    "viewer?project=1&resource=ml_job%2Fjob_id%2F2&advancedFilter=x"
)


@pytest.mark.parametrize(
    ("text", "exit_"),
    [
        (exited(1), texts.Exit(replica="workerpool0-0", exit_code=1, reason="Error")),
        (exited(1, rest=""), texts.Exit(replica="workerpool0-0", exit_code=1)),
        (exited(1, rest=LOGS), texts.Exit(replica="workerpool0-0", exit_code=1)),
        (exited(128, "workerpool1-12", " Termination reason: StartError. \n Termination log message: failed"),
         texts.Exit(replica="workerpool1-12", exit_code=128, reason="StartError")),
        (exited("9(SIGKILL)", "master 0", ""), texts.Exit(replica="master 0", exit_code=9, signal="SIGKILL")),
        (exited(-9, "ps 3", ""), texts.Exit(replica="ps 3", exit_code=-9)),
        ("The replica worker 2 ran out of memory and exited with a non-zero status of 137.",
         texts.Exit(replica="worker 2", exit_code=137)),
        ("The replica master 0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
         texts.Exit(replica="master 0", exit_code=9, signal="SIGKILL")),
        ("The replica workerpool0-0 ran out of memory.", texts.Exit(replica="workerpool0-0")),
        ("Something. " + exited(1), None),
        ("The replica workerpool0-0 exited with a non-zero status of many.", None),
        ("the replica workerpool0-0 exited with a non-zero status of 1.", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_first_sentence_tells_replica_code_signal_and_reason(text: str, exit_: texts.Exit | None) -> None:
    assert texts.first_exit(text) == exit_


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (exited(1), ("workerpool0-0",)),
        (exited(1, "ps 0") + exited(1, "ps 1") + LOGS, ("ps 0", "ps 1")),
        (exited(1, "ps 0", " Termination reason: Error. ") + exited(1, "ps 1"), ("ps 0", "ps 1")),
        (exited(1, "ps 0", "") + exited(1, "ps 1", "") + " " + exited(1, "ps 0", ""), ("ps 0", "ps 1")),
        (exited(3, rest="\nTraceback\n  ValueError: x\n") + exited(1, "workerpool1-0"),
         ("workerpool0-0", "workerpool1-0")),
        ("The replica ps 0 ran out of memory. The replica ps 1 ran out-of-memory.", ("ps 0", "ps 1")),
        ("Replicas low on memory: workerpool0. Specify a machine", ("workerpool0",)),
        ("Replicas low on disk: workerpool0, workerpool1. Specify a", ("workerpool0", "workerpool1")),
        ("Replicas low on memory: master 0, worker 1. Specify a", ("master 0", "worker 1")),
        ("Replicas low on memory: workerpool0", ("workerpool0",)),
        ("Nobody knows. " + exited(1), ()),
        (STOCKOUT, ()),
    ],
)  # fmt: skip
def test_every_failed_replica_is_named_once_in_the_order_of_the_text(
    text: str, names: tuple[str, ...]
) -> None:
    assert texts.replicas_in(text) == names


def test_a_replica_in_the_middle_of_a_users_line_is_not_named() -> None:
    quoted = exited(
        1, rest="\nRuntimeError: seen 'The replica workerpool9-9 exited with a non-zero status of 3'"
    )

    assert texts.replicas_in(quoted) == ("workerpool0-0",)


@pytest.mark.parametrize(
    ("text", "region"),
    [(STOCKOUT, "us-central1"), ("Resources are insufficient in region: europe-west4.", "europe-west4"),
     ("Resources are insufficient in region", None), ("In short: " + STOCKOUT, None)],
)  # fmt: skip
def test_a_stockout_names_its_region(text: str, region: str | None) -> None:
    assert texts.region_in(text) == region


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        (QUOTA, ("aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",)),
        ("The following quota metrics exceed quota limits: a.com/x_1,a.com/y, ", ("a.com/x_1", "a.com/y")),
        ("The following quota metrics exceed quota limits: a.com/x, a.com/x", ("a.com/x",)),
        ("The following quota metrics exceed quota limits: a.com/x.\nSee https://b.com/c", ("a.com/x",)),
        ("The following quota metrics exceed quota limits", ()),
        ("Look: " + QUOTA, ()),
    ],
)
def test_a_quota_text_names_its_metrics(text: str, metrics: tuple[str, ...]) -> None:
    assert texts.quota_metrics_in(text) == metrics


def test_found_errors_are_read_by_field() -> None:
    text = (
        "List of found errors:\t1.Field: job_spec.worker_pool_specs[0].machine_spec.accelerator_type; Message: Not "
        "supported; really.\t2.Field: job_spec.scheduling; Message: Bad.\nTwo lines.\t"
    )

    assert texts.found_errors_in(text) == (
        FoundError(
            field="job_spec.worker_pool_specs[0].machine_spec.accelerator_type",
            message="Not supported; really.",
        ),
        FoundError(field="job_spec.scheduling", message="Bad.\nTwo lines."),
    )


def test_found_errors_are_read_at_the_beginning_only() -> None:
    assert texts.found_errors_in("x List of found errors:\t1.Field: a; Message: b") == ()


@pytest.mark.parametrize(
    ("message", "text"),
    [("  a b", "a b"), ("\n\ta", "a"), ("400 List of", "List of"), (" 429 The", "The"), ("4000 x", "4000 x"),
     ("", ""), ("40 x", "40 x"), ("400", "400")],
)  # fmt: skip
def test_white_space_and_the_clients_http_status_are_taken_off(message: str, text: str) -> None:
    assert texts.normalised(message) == text


def test_a_pattern_counts_at_the_beginning_only() -> None:
    assert texts.begins_with("ab+", "abbc")
    assert not texts.begins_with("ab+", "xab")
    assert texts.begins_with("a.b", "a\nb")
