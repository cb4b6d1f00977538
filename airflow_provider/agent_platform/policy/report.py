"""
What a person reads: the one-line decision in the log, and the message of a failed task.

Enters: outcome, decision, log lines. Leaves: text. Pure: fetching the log lines is somebody else's work, and
where they could not be had the message is shorter, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import pendulum

from airflow_provider.agent_platform.policy.actions import Action
from airflow_provider.agent_platform.policy.decision import Decision
from airflow_provider.agent_platform.policy.exit_codes import meaning_of
from airflow_provider.agent_platform.policy.outcome import Outcome
from airflow_provider.agent_platform.policy.states import state_name
from airflow_provider.agent_platform.policy.words import count_of, seconds_in_words

LINE_TEXT = 160
"""Characters of the platform's text in a log line."""
MESSAGE_TEXT = 2000
"""Characters of the platform's text in a message: its beginning, and the end of the traceback."""

_NEXT = {
    Action.SUCCEED: "nothing: the job succeeded",
    Action.REQUEUE: "a new job inside this try",
    Action.RETRY: "a new job in the next Airflow try",
    Action.FAIL: "nothing: the task fails now, without a retry",
}


def decision_line(outcome: Outcome, decision: Decision, *, job_name: str | None = None) -> str:
    """
    One log line for a decision: kind, what next and when, why, evidence, runs happened and charged, budget left.

    :param outcome: how the job ended.
    :param decision: what follows.
    :param job_name: full resource name; None for a refused submit.
    """
    # What a person looks for first; the name of a job fills half a screen.
    parts = [
        f"kind={outcome.kind.value if outcome.kind else 'none'}",
        f"next={decision.action.value}",
        f"when={_when(decision)}",
        f'reason="{_quotable(decision.reason)}"',
        f'evidence="{_quotable(evidence_of(outcome))}"',
        f"runs_happened={decision.runs_happened}",
        f"runs_charged={decision.runs_charged}",
        f"budget_left={decision.budget_left}",
        f"row={outcome.row}",
        f"job={job_name}" if job_name else "job=none",
    ]
    return "Decision: " + " ".join(parts)


def failure_message(
    outcome: Outcome,
    decision: Decision,
    *,
    job_name: str | None = None,
    console_url: str | None = None,
    log_tail: Sequence[str] = (),
) -> str:
    """
    The text of the exception: what a person on call needs at three in the morning.

    :param outcome: how the job ended, or why the submit was refused.
    :param decision: what follows.
    :param job_name: full resource name of the job; None for a refused submit.
    :param console_url: link to the job.
    :param log_tail: last lines of the failing worker's log, oldest first; empty when they could not be had.
    """
    kind = decision.kind or outcome.kind
    lines = [
        f"{kind.value if kind else 'SUCCEEDED'}: {evidence_of(outcome)}",
        f"Decision: {decision.action.value} - {decision.reason}.",
    ]
    if len(outcome.replicas) > 1:
        lines.append(f"All that failed: {', '.join(outcome.replicas)}")
    lines += [f"Field {found.field}: {found.message}" for found in outcome.found_errors]
    if outcome.quota_metrics:
        lines.append(f"Quota: {', '.join(outcome.quota_metrics)}")
    lines.append(
        f"So far: {count_of(decision.runs_happened, 'run')} happened at most, "
        f"{decision.runs_charged} charged, {decision.budget_left} left"
    )
    lines.append(f"Next: {_NEXT[decision.action]}{_next_when(decision)}")
    if outcome.hint:
        lines.append(f"What to do: {outcome.hint}")
    if job_name:
        lines.append(f"Job: {job_name}{f' in {outcome.region}' if outcome.region else ''}")
    if console_url:
        lines.append(f"Console: {console_url}")
    if outcome.message.strip():
        code = "" if outcome.code is None else f" (code {outcome.code})"
        lines.append(f"The platform's text{code}:")
        lines += _indented(_shortened(outcome.message.strip(), MESSAGE_TEXT).splitlines())
    if log_tail:
        lines.append(f"Last lines of the log of {outcome.replica or 'the job'}:")
        lines += _indented(log_tail)
    return "\n".join(lines)


def evidence_of(outcome: Outcome) -> str:
    """
    What the kind rests on, in one line.

    :param outcome: how the job ended.
    :return: the replica with its exit code and what that means; else the beginning of the platform's text;
        else the state.
    """
    if outcome.replica and outcome.exit_code is not None:
        reason = outcome.termination_reason
        extra = f", termination reason {reason}" if reason and reason != "Error" else ""
        return f"{outcome.replica} exited with {meaning_of(outcome.exit_code, outcome.signal)}{extra}"
    first_line = outcome.message.strip().partition("\n")[0]
    if first_line:
        return _shortened(first_line, LINE_TEXT)
    return f"{state_name(outcome.state)} without an error text ({outcome.row})"


def _when(decision: Decision) -> str:
    return decision.at.in_timezone(pendulum.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if decision.at else "now"


def _next_when(decision: Decision) -> str:
    if decision.delay is None:
        return ""
    where = f" in {decision.placement.region}" if decision.placement else ""
    return f", after {seconds_in_words(decision.delay.total_seconds())} (at {_when(decision)}){where}"


def _shortened(text: str, length: int) -> str:
    """The text's beginning and its end: the platform's sentence and the last line of a traceback."""
    if len(text) <= length:
        return text
    half = (length - len(_CUT)) // 2
    return text[:half] + _CUT + text[-half:]


_CUT = " [...] "


def _quotable(text: str) -> str:
    return " ".join(text.split()).replace('"', "'")


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
