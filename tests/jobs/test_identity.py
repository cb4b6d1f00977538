"""Whose job is it: keys and labels for every name that Airflow lets a user choose."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.agent_platform.jobs import identity
from airflow_provider.agent_platform.jobs.errors import SpecError
from airflow_provider.agent_platform.jobs.identity import JobLabels, TaskIdentity

VALUE = re.compile(r"[a-z0-9_-]{0,63}")
KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
FOLDER = re.compile(r"[A-Za-z0-9_.~-]+")

# Names as users make them, and then any text at all.
names = st.one_of(
    st.text(max_size=250),
    st.text(alphabet="aA.:+-_ /äß日🚀0", max_size=250),
    st.from_regex(r"[A-Za-z0-9_.-]{1,250}", fullmatch=True),
    st.sampled_from(["", ".", "..", "🚀", "::", "9lives", "manual__2026-11-30T00:00:00+00:00", "a" * 250]),
)
identities = st.builds(
    TaskIdentity,
    dag_id=names,
    run_id=names,
    task_id=names,
    map_index=st.integers(min_value=-1, max_value=5000),
    deployment=st.sampled_from(["", "production", "staging"]),
)

ONE = TaskIdentity(
    dag_id="train", run_id="manual__2026-11-30T00:00:00+00:00", task_id="fit.model", map_index=3
)


@given(identities, st.integers(0, 10_000), st.integers(1, 10_000), st.none() | st.integers(0, 10**12))
def test_labels_are_valid_for_every_name(
    task: TaskIdentity, epoch: int, try_number: int, resume_step: int | None
) -> None:
    labels = task.labels(epoch=epoch, try_number=try_number, resume_step=resume_step)
    for key, value in labels.items():
        assert KEY.fullmatch(key)
        assert VALUE.fullmatch(value), value
        assert value


@given(identities, st.integers(0, 10_000), st.integers(1, 10_000), st.none() | st.integers(0, 10**12))
def test_labels_are_read_back_as_they_were_written(
    task: TaskIdentity, epoch: int, try_number: int, resume_step: int | None
) -> None:
    parsed = JobLabels.parse(task.labels(epoch=epoch, try_number=try_number, resume_step=resume_step))
    assert parsed == JobLabels(key=task.key, epoch=epoch, try_number=try_number, resume_step=resume_step)


@given(identities, identities)
def test_two_task_instances_have_two_keys_and_two_folders(one: TaskIdentity, other: TaskIdentity) -> None:
    assert (one.key == other.key) == (one == other)
    assert (one.slug_path() == other.slug_path()) == (one == other)


@given(st.lists(st.text(alphabet="a.:/-", max_size=4), min_size=3, max_size=3), st.integers(0, 11))
def test_moving_characters_from_one_id_to_the_next_changes_the_key(ids: list[str], cut: int) -> None:
    joined = "".join(ids)
    first, second = joined[: min(cut, len(joined))], joined[min(cut, len(joined)) :]
    one = TaskIdentity(dag_id=ids[0], run_id=ids[1], task_id=ids[2])
    other = TaskIdentity(dag_id=first, run_id=second, task_id="")
    assert (one.key == other.key) == (one == other)


def test_the_map_index_and_the_deployment_are_part_of_the_key() -> None:
    base: dict[str, Any] = {"dag_id": "d", "run_id": "r", "task_id": "t"}
    tasks = [
        TaskIdentity(**base),
        TaskIdentity(**base, map_index=0),
        TaskIdentity(**base, map_index=1),
        TaskIdentity(**base, deployment="staging"),
    ]
    assert len({task.key for task in tasks}) == len(tasks)


def test_the_key_of_a_task_instance_never_changes() -> None:
    """Running jobs carry it: a release that computes another one loses them all."""
    task = TaskIdentity(dag_id="d", run_id="r", task_id="t")
    assert task.key == "ea05ae9ca2c5745e22232f57f34f82f412f499d8"


def test_the_label_names_never_change() -> None:
    assert sorted(identity.RESERVED_LABELS) == [
        "airflow-dag",
        "airflow-epoch",
        "airflow-managed",
        "airflow-max-tries",
        "airflow-output",
        "airflow-resume-step",
        "airflow-run",
        "airflow-task",
        "airflow-ti",
        "airflow-try",
    ]
    every = ONE.labels(epoch=0, try_number=1, max_tries=0, resume_step=2, output_directory="gs://b/x")
    assert set(every) == identity.RESERVED_LABELS


def test_a_lone_surrogate_still_has_a_key() -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", TaskIdentity(dag_id="\ud800", run_id="", task_id="").key)


def test_the_filter_names_the_key() -> None:
    assert ONE.ledger_filter() == f'labels.airflow-ti="{ONE.key}"'


def test_one_output_directory_has_one_label_however_it_is_written() -> None:
    labels = [
        ONE.labels(epoch=0, try_number=1, output_directory=text)["airflow-output"]
        for text in ("gs://b/x", "gs://b/x/", " gs://b/x//", "gs://b/X", "gs://b/x/y")
    ]
    assert labels[0] == labels[1] == labels[2]
    assert len(set(labels)) == 3
    assert all(re.fullmatch(r"[0-9a-f]{20}", label) for label in labels)


def test_the_label_of_an_output_directory_never_changes() -> None:
    """Running jobs carry it: a release that computes another one does not see them any more."""
    assert identity.output_filter("gs://bucket/run") == 'labels.airflow-output="e69e696cacd7ec223048"'


def test_a_job_without_an_output_directory_has_no_label_of_one() -> None:
    assert "airflow-output" not in ONE.labels(epoch=0, try_number=1)


def test_a_job_that_starts_from_nothing_has_no_resume_step() -> None:
    assert "airflow-resume-step" not in ONE.labels(epoch=0, try_number=1)
    assert ONE.labels(epoch=0, try_number=1, resume_step=0)["airflow-resume-step"] == "0"


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"airflow-ti": "", "airflow-epoch": "0", "airflow-try": "1"},
        {"airflow-ti": "k", "airflow-try": "1"},
        {"airflow-ti": "k", "airflow-epoch": "x", "airflow-try": "1"},
        {"airflow-ti": "k", "airflow-epoch": "0", "airflow-try": "-1"},
        {"airflow-ti": "k", "airflow-epoch": "٣", "airflow-try": "1"},
    ],
)
def test_labels_that_someone_changed_are_not_ours(labels: dict[str, str]) -> None:
    assert JobLabels.parse(labels) is None


@pytest.mark.parametrize("step", ["unknown", "soon", ""])
def test_a_step_that_cannot_be_read_does_not_hide_the_job(step: str) -> None:
    labels = {"airflow-ti": "k", "airflow-epoch": "0", "airflow-try": "1", "airflow-resume-step": step}
    assert JobLabels.parse(labels) == JobLabels(key="k", epoch=0, try_number=1, resume_step_unknown=True)


def test_an_unknown_step_is_written_as_such() -> None:
    labels = ONE.labels(epoch=0, try_number=1, resume_step="unknown")
    parsed = JobLabels.parse(labels)
    assert parsed is not None
    assert parsed.resume_step_unknown


@pytest.mark.parametrize(
    ("max_tries", "retries", "epoch"), [(3, 3, 0), (0, 0, 0), (4, 3, 1), (9, 3, 6), (0, 3, 0)]
)
def test_the_epoch_counts_from_the_first_clear(max_tries: int, retries: int, epoch: int) -> None:
    assert identity.epoch_of(max_tries, retries) == epoch


@given(names)
def test_slugs_are_valid_and_readable(text: str) -> None:
    slug = identity.label_slug(text)
    assert VALUE.fullmatch(slug)
    assert slug
    if VALUE.fullmatch(text) and text and text == text.strip("-"):
        assert slug == text


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("train_digits", "train_digits"),
        ("Größe.Ü", "grosse-u-"),
        ("fit.model", "fit-model-"),
        ("A" * 250, "a" * 54),
    ],
)
def test_a_slug_can_be_recognised(text: str, start: str) -> None:
    assert identity.label_slug(text).startswith(start)


@given(names, names)
def test_two_names_have_two_slugs(one: str, other: str) -> None:
    # Readable, so shortened: eight hexadecimal digits keep apart what people meet, not what an attacker makes.
    assert (identity.label_slug(one) == identity.label_slug(other)) == (one == other)


@given(identities)
def test_the_folder_is_a_plain_relative_path(task: TaskIdentity) -> None:
    folders = task.slug_path().split("/")
    assert len(folders) == 3 + bool(task.deployment) + (task.map_index >= 0)
    for folder in folders:
        assert FOLDER.fullmatch(folder)
        assert folder.strip(".")
        assert len(folder) <= 120


def test_a_plain_name_is_its_own_folder() -> None:
    task = TaskIdentity(dag_id="train_digits", run_id="run-1", task_id="fit.Model")
    assert task.slug_path() == "train_digits/run-1/fit.Model"


@given(names, names)
def test_the_default_display_name_is_accepted_by_the_service(dag_id: str, task_id: str) -> None:
    name = TaskIdentity(dag_id=dag_id, run_id="r", task_id=task_id).display_name
    assert 1 <= len(name) <= 128
    if len(dag_id) + len(task_id) < 100:
        assert name == f"{dag_id}.{task_id}"


def test_the_users_labels_are_kept() -> None:
    ours = ONE.labels(epoch=0, try_number=1)
    merged = identity.merge_labels({"team": "vision", "cost-center": 42, "größe": "", "日本": "値"}, ours)
    assert merged == {"team": "vision", "cost-center": "42", "größe": "", "日本": "値", **ours}
    assert identity.merge_labels(None, ours) == ours


@pytest.mark.parametrize("name", sorted(identity.RESERVED_LABELS))
def test_a_users_label_with_a_name_of_ours_is_an_error(name: str) -> None:
    with pytest.raises(SpecError, match="belongs to the provider"):
        identity.merge_labels({name: "x"}, ONE.labels(epoch=0, try_number=1))


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({"Team": "a"}, "lower-case letter"),
        ({"1a": "a"}, "start with a lower-case letter"),
        ({"": "a"}, "start with a lower-case letter"),
        ({"a" * 64: "a"}, "at most 63"),
        ({"a b": "a"}, "lower-case letters, digits"),
        ({7: "a"}, "labels\\[7\\]"),
        ({"a": "A"}, "'A' may hold only lower-case"),
        ({"a": "x" * 64}, "at most 63"),
        ({"a": True}, "True is no text"),
        ({"a": None}, "None is no text"),
        ("team=a", "'team=a' is no dict"),
    ],
)
def test_a_label_the_service_would_refuse_is_named(labels: Any, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        identity.check_labels(labels)


def test_all_bad_labels_are_named_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        identity.check_labels({"A": "a", "b": "B", "fine": "fine"})
    assert [problem.path for problem in caught.value.problems] == ["labels['A']", "labels['b']"]


def test_more_labels_than_a_job_can_have_are_refused() -> None:
    ours = ONE.labels(epoch=0, try_number=1)
    room = 64 - len(ours)
    assert len(identity.merge_labels({f"l{n}": "x" for n in range(room)}, ours)) == 64
    with pytest.raises(SpecError, match=f"at most {room}"):
        identity.merge_labels({f"l{n}": "x" for n in range(room + 1)}, ours)
