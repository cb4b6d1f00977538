"""docs/failures.md says what the code does, because the code makes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airflow_provider.agent_platform.policy.failures import FAILURES, EndedBy, FailureKind
from airflow_provider.agent_platform.policy.page import failures_page
from airflow_provider.agent_platform.policy.row import FailureRow
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.policy.table_text import (
    action_of,
    conditions_of,
    costs,
    costs_header,
    delays,
    markdown,
    rows,
)

K = FailureKind
PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
BY_ID = {row.id: row for row in FAILURES}
LINES = {line[0]: line for line in rows()}


def test_the_page_is_the_one_that_the_code_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == failures_page(), (
        "make it again: agent-platform explain --table --format markdown > docs/failures.md"
    )


def test_the_page_names_every_kind_and_every_row() -> None:
    page = failures_page()

    assert all(kind.value in page for kind in FailureKind)
    assert all(f"| {row.id} |" in page for row in FAILURES)


def test_a_line_tells_a_row() -> None:
    assert LINES["crash"] == (
        "crash",
        "CRASH",
        "JOB",
        "failed; text begins with `The replica <replica> exited with a non-zero status of <n>`; exit 6, 11, 134, 139",
        "4",
        "4",
        "RETRY",
        "SIGABRT, SIGSEGV: the whole job up to 3 times more (D); also with disable_retries (I)",
    )
    assert LINES["internal"][4] == "3 (1 with disable_retries)"
    assert LINES["act-as"][2] == "JOB, SUBMIT"
    assert LINES["succeeded"][1] == "success"


def test_conditions_are_told_in_words() -> None:
    told = {row.id: conditions_of(row) for row in FAILURES}

    assert told["succeeded"] == "state SUCCEEDED"
    assert told["lost"] == "we saw lost"
    assert told["preempted"] == (
        "failed; text begins with `Resources are insufficient in region`; strategy LOW_COST, SPOT; it had started"
    )
    assert told["start-error"].endswith("; reason ContainerCannotRun, StartError")
    assert told["denied-at-submit"] == "code 7, 16"
    assert told["cancelled-before-start"] == "state CANCELLED; not: it had started"
    assert told["cancelled-by-us"] == "state CANCELLED; cancelled by us"
    assert told["no-error"] == "failed; no error text"
    assert told["scheduling-timeout"] == (
        "state FAILED/CANCELLED/EXPIRED/PARTIALLY_SUCCEEDED; ran for its whole timeout"
    )
    assert told["unknown"] == "anything else"
    assert told["ran-out-of-memory"] == "failed; text begins with `The replica <replica> ran out of memory`"
    assert told["permission"] == "text begins with `Permission '...' denied`"
    assert told["bucket-region"] == "text begins with `The Cloud Storage bucket of ... is in location`"
    assert told["refused-spec"] == (
        "text begins with `Machine type ... is not supported` or `Accelerator ... is not supported` or "
        "`EnvVar names must be unique`"
    )
    assert told["timeout-text"] == "state CANCELLED; text begins with `...timeout` or `timed out`"


def test_no_condition_is_told_as_its_opposite() -> None:
    row = FailureRow(
        id="x",
        kind=None,
        states=frozenset({JobState.FAILED}),
        cancelled_by_us=False,
        timed_out=False,
        empty=False,
        runs=1,
        charged=0,
        source="s",
    )

    both = frozenset({EndedBy.LOST, EndedBy.RUN_TIMEOUT})
    assert conditions_of(replace(BY_ID["lost"], ended_by=both)) == "we saw lost, run_timeout"
    assert conditions_of(row) == (
        "state FAILED; not: cancelled by us; not: ran for its whole timeout; not: no error text"
    )


def test_actions_are_told_in_words() -> None:
    assert action_of(None) == "SUCCEED"
    assert action_of(K.USER_CODE) == "FAIL"
    assert action_of(K.CRASH) == "RETRY"
    assert action_of(K.OUT_OF_MEMORY) == "REQUEUE on the next of machine_types, else FAIL"
    assert action_of(K.OUT_OF_DISK) == "REQUEUE on the next of machine_types, else FAIL"
    assert action_of(K.STOCKOUT) == "REQUEUE within queue_timeout"
    assert LINES["stockout"][6] == "REQUEUE within queue_timeout"
    assert LINES["stockout-after-start"][6] == "REQUEUE if it made progress, else RETRY"
    assert action_of(K.PREEMPTED) == "REQUEUE if it made progress, else RETRY"


def test_the_table_of_costs_has_plain_retries_beside_ours() -> None:
    by_kind = {line[0]: line[1:] for line in costs()}

    assert costs_header() == (
        "kind", "retries=0", "retries=1", "retries=2", "retries=3", "retries=4", "retries=5"
    )  # fmt: skip
    assert list(by_kind) == [kind.value for kind in FailureKind]
    assert by_kind["USER_CODE"] == ("1 / 1", "2 / 1", "3 / 1", "4 / 1", "5 / 1", "6 / 1")
    assert by_kind["CRASH"] == ("4 / 4", "8 / 4", "12 / 4", "16 / 4", "20 / 8", "24 / 8")
    assert by_kind["INTERNAL"] == ("3 / 3", "6 / 3", "9 / 3", "12 / 4", "15 / 5", "18 / 6")
    assert by_kind["STOCKOUT"] == tuple(f"{runs} / waits" for runs in (4, 8, 12, 16, 20, 24))


def test_the_table_of_delays_has_the_kinds_that_submit_again() -> None:
    told = {line[0]: line[1:] for line in delays()}

    assert told["STOCKOUT"] == ("1 min", "15 min")
    assert told["OUT_OF_MEMORY"] == ("5 s", "1 min")
    assert "USER_CODE" not in told
    assert len(told) == 9


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert markdown(["a", "b"], [("x|y", "z")]) == "| a | b |\n| --- | --- |\n| x\\|y | z |\n"
