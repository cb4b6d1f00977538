"""
The page docs/failures.md: made from the tables, so that it cannot differ from what the code does.

Enters: nothing. Leaves: Markdown (``agent-platform explain --table --format markdown``). A test compares it
with the file.
"""

from __future__ import annotations

from airflow_provider.agent_platform.policy import table_text

_INTRO = """\
# Failures: what they mean and what follows

<!-- Made by `agent-platform explain --table --format markdown > docs/failures.md`. Do not edit by hand. -->

Every end of a job is classified by the table below: the rows are tried in order, the first that matches
wins, and the last row of a phase is the default. A text decides only by how it *begins*: the platform's
texts end with your own traceback, and a traceback that quotes the platform is still yours. A code alone
decides only where a submit was refused: the same code stands for running out of memory, out of disk and out
of quota.

`agent-platform explain --state FAILED --code 8 --message "..." --retries 3` says for one text which row
matches and what follows.

## What the actions are

| action | what happens | what it costs |
| --- | --- | --- |
| SUCCEED | the task succeeds | - |
| REQUEUE | the same Airflow try waits, deferred, and submits another job | no retry; `max_jobs` bounds it |
| RETRY | the try fails, Airflow starts another one | one Airflow retry |
| FAIL | the task fails now, whatever retries are left | - |

## How runs are counted

`retries=N` buys N + 1 *charged* runs between two clears of the task, whoever makes them: the platform runs a
job that crashed up to four times by itself, and these four are counted. Three numbers are kept apart:

- **happened**: runs that were made, at most. The API has no attempt counter, so the documented
  limit is taken.
- **charged**: runs taken from the budget. Waits for capacity or quota charge nothing. A run that advanced the
  newest complete checkpoint charges nothing. Out of memory or disk charges nothing, because it goes on only where
  `machine_types` has a larger machine left. A cancel charges nothing: somebody decided it.
- **held**: a run whose progress could not be found out (the storage did not answer) neither charges nor frees. It
  is not requeued for free as one with progress would be, and it does not charge the four runs of a crash. It
  holds one place of the N + 1, as the Airflow retry does that it costs, until the checkpoints can be read again
  and settle it. The next job is then sent as if the full charge was due, without the platform's own retries
  where the rest could not pay for them.

The answer is FAIL when charged and held reach N + 1, when `max_jobs` is reached (refused submits count too),
when all jobs together have waited for `queue_timeout`, or when Airflow has no try left.

The first job leaves the platform's own retries on. A later one is submitted with `disable_retries` when the
rest of the budget could not pay for its run and three more; `platform_retries=True` or `False` overrides.
Limits: the service documents `disable_retries` for internal errors only, so that a crash is counted as four
runs with it too.

A job with a FAILED state and no error is read again until the error is there or two minutes have passed: the
platform writes it late.
"""

_RULES = """\
## Your own rules

```python
failure_rules = [
    FailureRule(exit_codes=[75], action="requeue", delay=timedelta(minutes=5)),
    FailureRule(kinds=["UNKNOWN"], message=r"NCCL (timeout|error)", action="retry"),
    FailureRule(kinds=["RUN_TIMEOUT"], action="requeue"),
]
```

Rules come before the defaults; the first whose conditions all hold wins. A rule changes what is done, never
what a failure is called. "requeue" charges nothing, "retry" charges the kind's runs and at least one, "fail"
ends the task. `max_jobs`, the budget and `queue_timeout` hold over every rule.
"""

_COSTS = """\
## What a failure that stays costs

Runs of the training with plain Airflow retries / with this policy, when every job ends the same way, without
any progress, without `machine_types` and `fallback_regions`. For STOCKOUT the numbers are the platform's
attempts to get machines, for PREEMPTED the most that the platform may have made. "waits" means that the task
goes on trying, without a charge, until `queue_timeout` or `max_jobs` ends it.

"""

_DELAYS = """\
## How long it waits

The delay before the next job is drawn between 0 and a limit that doubles each time the same kind comes again
(full jitter), from the task's identity and its jobs: the same question asked twice, by a worker that was
killed in between, gets the same answer. A region that has not been tried in this round is tried at once. A
`delay` in a rule, and for RETRY the task's own `retry_delay` where you set one, is used as it is.
"""


_MARKS = """\
Marks of a source: D documented by Google, C the client library's comments, R seen in public logs or reports, I
inferred. "failed" stands for the states FAILED, EXPIRED and PARTIALLY_SUCCEEDED.
"""


def failures_page() -> str:
    """The whole page."""
    parts = [
        _INTRO,
        "## The table\n\n" + table_text.markdown(table_text.HEADER, table_text.rows()),
        _RULES,
        _COSTS + table_text.markdown(table_text.costs_header(), table_text.costs()),
        _DELAYS + "\n" + table_text.markdown(table_text.DELAYS_HEADER, table_text.delays()),
        _MARKS,
    ]
    return "\n".join(parts)
