"""What real frameworks wrote, cut off after each of their writes: never an incomplete one chosen, never a
complete one missed. On a disk, and as Cloud Storage would show the same writes."""

from __future__ import annotations

import pytest

from airflow_provider.agent_platform.checkpoints.recognisers import (
    Checkpoint,
    StoredObject,
    newest_complete,
    recognise,
)
from tests.checkpoints.replay import Moment, Recording, recordings

FRAMEWORK = {
    "hugging_face_sharded": "hugging_face",
    "keras_double": "keras",
    "lightning_sharded": "lightning",
    "megatron_dist": "megatron",
    "orbax_marker": "orbax",
    "torch_dcp": "torch_distributed",
    "torch_dcp_in_place": "torch_distributed",
    "torch_save": "file",
    "xgboost": "file",
}
"""The layout that is recognised, where the recording has another name."""

RENAMED_BY_DISK_ONLY = {"orbax"}
"""Written under a temporary name and renamed: only a disk does that at once."""


def seen(moment: Moment, *, cloud: bool) -> list[Checkpoint]:
    return recognise(moment.objects(), moment.read, atomic_rename=not cloud)


def cases() -> list[tuple[str, bool]]:
    return [(name, cloud) for name in recordings() for cloud in (False, True)]


@pytest.mark.parametrize(("name", "cloud"), cases())
def test_an_incomplete_checkpoint_is_never_chosen(name: str, cloud: bool) -> None:
    recording = Recording.load(name)
    own = recording.own_files(cloud=cloud)
    for moment in recording.moments(cloud=cloud):
        chosen = newest_complete(seen(moment, cloud=cloud))
        if chosen is None or name == "keras_double":
            continue
        if chosen.path.endswith("last.ckpt"):
            assert chosen.path in moment.files
        elif chosen.step is None:
            assert any(moment.holds(files) for files in own.values()), moment.after
        else:
            assert chosen.step in own, (moment.after, chosen)
            assert moment.holds(own[chosen.step]), (moment.after, chosen)


@pytest.mark.parametrize(("name", "cloud"), cases())
def test_a_complete_checkpoint_is_never_missed(name: str, cloud: bool) -> None:
    recording = Recording.load(name)
    own = recording.own_files(cloud=cloud)
    assert len(own) >= 2
    found = 0
    for moment in recording.moments(cloud=cloud):
        whole = [step for step in moment.saved if moment.holds(own[step])]
        if not whole:
            continue
        chosen = newest_complete(seen(moment, cloud=cloud))
        assert chosen is not None, moment.after
        assert chosen.framework == FRAMEWORK.get(name, name)
        assert chosen.step is None or chosen.step >= max(whole), (moment.after, chosen)
        found += 1
    assert found


@pytest.mark.parametrize("cloud", [False, True])
def test_keras_falls_back_to_its_second_copy(cloud: bool) -> None:
    recording = Recording.load("keras_double")
    for moment in recording.moments(cloud=cloud):
        chosen = newest_complete(seen(moment, cloud=cloud))
        if not moment.saved:
            continue
        assert chosen is not None, moment.after
        assert chosen.step is not None
        assert chosen.step >= moment.saved[-1], moment.after


@pytest.mark.parametrize("cloud", [False, True])
def test_several_frameworks_share_one_directory(cloud: bool) -> None:
    together: list[StoredObject] = []
    texts: dict[str, str] = {}
    apart: dict[str, set[str]] = {}
    for name in (
        "tensorflow",
        "lightning",
        "hugging_face",
        "torch_dcp",
        "torch_save",
        "deepspeed",
        "xgboost",
        "keras",
    ):
        last = list(Recording.load(name).moments(cloud=cloud))[-1]
        together += last.objects()
        texts |= last.texts
        apart[FRAMEWORK.get(name, name)] = apart.get(FRAMEWORK.get(name, name), set()) | {
            item.path for item in seen(last, cloud=cloud) if item.complete
        }
    mixed: dict[str, set[str]] = {}
    for item in recognise(together, texts.get, atomic_rename=not cloud):
        assert item.complete, item
        mixed.setdefault(item.framework, set()).add(item.path)
    assert mixed == apart


@pytest.mark.parametrize(
    "prefix", ["lightning_logs/version_0/checkpoints", "run-3", "3/checkpoints", "über uns/a b"]
)
@pytest.mark.parametrize("name", recordings())
def test_a_nested_directory_changes_nothing_but_the_path(name: str, prefix: str) -> None:
    cloud = name not in RENAMED_BY_DISK_ONLY
    last = list(Recording.load(name).moments(cloud=cloud))[-1]
    flat = {(item.path, item.step) for item in seen(last, cloud=cloud)}
    objects = [StoredObject(f"{prefix}/{item.name}", item.size, item.updated) for item in last.objects()]
    nested = recognise(objects, lambda path: last.read(path[len(prefix) + 1 :]), atomic_rename=not cloud)
    assert {(item.path[len(prefix) + 1 :], item.step) for item in nested} == flat
    assert newest_complete(nested) is not None


@pytest.mark.parametrize("name", recordings())
def test_every_file_of_a_chosen_checkpoint_is_among_its_parts(name: str) -> None:
    cloud = name not in RENAMED_BY_DISK_ONLY
    recording = Recording.load(name)
    own = recording.own_files(cloud=cloud)
    for item in seen(list(recording.moments(cloud=cloud))[-1], cloud=cloud):
        if item.step in own:
            for file in own[item.step]:
                assert any(file == part or file.startswith(f"{part}/") for part in item.parts), (item, file)
