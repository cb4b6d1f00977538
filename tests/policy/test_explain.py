"""The command `agent-platform explain`."""

from __future__ import annotations

import json

import pytest

from airflow_provider.agent_platform.policy.decide import Action, Progress
from airflow_provider.agent_platform.policy.explain import explain, main
from airflow_provider.agent_platform.policy.failures import (
    FailureEvidence,
    FailureKind,
    FailurePhase,
    FailureRule,
)
from airflow_provider.agent_platform.policy.page import failures_page
from airflow_provider.agent_platform.policy.states import JobState
from tests.policy.builders import INTERNAL, LOW_ON_MEMORY, QUOTA, STOCKOUT, T0, exited


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, str]:
    assert main(["explain", *argv]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_the_example_of_the_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--state", "FAILED", "--code", "8", "--message", LOW_ON_MEMORY]) == 0

    assert capsys.readouterr().out == (
        "kind:     OUT_OF_MEMORY\n"
        "rule:     low-on-memory - today's text, code 8 (R)\n"
        f"evidence: {LOW_ON_MEMORY}\n"
        "replicas: workerpool0\n"
        "runs:     1 happened at most, 0 charged, 1 of 1 left (retries=0)\n"
        "decision: FAIL\n"
        "reason:   it needs a machine with more memory, and machine_types has no larger one left\n"
        "hint:     Give a machine type with more memory, or list larger ones in machine_types=[...]; or use less "
        "of it.\n"
    )


def test_all_replicas_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    message = exited(1, "ps 0", " ") + exited(1, "ps 1", "")

    assert said(capsys, "--state", "FAILED", "--message", message)["replicas"] == "ps 0, ps 1"


def test_a_region_is_not_needed_to_ask_about_others(capsys: pytest.CaptureFixture[str]) -> None:
    facts = said(capsys, "--state", "FAILED", "--message", STOCKOUT, "--fallback-region", "us-west1")

    assert facts["reason"].endswith("at once, in us-west1")


def test_a_ladder_turns_out_of_memory_into_a_requeue(capsys: pytest.CaptureFixture[str]) -> None:
    facts = said(
        capsys, "--state", "FAILED", "--message", LOW_ON_MEMORY, "--machine-type", "m4", "--ladder", "m4", "--ladder", "m8"
    )  # fmt: skip

    assert facts["decision"] == "REQUEUE"
    assert facts["reason"].endswith(", on m8")


def test_a_succeeded_job_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    facts = said(capsys, "--state", "SUCCEEDED")

    assert facts["kind"] == "SUCCESS"
    assert facts["decision"] == "SUCCEED"
    assert "hint" not in facts
    assert "replicas" not in facts


@pytest.mark.parametrize(("retries", "decision"), [("3", "FAIL"), ("4", "RETRY")])
def test_an_exit_code_will_do_instead_of_a_message(
    capsys: pytest.CaptureFixture[str], retries: str, decision: str
) -> None:
    facts = said(capsys, "--state", "5", "--exit", "139", "--retries", retries)

    assert facts["kind"] == "CRASH"
    assert facts["evidence"] == "workerpool0-0 exited with 139 = segmentation fault (SIGSEGV)"
    assert facts["decision"] == decision


def test_a_message_goes_before_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--state", "FAILED", "--exit", "139", "--message", INTERNAL)["kind"] == "INTERNAL"


def test_spot_and_started_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--state", "FAILED", "--message", STOCKOUT, "--strategy", "spot"]

    assert said(capsys, *argv)["kind"] == "STOCKOUT"
    assert said(capsys, *argv, "--started")["kind"] == "PREEMPTED"


@pytest.mark.parametrize(
    ("progress", "decision"), [("advanced", "REQUEUE"), ("not-advanced", "RETRY"), ("UNKNOWN", "RETRY")]
)
def test_progress_is_asked_for(capsys: pytest.CaptureFixture[str], progress: str, decision: str) -> None:
    argv = ["--state", "FAILED", "--message", INTERNAL, "--retries", "9", "--progress", progress]

    assert said(capsys, *argv)["decision"] == decision


def test_disable_retries_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    facts = said(
        capsys, "--state", "FAILED", "--message", INTERNAL, "--retries", "1", "--disable-retries", "--started"
    )

    assert facts["decision"] == "RETRY"
    assert facts["runs"] == "1 happened at most, 1 charged, 1 of 2 left (retries=1)"


def test_regions_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--state", "FAILED", "--message", STOCKOUT, "--region", "us-east1"]
    facts = said(capsys, *argv, "--fallback-region", "us-west1", "--fallback-region", "us-west4")

    assert facts["reason"] == "there was no capacity: submitting again inside this try at once, in us-west1"


def test_the_jobs_own_region_is_not_tried_next(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--state", "FAILED", "--message", STOCKOUT, "--region", "us-west1"]
    facts = said(capsys, *argv, "--fallback-region", "us-west1", "--fallback-region", "us-west4")

    assert facts["reason"].endswith("at once, in us-west4")


def test_no_retries_can_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--state", "FAILED", "--exit", "1", "--retries", "0")["kind"] == "USER_CODE"


def test_a_refused_submit(capsys: pytest.CaptureFixture[str]) -> None:
    facts = said(capsys, "--phase", "submit", "--code", "8", "--message", QUOTA)

    assert facts["kind"] == "QUOTA"
    assert facts["decision"] == "REQUEUE"
    assert facts["runs"] == "0 happened at most, 0 charged, 1 of 1 left (retries=0)"


def test_a_failed_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--phase", "POLL", "--code", "5", "--retries", "1")["kind"] == "LOST"
    assert said(capsys, "--phase", "poll", "--code", "14")["rule"].startswith("unknown-at-poll - ")


@pytest.mark.parametrize(("seen", "kind"), [("queue_timeout", "QUEUE_TIMEOUT"), ("lost", "LOST"), ("run-timeout", "RUN_TIMEOUT")])  # fmt: skip
def test_what_our_own_watching_saw(capsys: pytest.CaptureFixture[str], seen: str, kind: str) -> None:
    facts = said(capsys, "--state", "CANCELLED", "--started", "--ended-by", seen)

    assert facts["kind"] == kind
    charged = 0 if kind == "QUEUE_TIMEOUT" else 1
    assert f" {charged} charged" in facts["runs"]


def test_json_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--state", "FAILED", "--code", "3", "--exit", "1", "--retries", "2", "--format", "json"]
    assert main(["explain", *argv]) == 0
    out = capsys.readouterr().out

    assert out.startswith('{\n  "kind": "USER_CODE",\n')
    assert out.endswith("}\n")
    assert json.loads(out) == {
        "kind": "USER_CODE",
        "rule": "user-code",
        "source": "any other non-zero exit is permanent (D)",
        "evidence": "workerpool0-0 exited with 1 = general error",
        "replicas": ["workerpool0-0"],
        "runs_happened": 1,
        "runs_charged": 1,
        "budget_left": 2,
        "decision": "FAIL",
        "reason": "the training code would fail again",
        "hint": "The training code failed: read the traceback and the replica's log.",
    }


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["explain"], "give --state (and --code, --message), or --table"),
        (["explain", "--state", "BROKEN"], "state 'BROKEN' is not a job state; give one of"),
        (["explain", "--state", "RUNNING"], "a job in JOB_STATE_RUNNING has not ended, so it has no outcome"),
        (
            ["explain", "--state", "FAILED", "--retries", "-1"],
            "argument --retries: -1 is negative; give 0 or more",
        ),
        (["explain", "--state", "FAILED", "--retries", "x"], "argument --retries: invalid"),
        (
            ["explain", "--state", "FAILED", "--phase", "x"],
            "argument --phase: 'x' is none of submit, job, poll",
        ),
        (
            ["explain", "--state", "FAILED", "--ended-by", "x"],
            "argument --ended-by: 'x' is none of queue_timeout",
        ),
        (["explain", "--state", "FAILED", "--exit", "x"], "argument --exit: invalid int value: 'x'"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_wrong_arguments_are_told(capsys: pytest.CaptureFixture[str], argv: list[str], error: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(argv)

    assert end.value.code == 2
    assert error in capsys.readouterr().err


def test_the_help_names_every_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    with pytest.raises(SystemExit) as end:
        main(["explain", "--help"])

    assert end.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert " Say for a job's state, error code and text which kind of failure it is and what follows. " in out
    for words in (
        "--state STATE the job's state, as JOB_STATE_FAILED, FAILED or 5",
        "--code CODE code of the job's error",
        "--message MESSAGE text of the job's error",
        "--exit N exit code of a replica, instead of --message",
        "--retries RETRIES the task's retries (default 0)",
        "--phase PHASE where the error was met: job (default), submit or poll",
        "--strategy STRATEGY STANDARD, SPOT or FLEX_START",
        "--started the job had been RUNNING",
        "--disable-retries the job was sent with disable_retries",
        "--progress PROGRESS whether it advanced the checkpoint: advanced, not-advanced (default) or unknown",
        "--region REGION the job's region",
        "--fallback-region FALLBACK_REGION may be given more than once",
        "--machine-type MACHINE_TYPE the job's machine type",
        "--ladder MACHINE_TYPE an entry of machine_types",
        "--table print the whole table",
        "--format {text,markdown,json} default text",
    ):
        assert words in out
    assert "what our own watching saw: queue_timeout, run_timeout, execution_timeout, lost" in out


def test_the_program_is_called_agent_platform(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    out = capsys.readouterr().out
    assert out.startswith("usage: agent-platform [-h] COMMAND ...")
    assert "\nThe provider's command line\n" in out
    assert " what a failure means and what follows\n" in out


def test_the_table_has_a_line_for_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_provider.agent_platform.policy.failures import FAILURES

    assert main(["explain", "--table"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].split() == ["row", "kind", "where", "runs", "charged", "default", "action"]
    assert [line.split()[0] for line in lines[1:]] == [row.id for row in FAILURES]
    assert max(map(len, lines)) <= 140
    assert all(line == line.rstrip() for line in lines)
    start = lines[0].index("kind")
    assert {line[start - 2 : start] for line in lines} == {"  "}


def test_the_table_is_the_page_in_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--table", "--format", "markdown"]) == 0

    assert capsys.readouterr().out == failures_page()


def test_the_arguments_of_the_process_are_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["agent-platform", "explain", "--state", "SUCCEEDED"])

    assert main() == 0
    assert capsys.readouterr().out.startswith("kind:     SUCCESS\n")


# --- as a function ---------------------------------------------------------------------------------------------


def test_rules_are_explained_too() -> None:
    evidence = FailureEvidence(state=JobState.FAILED, message=exited(75))
    told = explain(evidence, rules=[FailureRule(exit_codes=[75], action="requeue")], now=T0)

    assert told.decision.action is Action.REQUEUE
    assert told.as_dict()["rule"] == "failure_rules[0] after user-code"
    assert told.decision.runs_charged == 0
    assert told.outcome.kind is FailureKind.USER_CODE


def test_the_default_is_no_retries_and_no_progress() -> None:
    told = explain(FailureEvidence(state=JobState.FAILED, message=INTERNAL), now=T0)

    assert told.retries == 0
    assert told.decision.action is Action.FAIL
    assert told.decision.runs_charged == 3


def test_the_numbers_are_those_of_a_real_ledger() -> None:
    evidence = FailureEvidence(
        state=JobState.FAILED, message=STOCKOUT, strategy="SPOT", ever_started=True, region="us-east1"
    )
    told = explain(evidence, retries=4, progress=Progress.UNKNOWN, now=T0)

    assert (told.decision.runs_happened, told.decision.runs_charged, told.decision.budget_left) == (7, 0, 4)
    assert told.decision.placement is not None
    assert told.decision.placement.region == "us-east1"


def test_what_is_decided_on_is_what_was_asked_about() -> None:
    evidence = FailureEvidence(
        state=JobState.FAILED,
        code=8,
        message=STOCKOUT,
        strategy="SPOT",
        ever_started=True,
        region="us-east1",
        disable_retries=True,
    )

    told = explain(evidence, retries=1, now=T0)
    assert told.outcome.code == 8
    assert told.outcome.region == "us-east1"
    assert told.decision.at is not None
    assert told.decision.at > T0


def test_a_failed_read_leaves_the_job_live() -> None:
    evidence = FailureEvidence(state=JobState.RUNNING, code=14, phase=FailurePhase.POLL)

    assert explain(evidence, now=T0).decision.runs_charged == 0
    assert explain(evidence, now=T0).decision.runs_happened == 0
