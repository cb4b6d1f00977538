"""Layouts of one row each: what lies there, and what is to be said of it. Those of engines:
`engine_layouts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_provider.agent_platform.checkpoints.recognisers import StoredObject

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
    Row(
        "a file and a directory of one name",
        [
            ("a-step=5.ckpt", 0, 0),
            "a-step=5.ckpt/meta.pt",
            "a-step=5.ckpt/.metadata",
            "a-step=5.ckpt/__0_0.distcp",
        ],
        "a-step=5.ckpt",
        5,
    ),
    Row("a slash too many", ["/checkpoint-5/_SUCCESS", "/checkpoint-5/a"], "/checkpoint-5", 5, "plain"),
    Row(
        "two slashes too many, beside the right one",
        ["//x-9/_SUCCESS", "//x-9/a", "x-5/_SUCCESS", "x-5/a"],
        "//x-9",
        9,
    ),
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
