"""
The failure table: one row per way to end, tried in order, first match wins, explicit default per phase.

Data only; ``failures`` reads it, docs/failures.md is made from it. Marks of a row's source: D documented, C
the client library's comments, R seen in public logs or reports, I inferred.
"""

from __future__ import annotations

from airflow_provider.agent_platform.policy import texts
from airflow_provider.agent_platform.policy.kinds import EndedBy, FailureKind, FailurePhase
from airflow_provider.agent_platform.policy.row import FailureRow
from airflow_provider.agent_platform.policy.states import JobState

SUBMIT = frozenset({FailurePhase.SUBMIT})
JOB = frozenset({FailurePhase.JOB})
POLL = frozenset({FailurePhase.POLL})
SUBMIT_OR_JOB = SUBMIT | JOB

FAILED = frozenset({JobState.FAILED, JobState.EXPIRED, JobState.PARTIALLY_SUCCEEDED})
"""Ends whose error text is read. A cancelled job's is not: whoever cancelled it ended it."""
CANCELLED = frozenset({JobState.CANCELLED})

SPOT = frozenset({"SPOT", "LOW_COST"})
"""Strategies whose machines can be taken away; LOW_COST is the deprecated name."""
CANCELLED_BY_US = "cancelled-by-us"

_SMALLER = (
    "Give a machine type with more memory, or list larger ones in machine_types=[...]; or use less of it."
)
_DISK = "Raise disk_spec.boot_disk_size_gb, or write less to the local disk."
_START = (
    "Check the image, its command and args: the process could not be started, so the training code never ran."
)
_ACT_AS = (
    "Grant the caller roles/iam.serviceAccountUser (iam.serviceAccounts.actAs) on the job's service account, "
    "and check its name."
)
_PERMISSION = (
    "Grant the identity of the connection the permission that the text names "
    "(roles/aiplatform.user has the usual ones)."
)
_QUOTA = (
    "Ask for more of the quota that is named, use fewer or other accelerators, or wait for other jobs to end."
)
_CAPACITY = (
    "Add fallback_regions=[...], use another accelerator, or strategy='FLEX_START' with max_wait_duration."
)

FAILURES: tuple[FailureRow, ...] = (
    # --- the job ended
    # -----------------------------------------------------------------------------------------
    FailureRow(
        id="succeeded",
        kind=None,
        states=frozenset({JobState.SUCCEEDED}),
        runs=1,
        charged=0,
        source="JobState SUCCEEDED (D); also after a cancel that came too late (C)",
    ),
    FailureRow(
        id="lost",
        kind=FailureKind.LOST,
        ended_by=frozenset({EndedBy.LOST}),
        runs=1,
        charged=1,
        hint="Somebody deleted the job while the task waited for it.",
        source="404 on the job's name (C)",
    ),
    # Before the texts: a job that fails for capacity just as the clock ends has still not started in time.
    FailureRow(
        id="queue-timeout",
        kind=FailureKind.QUEUE_TIMEOUT,
        ended_by=frozenset({EndedBy.QUEUE_TIMEOUT}),
        runs=0,
        charged=0,
        hint="Raise queue_timeout, ask for more quota, or add fallback_regions=[...].",
        source="our own clock",
    ),
    FailureRow(
        id="low-on-memory",
        kind=FailureKind.OUT_OF_MEMORY,
        states=FAILED,
        pattern=texts.LOW_ON_MEMORY,
        runs=1,
        charged=0,
        hint=_SMALLER,
        source="today's text, code 8 (R)",
    ),
    FailureRow(
        id="ran-out-of-memory",
        kind=FailureKind.OUT_OF_MEMORY,
        states=FAILED,
        pattern=texts.RAN_OUT_OF_MEMORY,
        runs=1,
        charged=0,
        hint=_SMALLER,
        source="the documented text (D) and its legacy form with 9(SIGKILL) (R)",
    ),
    FailureRow(
        id="low-on-disk",
        kind=FailureKind.OUT_OF_DISK,
        states=FAILED,
        pattern=texts.LOW_ON_DISK,
        runs=1,
        charged=0,
        hint=_DISK,
        source="code 8 (R)",
    ),
    FailureRow(
        id="start-error",
        kind=FailureKind.CANNOT_START,
        states=FAILED,
        pattern=texts.EXITED,
        reasons=frozenset({"StartError", "ContainerCannotRun"}),
        runs=1,
        charged=1,
        hint=_START,
        source="Termination reason: StartError (R)",
    ),
    FailureRow(
        id="oom-killed",
        kind=FailureKind.OUT_OF_MEMORY,
        states=FAILED,
        pattern=texts.EXITED,
        reasons=frozenset({"OOMKilled"}),
        runs=1,
        charged=0,
        hint=_SMALLER,
        source="the container runtime's reason (I)",
    ),
    FailureRow(
        id="cannot-start",
        kind=FailureKind.CANNOT_START,
        states=FAILED,
        pattern=texts.EXITED,
        exit_codes=frozenset({126, 127, 128}),
        runs=1,
        charged=1,
        hint=_START,
        source="127 and 128 seen as permanent (R), 126 by the same convention (I)",
    ),
    FailureRow(
        id="crash",
        kind=FailureKind.CRASH,
        states=FAILED,
        pattern=texts.EXITED,
        exit_codes=frozenset({6, 11, 134, 139}),
        runs=4,
        charged=4,
        hint="A crash in native code: look for a library mismatch (CUDA, NCCL) or too little memory.",
        source="SIGABRT, SIGSEGV: the whole job up to 3 times more (D); also with disable_retries (I)",
    ),
    FailureRow(
        id="user-code",
        kind=FailureKind.USER_CODE,
        states=FAILED,
        pattern=texts.EXITED,
        runs=1,
        charged=1,
        hint="The training code failed: read the traceback and the replica's log.",
        source="any other non-zero exit is permanent (D)",
    ),
    FailureRow(
        id="too-many-metrics",
        kind=FailureKind.USER_CODE,
        states=FAILED,
        pattern=texts.TOO_MANY_METRICS,
        runs=1,
        charged=1,
        hint="Report the tuning metric less often.",
        source="tuning jobs, legacy (R)",
    ),
    FailureRow(
        id="internal",
        kind=FailureKind.INTERNAL,
        states=FAILED,
        pattern=texts.INTERNAL,
        runs=3,
        runs_alone=1,
        charged=3,
        hint="As a rule not the training code's fault; a wrong image URI has been seen to end so too.",
        source="2 more attempts after an internal error (D); disable_retries counts once it had started (C)",
    ),
    FailureRow(
        id="preempted",
        kind=FailureKind.PREEMPTED,
        states=FAILED,
        pattern=texts.INSUFFICIENT,
        strategies=SPOT,
        started=True,
        runs=7,
        charged=1,
        hint="Save checkpoints more often: a run that got further costs no retry.",
        source="Spot preemption is reported as a stockout, after up to 6 restarts (D)",
    ),
    FailureRow(
        id="stockout-after-start",
        kind=FailureKind.STOCKOUT,
        states=FAILED,
        pattern=texts.INSUFFICIENT,
        started=True,
        runs=4,
        charged=1,
        hint=_CAPACITY,
        source="lost its machines and found no new ones (I); it ran, so it is charged once",
    ),
    FailureRow(
        id="stockout",
        kind=FailureKind.STOCKOUT,
        states=FAILED,
        pattern=texts.INSUFFICIENT,
        runs=4,
        charged=0,
        hint=_CAPACITY,
        source="the whole job is tried up to 3 times more (D); code 8 or 14 (I)",
    ),
    FailureRow(
        id="quota",
        kind=FailureKind.QUOTA,
        states=FAILED,
        pattern=texts.QUOTA,
        runs=0,
        charged=0,
        hint=_QUOTA,
        source="asynchronous refusal, code 8 (R)",
    ),
    # --- refused, at submit or later; the same texts
    # -----------------------------------------------------------
    FailureRow(
        id="act-as",
        kind=FailureKind.PERMISSION_DENIED,
        phases=SUBMIT_OR_JOB,
        pattern=texts.ACT_AS,
        runs=0,
        charged=0,
        hint=_ACT_AS,
        source="a missing actAs comes with code 3, not 7 (R)",
    ),
    FailureRow(
        id="permission",
        kind=FailureKind.PERMISSION_DENIED,
        phases=SUBMIT_OR_JOB,
        pattern=texts.PERMISSION,
        runs=0,
        charged=0,
        hint=_PERMISSION,
        source="code 7 (R)",
    ),
    FailureRow(
        id="bucket-region",
        kind=FailureKind.INVALID_REQUEST,
        phases=SUBMIT_OR_JOB,
        pattern=texts.BUCKET_REGION,
        runs=0,
        charged=0,
        hint="Use a bucket in the job's own region, or run the job in the bucket's.",
        source="code 9 (R)",
    ),
    FailureRow(
        id="found-errors",
        kind=FailureKind.INVALID_REQUEST,
        phases=SUBMIT_OR_JOB,
        pattern=texts.FOUND_ERRORS,
        runs=0,
        charged=0,
        hint="Correct the fields that are named.",
        source="code 3 (R)",
    ),
    FailureRow(
        id="refused-spec",
        kind=FailureKind.INVALID_REQUEST,
        phases=SUBMIT_OR_JOB,
        pattern=texts.REFUSED_SPEC,
        runs=0,
        charged=0,
        hint="Choose what this region offers: the text is the same when only the region lacks it.",
        source="code 3 (R)",
    ),
    # --- refused at submit
    # -------------------------------------------------------------------------------------
    FailureRow(
        id="quota-at-submit",
        kind=FailureKind.QUOTA,
        phases=SUBMIT,
        pattern=texts.QUOTA,
        runs=0,
        charged=0,
        hint=_QUOTA,
        source="code 8, HTTP 429 (R)",
    ),
    FailureRow(
        id="stockout-at-submit",
        kind=FailureKind.STOCKOUT,
        phases=SUBMIT,
        pattern=texts.INSUFFICIENT,
        runs=0,
        charged=0,
        hint=_CAPACITY,
        source="the same text at create (I)",
    ),
    FailureRow(
        id="rate-limit",
        kind=FailureKind.QUOTA,
        phases=SUBMIT,
        codes=frozenset({8}),
        runs=0,
        charged=0,
        hint="Too many API calls a minute in this project and region; the submit is repeated after a wait.",
        source="60 creates and deletes a minute and region (D)",
    ),
    FailureRow(
        id="denied-at-submit",
        kind=FailureKind.PERMISSION_DENIED,
        phases=SUBMIT,
        codes=frozenset({7, 16}),
        runs=0,
        charged=0,
        hint=_PERMISSION,
        source="PERMISSION_DENIED, UNAUTHENTICATED (D)",
    ),
    FailureRow(
        id="invalid-at-submit",
        kind=FailureKind.INVALID_REQUEST,
        phases=SUBMIT,
        codes=frozenset({3, 5, 9, 11, 12}),
        runs=0,
        charged=0,
        hint="The request cannot succeed as it is: correct what the text names.",
        source="INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED (D)",
    ),
    FailureRow(
        id="unknown-at-submit",
        kind=FailureKind.UNKNOWN,
        phases=SUBMIT,
        runs=0,
        charged=0,
        hint="This says nothing about the request: look for the job by its labels first.",
        source="default of the phase",
    ),
    # --- our clocks, cancels, and ends without a text we know
    # --------------------------------------------------
    FailureRow(
        id="run-timeout",
        kind=FailureKind.RUN_TIMEOUT,
        ended_by=frozenset({EndedBy.RUN_TIMEOUT}),
        runs=1,
        charged=1,
        hint="Raise run_timeout, or go on: FailureRule(kinds=['RUN_TIMEOUT'], action='requeue').",
        source="our own clock",
    ),
    FailureRow(
        id="execution-timeout",
        kind=FailureKind.RUN_TIMEOUT,
        ended_by=frozenset({EndedBy.EXECUTION_TIMEOUT}),
        runs=1,
        charged=1,
        hint="Raise the task's execution_timeout: it counts the wait in the queue too.",
        source="Airflow's execution_timeout, held by our own clock",
    ),
    FailureRow(
        id="scheduling-timeout",
        kind=FailureKind.RUN_TIMEOUT,
        states=CANCELLED | FAILED,
        timed_out=True,
        runs=1,
        charged=1,
        hint="Raise run_timeout (scheduling.timeout), at most 7 days by default.",
        source="ran for its whole scheduling.timeout (D); end state CANCELLED, code 1 (I)",
    ),
    FailureRow(
        id="timeout-text",
        kind=FailureKind.RUN_TIMEOUT,
        states=CANCELLED,
        pattern=texts.TIMEOUT,
        runs=1,
        charged=1,
        hint="Raise run_timeout (scheduling.timeout), at most 7 days by default.",
        source="the service's own words are not known (I); a cancelled job's text is never the user's",
    ),
    FailureRow(
        id=CANCELLED_BY_US,
        kind=FailureKind.CANCELLED,
        states=CANCELLED,
        cancelled_by_us=True,
        runs=1,
        charged=0,
        hint="We cancelled it ourselves: a duplicate, or the task was killed.",
        source="our own cancel",
    ),
    FailureRow(
        id="cancelled-before-start",
        kind=FailureKind.CANCELLED,
        states=CANCELLED,
        started=False,
        runs=0,
        charged=0,
        hint="Somebody cancelled the job, in the console or by another client.",
        source="JobState CANCELLED (D)",
    ),
    FailureRow(
        id="cancelled",
        kind=FailureKind.CANCELLED,
        states=CANCELLED,
        runs=1,
        charged=0,
        hint="Somebody cancelled the job, in the console or by another client.",
        source="JobState CANCELLED, code 1 (C)",
    ),
    FailureRow(
        id="expired",
        kind=FailureKind.UNKNOWN,
        states=frozenset({JobState.EXPIRED}),
        runs=1,
        charged=1,
        hint="The service gave the job up; no training job has been seen to end like this.",
        source="JobState EXPIRED (I)",
    ),
    FailureRow(
        id="partially-succeeded",
        kind=FailureKind.UNKNOWN,
        states=frozenset({JobState.PARTIALLY_SUCCEEDED}),
        runs=1,
        charged=1,
        hint="Some of the work is missing; no training job has been seen to end like this.",
        source="JobState PARTIALLY_SUCCEEDED (I)",
    ),
    FailureRow(
        id="no-error",
        kind=FailureKind.UNKNOWN,
        states=FAILED,
        empty=True,
        runs=1,
        charged=1,
        hint="The platform gave no error, also not two minutes after the end; the job's log may say more.",
        source="the error arrives about a minute late (D)",
    ),
    # --- a read failed
    # -----------------------------------------------------------------------------------------
    FailureRow(
        id="gone",
        kind=FailureKind.LOST,
        phases=POLL,
        codes=frozenset({5}),
        runs=1,
        charged=1,
        hint="Somebody deleted the job while the task waited for it.",
        source="404 on the job's name (C)",
    ),
    FailureRow(
        id="denied-at-poll",
        kind=FailureKind.PERMISSION_DENIED,
        phases=POLL,
        codes=frozenset({7, 16}),
        runs=0,
        charged=0,
        hint="The identity of the connection may not read the job; the job itself may be running well.",
        source="PERMISSION_DENIED, UNAUTHENTICATED (D)",
    ),
    FailureRow(
        id="unknown-at-poll",
        kind=FailureKind.UNKNOWN,
        phases=POLL,
        runs=0,
        charged=0,
        hint="A failed read says nothing about the job: keep polling.",
        source="default of the phase",
    ),
    FailureRow(
        id="unknown",
        kind=FailureKind.UNKNOWN,
        runs=1,
        charged=1,
        hint="Not in the table; failure_rules=[FailureRule(message='...')] can say what to do about it.",
        source="default",
    ),
)
"""The table. Order matters: the first row that matches decides."""
