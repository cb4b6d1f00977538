"""
The failure table as text: columns for a terminal, a table for Markdown, the costs of each kind.

Enters: nothing but the data of ``table``, ``actions`` and ``forecast``. Leaves: text. Not here: the page
around it (``page``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider.agent_platform.policy.actions import ACTIONS, Action
from airflow_provider.agent_platform.policy.forecast import SAMPLES, Forecast, Sample, ours, plain
from airflow_provider.agent_platform.policy.kinds import FailureKind
from airflow_provider.agent_platform.policy.placement import CLIMBS, Climb
from airflow_provider.agent_platform.policy.row import FailureRow
from airflow_provider.agent_platform.policy.states import JobState
from airflow_provider.agent_platform.policy.table import FAILED, FAILURES
from airflow_provider.agent_platform.policy.words import seconds_in_words

HEADER = ("row", "kind", "where", "evidence", "runs", "charged", "default action", "source")
RETRIES = range(6)
"""The ``retries`` that the table of costs shows."""

DELAYS_HEADER = ("kind", "first limit", "largest limit")
WAITS = "waits"


def rows() -> list[tuple[str, ...]]:
    """One line per row of the table, in the order they are tried."""
    return [
        (
            row.id,
            row.kind.value if row.kind else "success",
            ", ".join(sorted(phase.value for phase in row.phases)),
            conditions_of(row),
            _runs(row),
            str(row.charged),
            action_of(row.kind, charged=row.charged),
            row.source,
        )
        for row in FAILURES
    ]


def conditions_of(row: FailureRow) -> str:
    """What must hold for a row, in words."""
    words = []
    if row.states:
        words.append("failed" if row.states == FAILED else "state " + "/".join(_state_names(row.states)))
    if row.codes:
        words.append("code " + ", ".join(map(str, sorted(row.codes))))
    if row.pattern:
        words.append(f"text begins with `{_readable(row.pattern)}`")
    if row.exit_codes:
        words.append("exit " + ", ".join(map(str, sorted(row.exit_codes))))
    if row.reasons:
        words.append("reason " + ", ".join(sorted(row.reasons)))
    if row.strategies:
        words.append("strategy " + ", ".join(sorted(row.strategies)))
    if row.ended_by:
        words.append("we saw " + ", ".join(sorted(end.value for end in row.ended_by)))
    flags = {
        "it had started": row.started,
        "cancelled by us": row.cancelled_by_us,
        "ran for its whole timeout": row.timed_out,
        "no error text": row.empty,
    }
    words += [
        words_of if value else f"not: {words_of}" for words_of, value in flags.items() if value is not None
    ]
    return "; ".join(words) or "anything else"


def action_of(kind: FailureKind | None, *, charged: int = 0) -> str:
    """The default of a kind, in words; a row that charges is not requeued for free."""
    if kind is None:
        return Action.SUCCEED.value
    default = ACTIONS[kind]
    if CLIMBS.get(kind) is Climb.MACHINE:
        return "REQUEUE on the next of machine_types, else FAIL"
    if default.free_if_advanced or (default.action is Action.REQUEUE and charged):
        return "REQUEUE if it made progress, else RETRY"
    if default.waits:
        return f"{default.action.value} within queue_timeout"
    return default.action.value


def costs() -> list[tuple[str, ...]]:
    """One line per kind: runs with plain Airflow retries and with us, for each number of ``retries``."""
    return [(sample.kind.value, *(_cost(sample, retries) for retries in RETRIES)) for sample in SAMPLES]


def costs_header() -> tuple[str, ...]:
    """The header of :func:`costs`."""
    return ("kind", *(f"retries={retries}" for retries in RETRIES))


def terminal_table() -> str:
    """The table in columns; the pattern and the source are left to the Markdown form, for width."""
    wanted = (0, 1, 2, 4, 5, 6)
    lines = [tuple(line[column] for column in wanted) for line in (HEADER, *rows())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(wanted))]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    return "\n".join(line.rstrip() for line in padded) + "\n"


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    body = [header, ["---"] * len(header), *lines]
    return "".join("| " + " | ".join(_escaped(cell) for cell in line) + " |\n" for line in body)


def _cost(sample: Sample, retries: int) -> str:
    theirs, mine = plain(sample, retries), ours(sample, retries)
    return f"{_amount(theirs)} / {WAITS if mine.waits else _amount(mine)}"


def _amount(forecast: Forecast) -> str:
    return str(forecast.runs)


def _runs(row: FailureRow) -> str:
    if row.runs_alone is None:
        return str(row.runs)
    return f"{row.runs} ({row.runs_alone} with disable_retries)"


def _state_names(states: frozenset[JobState]) -> list[str]:
    return [state.name for state in sorted(states)]


_READABLE = (
    ("(?P<replica>[A-Za-z][\\w-]*(?: \\d+)?)", "<replica>"),
    ("(?P<status>-?\\d+)(?:\\((?P<signal>[A-Z0-9]+)\\))?", "<n>"),
    ("(?: and exited with a non-zero status of <n>)?", ""),
    ("(?:List of found errors:.{0,500}?Message:\\s*)?", ""),
    ("[ -]", " "),
    ("[^\\n]{0,200}", "..."),
    (".{1,500}?", "..."),
    ("[^']*", "..."),
    ("\\S+", "..."),
    ("\\b", ""),
    ("(?:", ""),
    (")", ""),
    ("|", "` or `"),
)
"""What stands for a pattern's parts in a text for people, replaced in this order."""


def _readable(pattern: str) -> str:
    for part, words in _READABLE:
        pattern = pattern.replace(part, words)
    return pattern


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def delays() -> list[tuple[str, ...]]:
    """One line per kind that submits again: how the limit of its delay grows."""
    return [
        (kind.value, seconds_in_words(default.backoff.multiplier), seconds_in_words(default.backoff.max))
        for kind, default in ACTIONS.items()
        if default.action is not Action.FAIL
    ]
