"""
``agent-platform explain``: what would happen after such an end?

Enters: a state, a code and a text, as a person copies them from the console. Leaves: kind, row, decision and
reason, by the same functions that decide in a task. Not here: any look at a real job.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import pendulum

from airflow_provider.agent_platform.policy.decide import Budget, Decision, decide
from airflow_provider.agent_platform.policy.failures import FAILURES, FailureEvidence, classify
from airflow_provider.agent_platform.policy.job import JobRecord
from airflow_provider.agent_platform.policy.kinds import EndedBy, FailurePhase
from airflow_provider.agent_platform.policy.ledger import Ledger
from airflow_provider.agent_platform.policy.outcome import Outcome
from airflow_provider.agent_platform.policy.page import failures_page
from airflow_provider.agent_platform.policy.placement import PlacementOptions
from airflow_provider.agent_platform.policy.progress import UNKNOWN_STEP, Progress, Step
from airflow_provider.agent_platform.policy.report import evidence_of
from airflow_provider.agent_platform.policy.rules import FailureRule
from airflow_provider.agent_platform.policy.states import JobState, state_name, state_of
from airflow_provider.agent_platform.policy.table_text import terminal_table

# Any steps will do: 1 before the job, 2 after it is progress, 1 after it is none.
_STEPS: dict[Progress, Step] = {
    Progress.ADVANCED: 2,
    Progress.NOT_ADVANCED: 1,
    Progress.UNKNOWN: UNKNOWN_STEP,
}

_SOME_REGION = "REGION"
_SOME_JOB = "JOB"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """
    An end, what it is called, and what follows.

    :param outcome: the classified end.
    :param decision: what follows, for the first job of a task.
    :param retries: the ``retries`` it was asked for.
    """

    outcome: Outcome
    decision: Decision
    retries: int

    def as_dict(self) -> dict[str, object]:
        """The explanation as plain values, for JSON."""
        outcome, decision = self.outcome, self.decision
        row = next(row for row in FAILURES if row.id == outcome.row)
        rule = row.id if decision.rule is None else f"failure_rules[{decision.rule}] after {row.id}"
        return {
            "kind": outcome.kind.value if outcome.kind else "SUCCESS",
            "rule": rule,
            "source": row.source,
            "evidence": evidence_of(outcome),
            "replicas": list(outcome.replicas),
            "runs_happened": decision.runs_happened,
            "runs_charged": decision.runs_charged,
            "budget_left": decision.budget_left,
            "decision": decision.action.value,
            "reason": decision.reason,
            "hint": outcome.hint,
        }

    def text(self) -> str:
        """The explanation for a terminal, one fact a line."""
        facts = self.as_dict()
        replicas = ", ".join(self.outcome.replicas)
        lines = [
            ("kind", facts["kind"]),
            ("rule", f"{facts['rule']} - {facts['source']}"),
            ("evidence", facts["evidence"]),
            ("replicas", replicas),
            (
                "runs",
                f"{facts['runs_happened']} happened at most, {facts['runs_charged']} charged, "
                f"{facts['budget_left']} of {self.retries + 1} left (retries={self.retries})",
            ),
            ("decision", facts["decision"]),
            ("reason", facts["reason"]),
            ("hint", facts["hint"]),
        ]
        return "".join(f"{name + ':':<10}{value}\n" for name, value in lines if value)


def explain(
    evidence: FailureEvidence,
    *,
    retries: int = 0,
    progress: Progress = Progress.NOT_ADVANCED,
    rules: Sequence[FailureRule] = (),
    fallback_regions: Sequence[str] = (),
    machine_type: str | None = None,
    machine_types: Sequence[str] = (),
    now: pendulum.DateTime,
) -> Explanation:
    """
    Say what follows when the first job of a task ends like this.

    :param evidence: the end, or the refused submit.
    :param retries: the task's ``retries``.
    :param progress: whether the job advanced the checkpoint.
    :param rules: the task's ``failure_rules``.
    :param fallback_regions: the task's ``fallback_regions``.
    :param machine_type: the job's machine type.
    :param machine_types: the task's ladder.
    :param now: the clock.
    :raises ValueError: when the job is live: nothing follows yet.
    """
    region = evidence.region or _SOME_REGION
    outcome = classify(evidence)
    # A refused submit and a failed read leave no ended job behind.
    ended = evidence.phase is FailurePhase.JOB
    records = [_record(evidence, region, machine_type, now)] if ended else []
    ledger = Ledger.of(records, newest_step=_STEPS[progress], rules=rules)
    decision = decide(
        ledger,
        outcome,
        progress,
        rules,
        Budget(retries=retries),
        now,
        options=PlacementOptions(regions=(region, *fallback_regions), machine_types=tuple(machine_types)),
    )
    return Explanation(outcome=outcome, decision=decision, retries=retries)


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line.

    :param argv: arguments after the program's name; None: the process's own.
    :return: the exit status: 0. Wrong arguments end in ``SystemExit(2)``, as with every argparse command.
    """
    parser = _parser()
    given = parser.parse_args(argv)
    if given.table:
        sys.stdout.write(failures_page() if given.format == "markdown" else terminal_table())
        return 0
    if given.state is None and given.phase is FailurePhase.JOB:
        parser.error("give --state (and --code, --message), or --table")
    try:
        explanation = _asked(given)
    except ValueError as error:
        parser.error(str(error))
    text = (
        json.dumps(explanation.as_dict(), indent=2) + "\n" if given.format == "json" else explanation.text()
    )
    sys.stdout.write(text)
    return 0


def _asked(given: argparse.Namespace) -> Explanation:
    state = state_of(given.state) if given.state is not None else JobState.UNSPECIFIED
    message = given.message
    if given.exit is not None and not message:
        message = f"The replica workerpool0-0 exited with a non-zero status of {given.exit}."
    evidence = FailureEvidence(
        state=state,
        code=given.code,
        message=message,
        phase=given.phase,
        strategy=given.strategy,
        ever_started=given.started,
        region=given.region,
        disable_retries=given.disable_retries,
        ended_by=given.ended_by,
    )
    return explain(
        evidence,
        retries=given.retries,
        progress=given.progress,
        fallback_regions=given.fallback_region,
        machine_type=given.machine_type,
        machine_types=given.ladder,
        now=pendulum.now("UTC"),
    )


def _record(
    evidence: FailureEvidence, region: str, machine_type: str | None, now: pendulum.DateTime
) -> JobRecord:
    return JobRecord(
        name=_SOME_JOB,
        region=region,
        state=evidence.state,
        error_message=evidence.message,
        start_time=now if evidence.ever_started else None,
        resume_step=_STEPS[Progress.NOT_ADVANCED],
        strategy=evidence.strategy,
        machine_type=machine_type,
        disable_retries=evidence.disable_retries,
        ended_by=evidence.ended_by,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent-platform", description="The provider's command line")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ask = commands.add_parser(
        "explain",
        help="what a failure means and what follows",
        description="Say for a job's state, error code and text which kind of failure it is and what follows.",
    )
    ended_by = ", ".join(end.value for end in EndedBy)
    ask.add_argument("--state", help=f"the job's state, as {state_name(JobState.FAILED)}, FAILED or 5")
    ask.add_argument("--code", type=int, help="code of the job's error")
    ask.add_argument("--message", default="", help="text of the job's error")
    ask.add_argument("--exit", type=int, metavar="N", help="exit code of a replica, instead of --message")
    ask.add_argument("--retries", type=_retries, default=0, help="the task's retries (default 0)")
    ask.add_argument(
        "--phase",
        type=_member(FailurePhase),
        default=FailurePhase.JOB,
        help="where the error was met: job (default), submit or poll",
    )
    ask.add_argument("--strategy", type=str.upper, help="STANDARD, SPOT or FLEX_START")
    ask.add_argument("--started", action="store_true", help="the job had been RUNNING")
    ask.add_argument("--disable-retries", action="store_true", help="the job was sent with disable_retries")
    ask.add_argument(
        "--progress",
        type=_member(Progress),
        default=Progress.NOT_ADVANCED,
        help="whether it advanced the checkpoint: advanced, not-advanced (default) or unknown",
    )
    ask.add_argument("--ended-by", type=_member(EndedBy), help=f"what our own watching saw: {ended_by}")
    ask.add_argument("--region", help="the job's region")
    ask.add_argument("--fallback-region", action="append", default=[], help="may be given more than once")
    ask.add_argument("--machine-type", help="the job's machine type")
    ask.add_argument(
        "--ladder", action="append", default=[], metavar="MACHINE_TYPE", help="an entry of machine_types"
    )
    ask.add_argument("--table", action="store_true", help="print the whole table")
    ask.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="default text")
    return parser


_EnumT = TypeVar("_EnumT", bound=Enum)


def _member(of: type[_EnumT]) -> Callable[[str], _EnumT]:
    """A reader of one argument: a member's value in any case, with "-" or "_"."""
    names = {str(member.value).lower(): member for member in of}

    def read(text: str) -> _EnumT:
        try:
            return names[text.lower().replace("-", "_")]
        except KeyError:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}") from None

    return read


def _retries(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is negative; give 0 or more")
    return number
