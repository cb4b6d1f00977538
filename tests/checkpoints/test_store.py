"""Listing, reading and moving, against the official client and a storage server; and the same on a disk."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
import pytest

from airflow_provider.agent_platform.checkpoints.store import (
    CheckpointStore,
    CheckpointStoreError,
    FoundCheckpoint,
    cloud,
    discard_incomplete,
    scan,
    scan_trials,
)
from tests.checkpoints.storage import BUCKET, StorageServer

BASE = f"gs://{BUCKET}/models/a run"


class Sleeps:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def plain(server: StorageServer, step: int, *, complete: bool = True, base: str = "models/a run") -> None:
    server.put(f"{base}/checkpoints/checkpoint-{step}/model.bin")
    if complete:
        server.put(f"{base}/checkpoints/checkpoint-{step}/_SUCCESS", text="")


def test_the_newest_complete_checkpoint_is_found_and_incomplete_newer_ones_are_named(
    server: StorageServer,
) -> None:
    for step in (100, 200, 900):
        plain(server, step)
    plain(server, 1000, complete=False)
    found = scan(BASE, server.client)
    assert found.known
    assert found.problem is None
    assert found.newest is not None
    assert (found.newest.uri, found.step) == (f"{BASE}/checkpoints/checkpoint-900", 900)
    assert found.latest_time is not None
    assert found.latest_time > pendulum.now("UTC").subtract(minutes=5)
    (newer,) = found.incomplete_newer
    assert (newer.uri, newer.step) == (f"{BASE}/checkpoints/checkpoint-1000", 1000)
    assert "_SUCCESS" in newer.why


def test_a_trailing_slash_changes_nothing(server: StorageServer) -> None:
    plain(server, 5)
    assert scan(f"{BASE}/", server.client) == scan(BASE, server.client)


def test_a_bucket_without_a_path_is_a_base_directory(server: StorageServer) -> None:
    server.put("checkpoints/checkpoint-7/model.bin", "checkpoints/checkpoint-7/_SUCCESS")
    found = scan(f"gs://{BUCKET}", server.client)
    assert found.newest is not None
    assert found.newest.uri == f"gs://{BUCKET}/checkpoints/checkpoint-7"


def test_a_slash_too_many_in_the_trainings_path_is_kept(server: StorageServer) -> None:
    # AIP_CHECKPOINT_DIR ends with a slash, and f"{directory}/checkpoint-5" adds another one.
    names = ("checkpoint-5/model.bin", "checkpoint-5/_SUCCESS", "checkpoint-9/model.bin")
    server.put(*(f"models/a run/checkpoints//{name}" for name in names))
    found = scan(BASE, server.client)
    assert found.newest is not None
    assert found.newest.uri == f"{BASE}/checkpoints//checkpoint-5"
    discard_incomplete(BASE, found.incomplete_newer, "77", server.client)
    assert server.names("models/a run/discarded") == ["models/a run/discarded/77//checkpoint-9/model.bin"]


def test_names_with_spaces_and_unicode_are_listed_and_read(server: StorageServer) -> None:
    base = "mödelle/läuft gut/#1?x=%20"
    server.put(f"{base}/checkpoints/ein ordner/global_step5/mp_rank_00_model_states.pt")
    server.put(f"{base}/checkpoints/ein ordner/latest", text="global_step5")
    found = scan(f"gs://{BUCKET}/{base}", server.client)
    assert found.newest is not None
    assert found.newest.uri == f"gs://{BUCKET}/{base}/checkpoints/ein ordner/global_step5"
    assert found.step == 5


def test_a_listing_is_paged_and_asks_for_three_fields_only(
    server: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(10, 60, 10):
        plain(server, step)
    monkeypatch.setattr(cloud, "PAGE_SIZE", 3)
    store = CheckpointStore.for_uri(BASE, server.client)
    assert len(list(store.list("checkpoints"))) == 10
    assert [query.get("pageToken") for query in server.listings] == [None, "3", "6", "9"]
    assert {query["fields"] for query in server.listings} == {"items(name,size,updated),nextPageToken"}
    assert {query["prefix"] for query in server.listings} == {"models/a run/checkpoints/"}


def test_a_listing_without_paging_is_read_as_well() -> None:
    with StorageServer(paging=False) as server:
        for step in range(10, 60, 10):
            plain(server, step)
        assert scan(BASE, server.client).step == 50


def test_a_sibling_directory_with_the_same_beginning_is_not_listed(server: StorageServer) -> None:
    plain(server, 10)
    server.put(
        "models/a run/checkpoints-old/checkpoint-99/_SUCCESS",
        "models/a run/checkpoints-old/checkpoint-99/a.bin",
    )
    assert scan(BASE, server.client).step == 10


def test_a_page_that_fails_is_asked_for_again_and_no_other(server: StorageServer) -> None:
    plain(server, 10)
    server.failures = [503, 429]
    sleeps = Sleeps()
    assert scan(BASE, server.client, sleep=sleeps).step == 10
    assert len(sleeps.seconds) == 2


def test_a_store_that_stays_away_makes_progress_unknown(server: StorageServer) -> None:
    plain(server, 10)
    server.failures = [503] * 50
    sleeps = Sleeps()
    found = scan(BASE, server.client, sleep=sleeps)
    assert not found.known
    assert not found.step_known
    assert found.newest is None
    assert "cannot list gs://bucket/models/a run/checkpoints/" in (found.problem or "")
    assert len(sleeps.seconds) == 4


def test_no_permission_to_list_makes_progress_unknown_and_names_what_to_grant(server: StorageServer) -> None:
    server.denied = {"list"}
    found = scan(BASE, server.client, sleep=Sleeps())
    assert not found.known
    assert "no permission to list" in (found.problem or "")
    assert "storage.objects.list" in (found.problem or "")


def test_a_missing_bucket_makes_progress_unknown(server: StorageServer) -> None:
    found = scan("gs://no-such-bucket/x", server.client, sleep=Sleeps())
    assert not found.known
    assert "does not exist" in (found.problem or "")


def test_credentials_that_cannot_be_had_make_progress_unknown() -> None:
    from google.auth.exceptions import DefaultCredentialsError

    def factory() -> None:
        raise DefaultCredentialsError("File /nowhere was not found.")  # type: ignore[no-untyped-call]

    found = scan(BASE, factory)
    assert not found.known
    assert "no credentials" in (found.problem or "")


@pytest.mark.parametrize("base", ["s3://bucket/x", "relative/path", "gs://", "gs:///x"])
def test_an_address_of_no_use_makes_progress_unknown_and_is_named(base: str) -> None:
    found = scan(base)
    assert not found.known
    assert base.rstrip("/") in (found.problem or "")


@pytest.mark.parametrize("base", [None, ""])
def test_no_output_directory_makes_progress_unknown(base: str | None) -> None:
    assert not scan(base).known


def test_too_many_objects_make_progress_unknown(server: StorageServer) -> None:
    for step in (1, 2, 3):
        plain(server, step)
    found = scan(BASE, server.client, max_objects=5)
    assert not found.known
    assert "more than 5 objects" in (found.problem or "")
    assert scan(BASE, server.client, max_objects=6).known


def test_a_listing_that_takes_too_long_is_given_up(
    server: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fill([(f"b/checkpoints/x-{n}/model.bin", 1, "2026-11-30T06:00:00Z") for n in range(2500)])
    moments = iter([pendulum.datetime(2026, 1, 1).add(seconds=100 * n) for n in range(100)])
    store = CheckpointStore.for_uri(
        f"gs://{BUCKET}/b", server.client, now=lambda: next(moments), budget_seconds=150
    )
    with pytest.raises(CheckpointStoreError, match="takes too long"):
        list(store.list("checkpoints"))
    assert len(server.listings) < 3


def test_nothing_at_all_is_known_to_be_no_checkpoint(server: StorageServer, tmp_path: Path) -> None:
    for base in (BASE, str(tmp_path)):
        found = scan(base, server.client)
        assert found.known
        assert found.step_known
        assert found.newest is None


def test_directory_placeholders_are_no_checkpoints(server: StorageServer) -> None:
    server.put("models/a run/checkpoints/", "models/a run/checkpoints/checkpoint-5/", text="")
    plain(server, 3)
    found = scan(BASE, server.client)
    assert found.step == 3
    assert [(item.step, item.why) for item in found.incomplete_newer] == [(5, "it is empty")]


def test_files_of_no_known_layout_make_progress_unknown(server: StorageServer) -> None:
    server.put("models/a run/checkpoints/notes.txt", "models/a run/checkpoints/state.db")
    found = scan(BASE, server.client)
    assert not found.known
    assert "none of the 2 objects" in (found.problem or "")


def test_an_unreadable_tracker_makes_progress_unknown(server: StorageServer) -> None:
    directory = "models/a run/checkpoints"
    server.put(f"{directory}/global_step5/mp_rank_00_model_states.pt")
    server.put(f"{directory}/latest", text=b"\xff\xfe\x00")
    found = scan(BASE, server.client)
    assert not found.known
    assert "latest is no text" in (found.problem or "")
    server.put(f"{directory}/latest", text=b"x" * 70_000)
    assert "not a marker" in (scan(BASE, server.client).problem or "")
    server.denied = {"get"}
    assert "no permission to read" in (scan(BASE, server.client, sleep=Sleeps()).problem or "")


def test_an_unreadable_tracker_of_older_checkpoints_does_not_matter(server: StorageServer) -> None:
    directory = "models/a run/checkpoints"
    server.put(f"{directory}/global_step5/mp_rank_00_model_states.pt")
    server.put(f"{directory}/latest", text=b"\xff\xfe\x00")
    plain(server, 10)
    found = scan(BASE, server.client)
    assert found.known
    assert found.step == 10


def rows(*checkpoints: tuple[int, str], marker: bool = True) -> list[tuple[str, int, str]]:
    return [
        (f"models/a run/checkpoints/checkpoint-{step}/{name}", 1, time)
        for step, time in checkpoints
        for name in (("model.bin", "_SUCCESS") if marker else ("model.bin",))
    ]


def test_steps_that_go_backwards_make_progress_unknown(server: StorageServer) -> None:
    server.fill(rows((500, "2026-11-30T06:00:00Z"), (100, "2026-11-30T08:00:00Z")))
    found = scan(BASE, server.client)
    assert not found.known
    assert "steps go backwards" in (found.problem or "")
    assert found.step == 500


def test_uploads_that_overtake_each_other_do_not_go_backwards(server: StorageServer) -> None:
    server.fill(rows((500, "2026-11-30T06:00:00Z"), (400, "2026-11-30T06:00:30Z")))
    assert scan(BASE, server.client).known


def test_what_is_older_than_the_beginning_is_not_resumed_from(server: StorageServer) -> None:
    server.fill(rows((500, "2026-11-30T06:00:00Z"), (100, "2026-11-30T08:00:00Z")))
    found = scan(BASE, server.client, since=pendulum.datetime(2026, 11, 30, 7))
    assert found.known
    assert found.step == 100
    later = scan(BASE, server.client, since=pendulum.datetime(2026, 11, 30, 9))
    assert later.known
    assert later.newest is None


def test_a_clock_ahead_does_not_change_which_step_is_the_newest(server: StorageServer) -> None:
    server.fill(rows((100, "2036-11-30T06:00:00Z"), (200, "2036-11-30T06:00:10Z")))
    found = scan(BASE, server.client)
    assert found.known
    assert found.step == 200


def test_only_so_many_incomplete_checkpoints_are_named(server: StorageServer) -> None:
    server.fill(rows(*((step, "2026-11-30T06:00:00Z") for step in range(100)), marker=False))
    found = scan(BASE, server.client)
    assert [item.step for item in found.incomplete_newer] == list(range(99, 79, -1))


def test_trials_are_looked_at_with_one_listing(server: StorageServer) -> None:
    for trial, step in (("1", 30), ("2", 50), ("12", 10)):
        plain(server, step, base=f"models/a run/{trial}")
    server.put("models/a run/2/model/weights.bin", "models/a run/logs/checkpoints/checkpoint-9/_SUCCESS")
    found = scan_trials(BASE, server.client)
    assert {trial: seen.step for trial, seen in found.items()} == {"1": 30, "2": 50, "12": 10}
    assert found["2"].newest is not None
    assert found["2"].newest.uri == f"{BASE}/2/checkpoints/checkpoint-50"
    assert len(server.listings) == 1


def test_a_users_own_layout_is_found_by_its_dotted_path(server: StorageServer) -> None:
    server.put("models/a run/checkpoints/ours.77.done")
    assert not scan(BASE, server.client).known
    found = scan(BASE, server.client, recognisers=["tests.checkpoints.own_layout.recognise"])
    assert found.step == 77


# -- discarding


def test_an_incomplete_checkpoint_is_moved_aside_and_nothing_else(server: StorageServer) -> None:
    plain(server, 100)
    plain(server, 200, complete=False)
    server.put("models/a run/checkpoints/checkpoint-200/deep/er/part.bin", text="deep")
    found = scan(BASE, server.client)
    moved = discard_incomplete(
        BASE, found.incomplete_newer, "projects/1/locations/r/customJobs/77", server.client
    )
    assert moved == [f"{BASE}/discarded/77/checkpoint-200"]
    assert server.names() == [
        "models/a run/checkpoints/checkpoint-100/_SUCCESS",
        "models/a run/checkpoints/checkpoint-100/model.bin",
        "models/a run/discarded/77/checkpoint-200/deep/er/part.bin",
        "models/a run/discarded/77/checkpoint-200/model.bin",
    ]
    again = scan(BASE, server.client)
    assert again.step == 100
    assert again.incomplete_newer == ()


def test_a_checkpoint_of_several_files_is_moved_with_all_of_them(server: StorageServer) -> None:
    names = ["ckpt-5.data-00000-of-00002", "ckpt-5.data-00001-of-00002", "ckpt-5_temp/part-0"]
    server.put(*(f"models/a run/checkpoints/{name}" for name in names))
    found = scan(BASE, server.client)
    assert [item.step for item in found.incomplete_newer] == [5]
    discard_incomplete(BASE, found.incomplete_newer, "77", server.client)
    assert server.names() == [f"models/a run/discarded/77/{name}" for name in names]


def test_an_empty_directory_is_moved_aside_too(server: StorageServer, tmp_path: Path) -> None:
    server.put("models/a run/checkpoints/checkpoint-9/", text="")
    (tmp_path / "checkpoints" / "checkpoint-9" / "deep").mkdir(parents=True)
    for base in (BASE, str(tmp_path)):
        found = scan(base, server.client)
        assert discard_incomplete(base, found.incomplete_newer, "77", server.client) == [
            f"{base}/discarded/77/checkpoint-9"
        ]
        assert scan(base, server.client).incomplete_newer == ()
    assert server.names() == ["models/a run/discarded/77/checkpoint-9/"]
    assert (tmp_path / "discarded" / "77" / "checkpoint-9" / "deep").is_dir()


def test_nothing_is_deleted_when_a_copy_fails(server: StorageServer) -> None:
    plain(server, 200, complete=False)
    server.put("models/a run/checkpoints/checkpoint-200/other.bin")
    found = scan(BASE, server.client)
    before = server.names()
    server.denied = {"create"}
    with pytest.raises(CheckpointStoreError, match=r"storage\.objects\.create"):
        discard_incomplete(BASE, found.incomplete_newer, "77", server.client, sleep=Sleeps())
    assert server.names() == before


def test_a_move_that_was_interrupted_can_be_repeated(server: StorageServer) -> None:
    plain(server, 200, complete=False)
    found = scan(BASE, server.client)
    server.denied = {"delete"}
    with pytest.raises(CheckpointStoreError, match=r"storage\.objects\.delete"):
        discard_incomplete(BASE, found.incomplete_newer, "77", server.client, sleep=Sleeps())
    assert len(server.names()) == 2
    server.denied = set()
    discard_incomplete(BASE, scan(BASE, server.client).incomplete_newer, "77", server.client)
    assert server.names() == ["models/a run/discarded/77/checkpoint-200/model.bin"]


def test_an_object_that_was_written_again_meanwhile_stays(server: StorageServer) -> None:
    plain(server, 200, complete=False)
    store = CheckpointStore.for_uri(BASE, server.client)
    name = "checkpoints/checkpoint-200/model.bin"
    copied = store.copy(name, "discarded/77/model.bin")
    server.put(f"models/a run/{name}", text="newer")
    store.remove(name, copied)
    assert f"models/a run/{name}" in server.names()


def test_a_complete_checkpoint_is_never_moved(server: StorageServer) -> None:
    plain(server, 100)
    newest = scan(BASE, server.client).newest
    assert newest is not None
    with pytest.raises(ValueError, match="is complete"):
        discard_incomplete(BASE, [newest], "77", server.client)


@pytest.mark.parametrize("job", ["", "..", "a/../..", "über/../x y"])
def test_a_job_name_cannot_lead_out_of_the_directory(server: StorageServer, job: str) -> None:
    plain(server, 200, complete=False)
    discard_incomplete(BASE, scan(BASE, server.client).incomplete_newer, job, server.client)
    (name,) = server.names()
    assert name.startswith("models/a run/discarded/")
    assert ".." not in name


# -- a disk


def local(base: Path, step: int, *, complete: bool = True) -> None:
    directory = base / "checkpoints" / f"checkpoint-{step}"
    directory.mkdir(parents=True)
    (directory / "model.bin").write_bytes(b"x" * 10)
    if complete:
        (directory / "_SUCCESS").touch()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_local_path_is_a_store_too(tmp_path: Path, scheme: str) -> None:
    local(tmp_path, 10)
    local(tmp_path, 20, complete=False)
    base = f"{scheme}{tmp_path}"
    found = scan(base)
    assert found.newest is not None
    assert found.newest.uri == f"{base}/checkpoints/checkpoint-10"
    assert discard_incomplete(base, found.incomplete_newer, "5") == [f"{base}/discarded/5/checkpoint-20"]
    assert not (tmp_path / "checkpoints" / "checkpoint-20").exists()
    assert (tmp_path / "discarded" / "5" / "checkpoint-20" / "model.bin").read_bytes() == b"x" * 10
    assert scan(base).incomplete_newer == ()


def test_links_are_followed_to_files_but_not_to_directories(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    (directory / "epoch=0-step=5.ckpt").write_bytes(b"x")
    (directory / "last.ckpt").symlink_to("epoch=0-step=5.ckpt")
    (directory / "dangling.ckpt").symlink_to("gone.ckpt")
    (directory / "loop").symlink_to(directory)
    store = CheckpointStore.for_uri(str(tmp_path))
    assert [item.name for item in store.list("checkpoints")] == ["epoch=0-step=5.ckpt", "last.ckpt"]


def test_an_empty_local_directory_is_listed_as_a_placeholder(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "checkpoint-5").mkdir(parents=True)
    found = scan(str(tmp_path))
    assert [(item.step, item.why) for item in found.incomplete_newer] == [(5, "it is empty")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_local_directory_that_may_not_be_read_makes_progress_unknown(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir(mode=0)
    assert not scan(str(tmp_path)).known


def test_a_local_store_is_bounded_too(tmp_path: Path) -> None:
    for step in range(5):
        local(tmp_path, step)
    assert "more than 5 files" in (scan(str(tmp_path), max_objects=5).problem or "")


def test_a_record_says_what_is_not_known() -> None:
    from airflow_provider.agent_platform.checkpoints.store import CheckpointScan

    stepless = FoundCheckpoint(uri="gs://b/last.ckpt", step=None, framework="lightning")
    assert not CheckpointScan(newest=stepless).step_known
    assert CheckpointScan().step_known
    assert not CheckpointScan(known=False, problem="x").step_known
