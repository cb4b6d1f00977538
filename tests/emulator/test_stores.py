"""One suite over both stores, and what only a file has: that it outlives the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.agent_platform.emulator import filters
from airflow_provider.agent_platform.emulator.store import (
    MemoryStore,
    Row,
    SqliteStore,
    StoreError,
    index,
    open_store,
)
from airflow_provider.agent_platform.emulator.store.sqlite import FORMAT

KIND, PROJECT, REGION = "customJobs", "123", "us-central1"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    made = open_store(":memory:" if request.param == "memory" else str(tmp_path / "jobs.db"))
    yield made
    made.close()


def row(store: MemoryStore, state: int = 1, labels: dict[str, str] | None = None, **more: Any) -> Row:
    number = store.next_sequence()
    values: dict[str, Any] = {
        "id": str(10**18 + number), "sequence": number, "kind": KIND, "project": PROJECT, "region": REGION,
        "display_name": f"job-{number}", "state": state, "created_ns": number * 10**9, "labels": labels or {},
        "payload": b"payload", **more,
    }  # fmt: skip
    made = Row(**values)
    store.add(made)
    return made


def found(store: MemoryStore, text: str = "", before: int | None = None, region: str = REGION) -> list[int]:
    return [one.sequence for one in store.find(KIND, PROJECT, region, filters.parse(text), before)]


def test_what_was_added_is_found_newest_first(store: MemoryStore) -> None:
    made = [row(store) for _ in range(3)]
    assert found(store) == [3, 2, 1]
    assert store.get(made[1].id) is made[1]
    assert store.get("nobody") is None
    assert len(store) == 3


def test_a_list_goes_on_below_the_last_one_seen(store: MemoryStore) -> None:
    for _ in range(5):
        row(store)
    assert found(store, before=3) == [2, 1]


@pytest.mark.parametrize("text", ["", 'state="JOB_STATE_QUEUED"', "labels.a=1", 'display_name:"job-*"'])
@pytest.mark.parametrize("few", [0, 2000])
def test_a_search_in_parts_finds_what_one_search_finds(
    store: MemoryStore, text: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "FEW", few)
    monkeypatch.setattr(index, "MANY", 2)
    for number in range(20):
        row(store, state=1 + number % 3 % 2, labels={"a": str(number % 2)})
    parts, together, before = 0, list[int](), None
    while True:
        rows, before = store.search(KIND, PROJECT, REGION, filters.parse(text), before, lambda found: True)
        parts += 1
        together += [one.sequence for one in rows]
        if before is None:
            break
    assert together == found(store, text)
    assert parts > 5


def test_a_search_goes_on_when_rows_have_gone_and_come(store: MemoryStore) -> None:
    made = [row(store) for _ in range(6)]
    rows, before = store.search(KIND, PROJECT, REGION, filters.parse(""), None, lambda found: len(found) == 2)
    assert ([one.sequence for one in rows], before) == ([6, 5], 5)
    store.delete(made[3])
    row(store)
    rows, before = store.search(KIND, PROJECT, REGION, filters.parse(""), before, lambda found: False)
    assert ([one.sequence for one in rows], before) == ([3, 2, 1], None)


def test_kinds_projects_and_regions_are_apart(store: MemoryStore) -> None:
    row(store)
    row(store, region="europe-west4")
    row(store, project="9")
    row(store, kind="hyperparameterTuningJobs")
    assert found(store) == [1]
    assert found(store, region="europe-west4") == [2]


def test_a_change_of_state_moves_a_row(store: MemoryStore) -> None:
    first, _ = row(store), row(store)
    old, first.state = first.state, 3
    store.save(first, old)
    assert found(store, 'state="JOB_STATE_RUNNING"') == [1]
    assert found(store, 'state="JOB_STATE_QUEUED"') == [2]


def test_labels_and_names_are_found(store: MemoryStore) -> None:
    row(store, labels={"a": "1", "b": "2"})
    row(store, labels={"a": "1"})
    row(store, labels={"a": "2"})
    assert found(store, "labels.a=1") == [2, 1]
    assert found(store, "labels.a=1 AND labels.b:*") == [1]
    assert found(store, 'display_name="job-3"') == [3]
    assert found(store, "labels.c:*") == []


def test_a_deleted_row_is_nowhere(store: MemoryStore) -> None:
    one = row(store, labels={"a": "1"})
    store.add_event(one.id, 1.0, "state", {"state": "X"})
    store.delete(one)
    assert found(store) == found(store, "labels.a=1") == found(store, 'state="JOB_STATE_QUEUED"') == []
    assert store.events(one.id) == []


def test_sequences_are_never_used_twice(store: MemoryStore) -> None:
    store.delete(row(store))
    store.clear()
    assert store.next_sequence() == 2


def test_events_keep_their_order(store: MemoryStore) -> None:
    for number in range(3):
        store.add_event("job", float(number), "state", {"number": number})
    assert store.events("job") == [(float(number), "state", {"number": number}) for number in range(3)]


def test_documents_are_kept_and_replaced(store: MemoryStore) -> None:
    assert store.document("quotas") is None
    store.set_document("quotas", {"a": 1})
    store.set_document("quotas", {"a": 2})
    assert store.document("quotas") == {"a": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        'state="JOB_STATE_RUNNING"',
        "labels.k=v3",
        'state!="JOB_STATE_QUEUED"',
        'labels.k=v1 OR display_name="job-7"',
    ],
)
def test_an_index_finds_what_a_full_scan_finds(
    store: MemoryStore, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(store, state=number % 5 + 1, labels={"k": f"v{number % 4}"}) for number in range(60)]
    for one in rows[::3]:
        old, one.state = one.state, 3
        store.save(one, old)
    for one in rows[::10]:
        store.delete(one)
    predicate = filters.parse(text)
    expected = [one.sequence for one in reversed(store.rows()) if predicate.matches(one)]
    assert found(store, text) == expected
    monkeypatch.setattr("airflow_provider.agent_platform.emulator.store.index.FEW", 0)
    assert found(store, text) == expected


# --- files ---


def reopened(path: Path, change: Callable[[MemoryStore], None]) -> MemoryStore:
    store = SqliteStore(str(path))
    change(store)
    store.close()
    return SqliteStore(str(path))


def test_everything_outlives_the_process(tmp_path: Path) -> None:
    def fill(store: MemoryStore) -> None:
        one = row(store, labels={"a": "1"}, life={"phase": "running"}, launch={"trial": "1"})
        store.add_event(one.id, 5.0, "state", {"state": "X"})
        store.set_document("quotas", {"r": {"m": 1}})
        old, one.state, one.payload = one.state, 3, b"new"
        store.save(one, old)

    store = reopened(tmp_path / "jobs.db", fill)
    (one,) = store.rows()
    assert (one.state, one.payload, one.life, one.launch) == (3, b"new", {"phase": "running"}, {"trial": "1"})
    assert found(store, 'labels.a=1 AND state="JOB_STATE_RUNNING"') == [1]
    assert store.events(one.id) == [(5.0, "state", {"state": "X"})]
    assert store.document("quotas") == {"r": {"m": 1}}
    assert store.next_sequence() == 2
    store.close()


def test_a_sequence_of_a_deleted_job_is_not_used_again_after_a_restart(tmp_path: Path) -> None:
    store = reopened(tmp_path / "jobs.db", lambda store: store.delete(row(store)))
    assert store.next_sequence() == 2
    store.close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    with pytest.raises(StoreError, match=f"format {FORMAT + 1} is newer"):
        open_store(str(path))


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    first = open_store(str(tmp_path / "jobs.db"))
    try:
        with pytest.raises(StoreError, match="in use by another emulator"):
            open_store(str(tmp_path / "jobs.db"))
    finally:
        first.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(b"no database at all" * 100), "not a SQLite database"),
        (lambda path: _foreign(path), "not the emulator's"),
        (lambda path: path.mkdir(), "unable to open"),
    ],
)
def test_what_is_no_database_of_ours_is_refused(
    make: Callable[[Path], Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.db"
    make(path)
    with pytest.raises(StoreError, match=said):
        open_store(str(path))


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="directory does not exist"):
        open_store(str(tmp_path / "nowhere" / "jobs.db"))


def _foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
