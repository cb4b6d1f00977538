"""Layouts that no recording shows: several ranks, overwriting in place, nesting, look-alikes. One row a
case."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.agent_platform.checkpoints.recognisers import (
    BUILTIN,
    Checkpoint,
    Directory,
    StoredObject,
    load,
    newest_complete,
    recognise,
)
from tests.checkpoints import engine_layouts, layouts
from tests.checkpoints.layouts import Row, ds, hf, listing

ROWS = [*layouts.ROWS, *engine_layouts.ROWS]


def look(row: Row) -> list[Checkpoint]:
    return recognise(listing(*row.files), row.texts.get, atomic_rename=row.disk)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_layout_is_judged_as_it_should_be(row: Row) -> None:
    seen = look(row)
    newest = newest_complete(seen)
    assert (newest.path if newest else None) == row.newest, seen
    if newest:
        assert newest.step == row.step
        assert not newest.why
        assert newest.framework == (row.framework or newest.framework)
        assert newest.time is not None
    whys = [item.why for item in seen if not item.complete]
    assert all(whys)
    if row.why:
        assert any(row.why in why for why in whys), whys


@pytest.mark.parametrize("row", [row for row in ROWS if row.newest], ids=lambda row: row.id)
def test_the_order_of_a_listing_does_not_matter(row: Row) -> None:
    forward = look(row)
    backward = recognise(reversed(listing(*row.files)), row.texts.get, atomic_rename=row.disk)
    assert backward == forward


@pytest.mark.parametrize("tracker", ["latest", "latest_checkpointed_iteration.txt"])
@pytest.mark.parametrize("text", [None, "", "\x00\x01", "x" * 300])
def test_an_unreadable_tracker_leaves_it_uncertain(tracker: str, text: str | None) -> None:
    files = ds(10) if tracker == "latest" else ["iter_0000010/common.pt", "iter_0000010/metadata.json"]
    read: Callable[[str], str | None] = {tracker: text}.get if text is not None else lambda name: None
    (found,) = recognise(listing(tracker, *files), read)
    assert found.uncertain
    assert not found.complete
    assert "cannot be read" in found.why


def test_a_thousand_trackers_are_not_all_read() -> None:
    asked: list[str] = []

    def read(name: str) -> str:
        asked.append(name)
        return "global_step10"

    recognise(listing(*(f"run-{n}/{name}" for n in range(1000) for name in ["latest", *ds(10)])), read)
    assert len(asked) == 64


def test_only_markers_are_read() -> None:
    asked: list[str] = []

    def read(name: str) -> None:
        asked.append(name)

    for row in ROWS:
        recognise(listing(*row.files), read, atomic_rename=True)
    assert {name.rpartition("/")[2] for name in asked} <= {
        "latest",
        "latest_checkpointed_iteration.txt",
        "training_metadata.json",
        "_CHECKPOINT_METADATA",
    }


def test_the_same_step_twice_gives_the_later_one() -> None:
    found = newest_complete(
        recognise(listing(*(f"run-1/{n}" for n in hf(5)), *((f"run-2/{n}", 9.0) for n in hf(5))))
    )
    assert found is not None
    assert found.path == "run-2/checkpoint-5"


def test_a_users_recogniser_is_asked_first_and_owns_what_it_claims() -> None:
    def ours(directory: Directory) -> list[Checkpoint]:
        return [
            Checkpoint(path=child.path, step=1, complete=False, why="we say so", framework="ours")
            for child in directory.directories.values()
        ]

    (found,) = recognise(listing(*hf(5)), recognisers=[ours])
    assert (found.framework, found.why, found.parts) == ("ours", "we say so", ("checkpoint-5",))


def test_a_recogniser_is_found_by_its_dotted_path() -> None:
    from tests.checkpoints import own_layout

    assert load("tests.checkpoints.own_layout.recognise") is own_layout.recognise
    assert load("tests.checkpoints.own_layout:recognise") is own_layout.recognise
    assert load(own_layout.recognise) is own_layout.recognise


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("recognise", ImportError, "has no module"),
        ("no_such_package.recognise", ImportError, "no_such_package"),
        ("tests.checkpoints.own_layout.nothing", ImportError, "has no 'nothing'"),
        ("tests.checkpoints.own_layout.NOT_A_FUNCTION", TypeError, "is no function"),
    ],
)
def test_a_dotted_path_of_no_use_is_named(path: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load(path)


def test_every_framework_of_the_documentation_has_a_recogniser() -> None:
    assert [getattr(recogniser, "__name__", "") for recogniser in BUILTIN] == [
        "plain",
        "nemo",
        "lightning",
        "hugging_face",
        "orbax",
        "deepspeed",
        "megatron",
        "torch_distributed",
        "tensorflow",
        "keras",
        "single_file",
    ]


PART = st.sampled_from(
    [
        "checkpoint-5",
        "_SUCCESS",
        "latest",
        ".metadata",
        "a.distcp",
        "trainer_state.json",
        "model.safetensors",
        "5",
        "",
        "ckpt-5.index",
        "ckpt-5.data-00000-of-00001",
        "x.ckpt",
        "meta.pt",
        "global_step5",
        "mp_rank_00_model_states.pt",
        "iter_0000005",
        "5.orbax-checkpoint-tmp",
        "commit_success.txt",
        "ü b",
        "x-unfinished",
        "training_metadata.json",
    ]
)


@given(
    st.lists(
        st.tuples(st.lists(PART, min_size=1, max_size=4), st.integers(0, 3), st.none() | st.floats(0, 1e9)),
        max_size=25,
    ),
    st.booleans(),
)
def test_no_listing_breaks_it(files: list[tuple[list[str], int, float | None]], disk: bool) -> None:
    objects = [StoredObject("/".join(parts), size, updated) for parts, size, updated in files]
    seen = recognise(objects, lambda name: "global_step5", atomic_rename=disk)
    for item in seen:
        assert item.complete != bool(item.why)
        assert item.parts
    parts = [part for item in seen for part in item.parts]
    assert len(parts) == len(set(parts))
    newest = newest_complete(seen)
    assert newest is None or newest.complete
