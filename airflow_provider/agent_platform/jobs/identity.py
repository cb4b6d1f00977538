"""Who owns a job: the key of a task instance, and the labels that carry it to the platform and back.

In: the ids of an Airflow task instance. Out: a key, the labels of a job, the filter that lists them, a
folder. This module decides nothing about a job; it only says whose it is.

The label keys are persisted on the platform. Renaming one makes every running job invisible to the next
try, which would then submit a second one.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from airflow_provider.agent_platform.jobs.errors import SpecError, SpecProblem, shown

LABEL_TI = "airflow-ti"
LABEL_EPOCH = "airflow-epoch"
LABEL_TRY = "airflow-try"
LABEL_MAX_TRIES = "airflow-max-tries"
LABEL_RESUME_STEP = "airflow-resume-step"
LABEL_MANAGED = "airflow-managed"
LABEL_DAG = "airflow-dag"
LABEL_TASK = "airflow-task"
LABEL_RUN = "airflow-run"
LABEL_OUTPUT = "airflow-output"

RESERVED_LABELS = frozenset(
    {
        LABEL_TI,
        LABEL_EPOCH,
        LABEL_TRY,
        LABEL_MAX_TRIES,
        LABEL_RESUME_STEP,
        LABEL_MANAGED,
        LABEL_DAG,
        LABEL_TASK,
        LABEL_RUN,
        LABEL_OUTPUT,
    }
)

MAX_LABELS = 64
"""Labels of one resource, in all (service documentation, "Requirements for labels")."""
MAX_LABEL_LENGTH = 63
"""Characters of a key or a value.

The API's comments allow 64, other Google services 63: the smaller is safe.
"""

_KEY_VERSION = "1"
_KEY_LENGTH = 40
_OUTPUT_LENGTH = 20
_SUFFIX_LENGTH = 8
_DISPLAY_NAME_LENGTH = 128
_FOLDER_LENGTH = 120
_FOLDER_SUFFIX_LENGTH = 12
_MANAGED = "true"


@dataclass(frozen=True, kw_only=True)
class TaskIdentity:
    """One Airflow task instance, over all its tries and clears.

    :param dag_id: as Airflow knows it; any characters, up to 250 of them.
    :param run_id: as Airflow knows it; it usually holds ``:`` and ``+``.
    :param task_id: with its task groups, ``group.task``.
    :param map_index: -1 for a task that is not mapped.
    :param deployment: name of the Airflow deployment, mixed into the key when it is not empty. Two
        deployments that run the same DAG in one Google Cloud project need different names, else each would
        take the other's jobs for its own.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    deployment: str = ""

    @property
    def key(self) -> str:
        """40 hexadecimal digits, the value of the label ``airflow-ti``: the same for all tries and clears.

        The ids are hashed as a JSON list, so that no two task instances can run into each other
        (``("a.b", "c")`` and ``("a", "b.c")`` differ).
        """
        parts = [_KEY_VERSION, self.dag_id, self.run_id, self.task_id, self.map_index]
        if self.deployment:
            parts.append(self.deployment)
        return _digest(json.dumps(parts))[:_KEY_LENGTH]

    def labels(
        self,
        *,
        epoch: int,
        try_number: int,
        max_tries: int | None = None,
        resume_step: int | Literal["unknown"] | None = None,
        output_directory: str | None = None,
    ) -> dict[str, str]:
        """Return the labels of a job of this task instance.

        :param epoch: see :func:`policy.epochs.current_epoch`.
        :param try_number: the Airflow try that submits the job, from 1.
        :param max_tries: ``ti.max_tries``, the same for all tries of an epoch; None sends no label.
        :param resume_step: step of the checkpoint the job starts from; None starts from nothing and sends
            no label.
        :param output_directory: ``base_output_directory`` of the job; None has none and sends no label.
        """
        labels = {
            LABEL_TI: self.key,
            LABEL_EPOCH: str(epoch),
            LABEL_TRY: str(try_number),
            LABEL_MANAGED: _MANAGED,
            LABEL_DAG: label_slug(self.dag_id),
            LABEL_TASK: label_slug(self.task_id),
            LABEL_RUN: label_slug(self.run_id),
        }
        if max_tries is not None:
            labels[LABEL_MAX_TRIES] = str(max_tries)
        if resume_step is not None:
            labels[LABEL_RESUME_STEP] = str(resume_step)
        if output_directory is not None:
            labels[LABEL_OUTPUT] = output_key(output_directory)
        return labels

    @property
    def display_name(self) -> str:
        """``<dag_id>.<task_id>``, the default name of a job: cut to 128 characters, the end replaced by a hash."""
        name = f"{self.dag_id}.{self.task_id}"
        if len(name) <= _DISPLAY_NAME_LENGTH:
            return name
        return f"{name[: _DISPLAY_NAME_LENGTH - _SUFFIX_LENGTH - 1]}-{_digest(name)[:_SUFFIX_LENGTH]}"

    def ledger_filter(self) -> str:
        """Return the ``filter`` of a List call that gives every job of this task instance, of all epochs."""
        return f'labels.{LABEL_TI}="{self.key}"'

    def slug_path(self) -> str:
        """Return ``dag/run/task`` (``.../<map_index>`` when mapped), for the default output folder.

        The same for all tries and clears, unique for each task instance, with no leading or trailing slash.
        A name that had to be changed for a path carries ``~`` and a hash, which no unchanged name can hold.
        """
        parts = [self.dag_id, self.run_id, self.task_id]
        if self.deployment:
            parts.insert(0, self.deployment)
        folders = [_folder(part) for part in parts]
        if self.map_index >= 0:
            folders.append(str(self.map_index))
        return "/".join(folders)


@dataclass(frozen=True, kw_only=True)
class JobLabels:
    """What our labels on a job say.

    :param key: of the owning task instance, :attr:`TaskIdentity.key`.
    :param epoch: the epoch the job belongs to.
    :param try_number: the try that submitted it.
    :param max_tries: ``ti.max_tries`` then; None when it is not told.
    :param resume_step: the step it was started from; None when it started from nothing, or it is not known.
    :param resume_step_unknown: it is not known what the job started from.
    """

    key: str
    epoch: int
    try_number: int
    max_tries: int | None = None
    resume_step: int | None = None
    resume_step_unknown: bool = False

    @classmethod
    def parse(cls, labels: Mapping[str, str]) -> JobLabels | None:
        """Read a job's labels; None when the job is not one of ours, or someone has changed our labels.

        :param labels: all labels of the job.
        """
        key = labels.get(LABEL_TI)
        epoch = _whole(labels.get(LABEL_EPOCH))
        try_number = _whole(labels.get(LABEL_TRY))
        if not key or epoch is None or try_number is None:
            return None
        step = labels.get(LABEL_RESUME_STEP)
        resume_step = _whole(step)
        # A step that cannot be read must not hide the job: it would be submitted a second time.
        unknown = step is not None and resume_step is None
        return cls(
            key=key,
            epoch=epoch,
            try_number=try_number,
            max_tries=_whole(labels.get(LABEL_MAX_TRIES)),
            resume_step=resume_step,
            resume_step_unknown=unknown,
        )


def output_key(directory: str) -> str:
    """Return the value of the label ``airflow-output``: 20 hexadecimal digits, the same with and without a slash at the end.

    :param directory: ``gs://bucket/folder``.
    """
    return _digest(directory.strip().rstrip("/"))[:_OUTPUT_LENGTH]


def output_filter(directory: str) -> str:
    """Return the ``filter`` of a List call that gives every job of ours with this output directory.

    :param directory: ``gs://bucket/folder``.
    """
    return f'labels.{LABEL_OUTPUT}="{output_key(directory)}"'


def managed_filter() -> str:
    """Return the ``filter`` of a List call that gives every job submitted by this provider."""
    return f'labels.{LABEL_MANAGED}="{_MANAGED}"'


def epoch_of(max_tries: int, retries: int) -> int:
    """Return the number of a new epoch: 0 until the first clear, another number after each.

    A clear sets ``max_tries = try_number + retries``; a retry leaves it. Never negative, though ``retries`` may be
    raised in the DAG while a run is going on.

    :param max_tries: ``ti.max_tries``.
    :param retries: ``task.retries``.
    """
    return max(0, max_tries - retries)


def label_slug(text: str) -> str:
    """Return a readable label value for any text: at most 63 of ``a-z 0-9 _ -``.

    Accents are dropped, everything else that is not allowed becomes ``-``. A text that had to be changed
    gets a hash of the original at its end, so that two names that look alike stay apart.

    :param text: any text, also an empty one.
    """
    cleaned = re.sub(r"[^a-z0-9_-]+", "-", _without_accents(text).casefold()).strip("-")
    if cleaned == text and 0 < len(cleaned) <= MAX_LABEL_LENGTH:
        return cleaned
    suffix = _digest(text)[:_SUFFIX_LENGTH]
    head = cleaned[: MAX_LABEL_LENGTH - _SUFFIX_LENGTH - 1].rstrip("-")
    return f"{head}-{suffix}" if head else suffix


def merge_labels(user: Mapping[str, object] | None, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the user's labels and ours together.

    :param user: the user's labels. Whole numbers become text; anything else that is no text is refused.
    :param ours: from :meth:`TaskIdentity.labels`.
    :raises SpecError: a label that the service would refuse, one that has a name of ours, or more than 64
        in all.
    """
    checked = check_labels(user)
    if len(checked) + len(ours) > MAX_LABELS:
        raise SpecError(
            [
                SpecProblem(
                    path="labels",
                    message=f"{len(checked)} labels and {len(ours)} of this provider are more than the "
                    f"{MAX_LABELS} that a job can have: give at most {MAX_LABELS - len(ours)}.",
                )
            ]
        )
    return {**checked, **ours}


def check_labels(user: object) -> dict[str, str]:
    """Return a user's labels as text, or say what is wrong with them.

    :param user: dict of the user's labels; None is none.
    :raises SpecError: lists every label that cannot be sent.
    """
    if user is None:
        return {}
    if not isinstance(user, Mapping):
        raise SpecError(
            [SpecProblem(path="labels", message=f"{shown(user)} is no dict of names and values.")]
        )
    problems: list[SpecProblem] = []
    checked: dict[str, str] = {}
    for key, value in user.items():
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        fault = _label_fault(key, text)
        if fault:
            problems.append(SpecProblem(path=f"labels[{shown(key)}]", message=fault))
        elif isinstance(key, str) and isinstance(text, str):
            checked[key] = text
    if problems:
        raise SpecError(problems)
    return checked


def _label_fault(key: object, value: object) -> str | None:
    if not isinstance(key, str) or not _is_label(key) or not key[:1].isalpha():
        return (
            "the name must start with a lower-case letter and hold only lower-case letters, digits, "
            f"'_' and '-', at most {MAX_LABEL_LENGTH} of them."
        )
    if key in RESERVED_LABELS:
        return "this name belongs to the provider, which finds its jobs by it: choose another one."
    if not isinstance(value, str):
        return f"the value {shown(value)} is no text: give a string."
    if value and not _is_label(value):
        return (
            f"the value {shown(value)} may hold only lower-case letters, digits, '_' and '-', "
            f"at most {MAX_LABEL_LENGTH} of them."
        )
    return None


def _is_label(text: str) -> bool:
    # The service allows letters of every language (comment of CustomJob.labels), but no upper case.
    return 0 < len(text) <= MAX_LABEL_LENGTH and all(
        character in "_-" or character.isdigit() or (character.isalpha() and character == character.lower())
        for character in text
    )


def _folder(text: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "-", _without_accents(text)).strip("-.")
    if cleaned == text and 0 < len(cleaned) <= _FOLDER_LENGTH:
        return cleaned
    suffix = _digest(text)[:_FOLDER_SUFFIX_LENGTH]
    return f"{cleaned[: _FOLDER_LENGTH - _FOLDER_SUFFIX_LENGTH - 1]}~{suffix}"


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else None


def _digest(text: str) -> str:
    # surrogatepass: an id read from a broken source must still get a key, not an exception.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
