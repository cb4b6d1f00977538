"""Layouts that no recording shows: several ranks, overwriting in place, nesting, look-alikes. One row a
case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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

T = 1_700_000_000.0
HOUR = 3600.0


def listing(*names: str | tuple[str, float] | tuple[str, float, int]) -> list[StoredObject]:
    """Return objects: a name, or a name with seconds, or with seconds and bytes."""
    objects = []
    for item in names:
        name, seconds, size = item, 0.0, 10
        if not isinstance(item, str):
            name, seconds, size = (*item, 10)[:3]
        objects.append(StoredObject(str(name), int(size), T + float(seconds)))
    return objects


@dataclass(frozen=True)
class Row:
    """A listing, and what is to be said of it."""

    id: str
    files: Sequence[str | tuple[str, float] | tuple[str, float, int]]
    newest: str | None
    step: int | None = None
    framework: str | None = None
    why: str | None = None
    texts: dict[str, str] = field(default_factory=dict)
    disk: bool = False


HF = ("config.json", "optimizer.pt", "trainer_state.json")


def hf(step: int, *files: str) -> list[str]:
    return [f"checkpoint-{step}/{name}" for name in (files or (*HF, "model.safetensors"))]


def ds(step: int, *, model: int = 1, data: int = 2, but: str = "") -> list[str]:
    names = [f"mp_rank_{rank:02d}_model_states.pt" for rank in range(model)]
    names += [f"zero_pp_rank_{d}_mp_rank_{m:02d}_optim_states.pt" for m in range(model) for d in range(data)]
    return [f"global_step{step}/{name}" for name in names if name != but]


ROWS = [
    # -- plain
    Row("plain", ["ours-500/a.bin", "ours-500/_SUCCESS"], "ours-500", 500, "plain"),
    Row("plain with the other marker", ["step_7/a.bin", "step_7/COMPLETE"], "step_7", 7, "plain"),
    Row("plain, files in directories", ["x-5/deep/a", "x-5/_SUCCESS"], "x-5", 5, "plain"),
    Row("plain without a step", ["best/a.bin", "best/_SUCCESS"], "best", None, "plain"),
    Row("plain, unmarked", ["x-5/a.pt"], None, why="no _SUCCESS or COMPLETE"),
    Row("plain, nothing but the marker", ["x-5/_SUCCESS"], None, why="nothing in it but _SUCCESS"),
    Row("plain, an empty directory", ["x-5/"], None, why="it is empty"),
    Row(
        "plain, a step that is written again over an older one",
        ["x-5/_SUCCESS", ("x-5/a.bin", HOUR)],
        None,
        why="written after _SUCCESS",
    ),
    Row("plain, copied in another order", ["x-5/_SUCCESS", ("x-5/a.bin", 60)], "x-5", 5),
    Row(
        "plain in place, being overwritten",
        ["best/_SUCCESS", ("best/a.bin", 1)],
        None,
        why="being overwritten",
    ),
    Row(
        "plain, the number is a run's",
        ["run-3/_SUCCESS", "run-3/checkpoint-9/_SUCCESS", "run-3/checkpoint-9/a"],
        "run-3/checkpoint-9",
        9,
    ),
    # -- Hugging Face
    Row("hugging face", hf(500), "checkpoint-500", 500, "hugging_face"),
    Row(
        "hugging face, no state",
        hf(500, "config.json", "model.safetensors"),
        None,
        why="trainer_state.json is not",
    ),
    Row("hugging face, no weights", hf(500, *HF), None, why="no weights"),
    Row("hugging face, an index alone", hf(500, *HF, "model.safetensors.index.json"), None, why="no shard"),
    Row(
        "hugging face, a shard is missing",
        hf(
            500,
            *HF,
            "model.safetensors.index.json",
            "model-00001-of-00003.safetensors",
            "model-00003-of-00003.safetensors",
        ),
        None,
        why="2 of 3 shards",
    ),
    Row("hugging face, bin weights", hf(3, *HF, "pytorch_model.bin"), "checkpoint-3", 3, "hugging_face"),
    Row(
        "hugging face, an adapter", hf(3, *HF, "adapter_model.safetensors"), "checkpoint-3", 3, "hugging_face"
    ),
    Row(
        "hugging face, FSDP",
        hf(3, *HF, "pytorch_model_fsdp_0/.metadata", "pytorch_model_fsdp_0/__0_0.distcp"),
        "checkpoint-3",
        3,
        "hugging_face",
    ),
    Row(
        "hugging face, FSDP without metadata",
        hf(3, *HF, "pytorch_model_fsdp_0/__0_0.distcp"),
        None,
        why=".metadata",
    ),
    Row(
        "hugging face, DeepSpeed inside",
        hf(3, *HF, "latest", "global_step3/mp_rank_00_model_states.pt"),
        "checkpoint-3",
        3,
        "hugging_face",
    ),
    Row(
        "hugging face, the older temporary name",
        ["tmp-checkpoint-5/trainer_state.json", "tmp-checkpoint-5/model.safetensors"],
        None,
        why="temporary name",
    ),
    Row(
        "hugging face, an empty state",
        [*hf(5, "model.safetensors"), ("checkpoint-5/trainer_state.json", 0, 0)],
        None,
        why="trainer_state.json is empty",
    ),
    Row(
        "hugging face, the output directory after the end",
        ["run/trainer_state.json", "run/model.safetensors", *(f"run/{name}" for name in hf(5))],
        "run/checkpoint-5",
        5,
    ),
    Row(
        "hugging face, the weights of a later training",
        [*hf(5, *HF), ("checkpoint-5/model.safetensors", HOUR)],
        None,
        why="being overwritten",
    ),
    # -- TensorFlow
    Row(
        "tensorflow", ["ckpt-5.index", "ckpt-5.data-00000-of-00001", "checkpoint"], "ckpt-5", 5, "tensorflow"
    ),
    Row(
        "tensorflow of an estimator",
        ["model.ckpt-50.index", "model.ckpt-50.meta", "model.ckpt-50.data-00000-of-00001"],
        "model.ckpt-50",
        50,
        "tensorflow",
    ),
    Row(
        "tensorflow, a shard is missing",
        ["ckpt-5.index", "ckpt-5.data-00000-of-00002"],
        None,
        why="1 of 2 data shards",
    ),
    Row("tensorflow, no index", ["ckpt-5.data-00000-of-00001"], None, why="ckpt-5.index is not there"),
    Row(
        "tensorflow, only the temporary directory",
        ["ckpt-5_temp/part-00000-of-00001.index"],
        None,
        why="ckpt-5.index",
    ),
    Row(
        "tensorflow, a saved model is none",
        [
            "export/saved_model.pb",
            "export/variables/variables.index",
            "export/variables/variables.data-00000-of-00001",
        ],
        None,
    ),
    Row(
        "tensorflow, the shards of a later training",
        ["ckpt-5.index", ("ckpt-5.data-00000-of-00001", HOUR)],
        None,
        why="being overwritten",
    ),
    # -- Keras
    Row(
        "keras",
        ["latest.weights.h5", "training_metadata.json"],
        "",
        4,
        "keras",
        texts={"training_metadata.json": '{"epoch": 4, "batch": 0}'},
    ),
    Row(
        "keras inside an epoch",
        ["latest.weights.h5", "training_metadata.json"],
        "",
        None,
        "keras",
        texts={"training_metadata.json": '{"epoch": 4, "batch": 50}'},
    ),
    Row(
        "keras, metadata of no use",
        ["latest.weights.h5", "training_metadata.json"],
        "",
        None,
        "keras",
        texts={"training_metadata.json": "[1]"},
    ),
    Row(
        "keras, weights newer",
        ["training_metadata.json", ("latest.weights.h5", 1)],
        None,
        why="being overwritten",
    ),
    Row("keras, no metadata", ["latest.weights.h5"], None, why="training_metadata.json is not there"),
    Row(
        "keras in a directory",
        ["backup/latest.weights.h5", "backup/training_metadata.json"],
        "backup",
        None,
        "keras",
    ),
    # -- Lightning
    Row(
        "lightning",
        ["epoch=3-step=100.ckpt", "epoch=3-step=20.ckpt"],
        "epoch=3-step=100.ckpt",
        100,
        "lightning",
    ),
    Row("lightning, a metric in the name", ["epoch=3-val_loss=0.25.ckpt"], "epoch=3-val_loss=0.25.ckpt", 3),
    Row("lightning, last is as new", ["epoch=1-step=9.ckpt", ("last.ckpt", 5)], "epoch=1-step=9.ckpt", 9),
    Row("lightning, last is newer", ["epoch=1-step=9.ckpt", ("last.ckpt", HOUR)], "last.ckpt", None),
    Row("lightning, empty", [("epoch=1-step=9.ckpt", 0, 0)], None, why="it is empty"),
    Row(
        "lightning sharded without meta.pt",
        ["a-step=5.ckpt/.metadata", "a-step=5.ckpt/__0_0.distcp"],
        None,
        why="meta.pt",
    ),
    Row(
        "lightning with DeepSpeed",
        ["step=5.ckpt/latest", "step=5.ckpt/checkpoint/mp_rank_00_model_states.pt"],
        "step=5.ckpt",
        5,
        "lightning",
    ),
    Row(
        "lightning with DeepSpeed, unfinished",
        ["step=5.ckpt/checkpoint/mp_rank_00_model_states.pt"],
        None,
        why="latest",
    ),
    # -- Orbax
    Row("orbax", ["5/_CHECKPOINT_METADATA", "5/default/_METADATA", "5/commit_success.txt"], "5", 5, "orbax"),
    Row(
        "orbax without its marker",
        ["5/_CHECKPOINT_METADATA", "5/default/_METADATA"],
        None,
        why="commit_success.txt",
    ),
    Row(
        "orbax, older, on a disk",
        ["5/default/_METADATA", "5/default/manifest.ocdbt"],
        "5",
        5,
        "orbax",
        disk=True,
    ),
    Row(
        "orbax on a disk, not committed",
        ["5/_CHECKPOINT_METADATA", "5/default/manifest.ocdbt"],
        None,
        why="not committed",
        texts={"5/_CHECKPOINT_METADATA": '{"commit_timestamp_nsecs": null}'},
        disk=True,
    ),
    Row(
        "orbax, its temporary name",
        ["5.orbax-checkpoint-tmp-1700000000/default/_METADATA"],
        None,
        why="temporary name",
        disk=True,
    ),
    Row(
        "orbax, half renamed on a mounted bucket",
        ["5/commit_success.txt", "5/default/_METADATA", "5.orbax-checkpoint-tmp/default/d/x"],
        None,
        why="temporary name",
    ),
    Row(
        "orbax with a prefix",
        ["state_5/_CHECKPOINT_METADATA", "state_5/commit_success.txt"],
        "state_5",
        5,
        "orbax",
    ),
    # -- torch.distributed
    Row(
        "dcp",
        ["step-5/.metadata", "step-5/__0_0.distcp", "step-5/__1_0.distcp"],
        "step-5",
        5,
        "torch_distributed",
    ),
    Row("dcp, shards alone", ["step-5/__0_0.distcp"], None, why=".metadata is not there"),
    Row(
        "dcp, metadata not renamed",
        ["step-5/__0_0.distcp", "step-5/.metadata.tmp"],
        None,
        why=".metadata is not there",
    ),
    Row("dcp in the directory itself", [".metadata", "__0_0.distcp"], "", None, "torch_distributed"),
    Row(
        "dcp in place, being overwritten",
        ["now/.metadata", ("now/__0_0.distcp", 1)],
        None,
        why="being overwritten",
    ),
    Row(
        "dcp of two parts in an unmarked step",
        ["step-5/model/.metadata", "step-5/model/__0_0.distcp", "step-5/optim/__0_0.distcp"],
        None,
        why="no _SUCCESS",
    ),
    # -- DeepSpeed
    Row(
        "deepspeed",
        ["latest", *ds(10), *ds(20)],
        "global_step20",
        20,
        "deepspeed",
        texts={"latest": "global_step20\n"},
    ),
    Row(
        "deepspeed, newer than latest",
        ["latest", *ds(10), *ds(20)],
        "global_step10",
        10,
        why="latest names global_step10",
        texts={"latest": "global_step10"},
    ),
    Row("deepspeed, no latest", ds(10), None, why="latest is not there"),
    Row(
        "deepspeed, a rank in the middle is missing",
        ["latest", *ds(10, data=4, but="zero_pp_rank_1_mp_rank_00_optim_states.pt")],
        None,
        why="rank 1 is missing",
        texts={"latest": "global_step10"},
    ),
    Row(
        "deepspeed, the last rank is missing",
        ["latest", *ds(10, data=4), *ds(20, data=3)],
        "global_step10",
        10,
        why="which global_step10 has",
        texts={"latest": "global_step20"},
    ),
    Row(
        "deepspeed, one model rank lacks its last file",
        ["latest", *ds(10, model=2, data=4, but="zero_pp_rank_3_mp_rank_01_optim_states.pt")],
        None,
        why="rank 3 is missing",
        texts={"latest": "global_step10"},
    ),
    Row(
        "deepspeed on a smaller cluster",
        ["latest", *ds(10, data=4), *ds(20, data=2), *ds(30, data=2)],
        "global_step30",
        30,
        texts={"latest": "global_step30"},
    ),
    Row(
        "deepspeed with a name of one's own",
        ["latest", "good/mp_rank_00_model_states.pt"],
        "good",
        None,
        "deepspeed",
        texts={"latest": "good"},
    ),
    # -- Megatron
    Row(
        "megatron",
        [
            "latest_checkpointed_iteration.txt",
            "iter_0000010/mp_rank_00/model_optim_rng.pt",
            "iter_0000010/mp_rank_01/model_optim_rng.pt",
        ],
        "iter_0000010",
        10,
        "megatron",
        texts={"latest_checkpointed_iteration.txt": "10"},
    ),
    Row(
        "megatron, newer than the tracker",
        ["latest_checkpointed_iteration.txt", "iter_0000010/mp_rank_00/a.pt", "iter_0000020/mp_rank_00/a.pt"],
        "iter_0000010",
        10,
        why="was not finished",
        texts={"latest_checkpointed_iteration.txt": "10"},
    ),
    Row(
        "megatron, a rank is missing",
        ["latest_checkpointed_iteration.txt", "iter_0000010/mp_rank_01/a.pt"],
        None,
        why="rank 0 is missing",
        texts={"latest_checkpointed_iteration.txt": "10"},
    ),
    Row(
        "megatron distributed",
        [
            "latest_checkpointed_iteration.txt",
            "iter_0000010/metadata.json",
            "iter_0000010/.metadata",
            "iter_0000010/common.pt",
            "iter_0000010/__0_0.distcp",
        ],
        "iter_0000010",
        10,
        "megatron",
        texts={"latest_checkpointed_iteration.txt": "10"},
    ),
    Row(
        "megatron distributed without its metadata",
        ["latest_checkpointed_iteration.txt", "iter_0000010/.metadata", "iter_0000010/__0_0.distcp"],
        None,
        why="metadata.json is not there",
        texts={"latest_checkpointed_iteration.txt": "10"},
    ),
    Row(
        "megatron, no tracker",
        ["iter_0000010/common.pt", "iter_0000010/metadata.json"],
        None,
        why="latest_checkpointed_iteration.txt is not there",
    ),
    Row(
        "megatron, a released model",
        ["latest_checkpointed_iteration.txt", "release/mp_rank_00/a.pt"],
        "release",
        None,
        "megatron",
        texts={"latest_checkpointed_iteration.txt": "release"},
    ),
    # -- NeMo
    Row(
        "nemo",
        ["m--step=9/weights/metadata.json", "m--step=9/weights/.metadata", "m--step=9/context/io.json"],
        "m--step=9",
        9,
        "nemo",
    ),
    Row(
        "nemo, unfinished",
        ["m--step=9-unfinished", "m--step=9/weights/metadata.json", "m--step=9/context/io.json"],
        None,
        why="-unfinished is there",
    ),
    Row(
        "nemo, an unfinished file",
        ["m-step=9.ckpt", "m-step=9-unfinished", "m-step=5.ckpt"],
        "m-step=5.ckpt",
        5,
        why="m-step=9-unfinished is there",
    ),
    Row(
        "nemo, no metadata",
        ["m-step=9/weights/__0_0.distcp", "m-step=9/context/io.json"],
        None,
        why="metadata.json",
    ),
    # -- one file
    Row("xgboost", ["model_2.ubj", "model_10.ubj"], "model_10.ubj", 10, "file"),
    Row("xgboost, older", ["model_2.json", "metrics_10.json"], "model_2.json", 2, "file"),
    Row("torch.save", ["net-5.pt", "net-10.pth", "optimizer-99.pt"], "net-10.pth", 10, "file"),
    Row("flax, older", ["checkpoint_5", "checkpoint_10"], "checkpoint_10", 10, "file"),
    Row("an empty file", [("net-5.pt", 0, 0), "net-4.pt"], "net-4.pt", 4, why="it is empty"),
    Row(
        "a truncated file on a disk",
        [("net-4.pt", 0, 100), ("net-5.pt", 1, 30)],
        "net-4.pt",
        4,
        why="cut off",
        disk=True,
    ),
    Row(
        "a smaller object on Cloud Storage is whole",
        [("net-4.pt", 0, 100), ("net-5.pt", 1, 30)],
        "net-5.pt",
        5,
    ),
    Row("files that are written", ["net-5.pt.tmp", ".net-6.pt", "net-7.pt.part", "net-8.pt~"], None),
    Row("parts are no checkpoints", ["part-00001.pt", "model-00001-of-00002.safetensors", "rank_3.pt"], None),
    # -- together
    Row("nothing", [], None),
    Row("files of no layout", ["notes.txt", "a/b/c.log"], None),
    Row(
        "trials",
        [*(f"1/checkpoints/{name}" for name in hf(50)), *(f"2/checkpoints/{name}" for name in hf(70))],
        "2/checkpoints/checkpoint-70",
        70,
    ),
    Row("a number that is a trial's", ["trial-7/net-5.pt"], "trial-7/net-5.pt", 5),
    Row(
        "lightning in a directory with a number",
        ["abc-7/epoch=1-step=50.ckpt"],
        "abc-7/epoch=1-step=50.ckpt",
        50,
    ),
    Row(
        "a placeholder",
        ["a/", "a/checkpoint-5/", "a/checkpoint-5/_SUCCESS", "a/checkpoint-5/x"],
        "a/checkpoint-5",
        5,
    ),
]


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
