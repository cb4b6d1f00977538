"""Tests that share a running Airflow run in one process; the others by file."""

from __future__ import annotations

import pytest

from tests.scheduling import group_of


@pytest.mark.parametrize(
    ("test_id", "group"),
    [
        ("tests/system/test_crashes.py::test_one[sqlite-create_sent]", "laptop on sqlite"),
        ("tests/system/test_train_digits.py::test_two[sqlite]", "laptop on sqlite"),
        ("tests/system/test_crashes.py::test_one[postgres-create_sent]", "laptop on postgres"),
        ("tests/system/test_failures.py::test_three", "tests/system/test_failures.py"),
        ("tests/emulator/test_stores.py::test_four[sqlite]", "tests/emulator/test_stores.py"),
    ],
)
def test_a_set_up_stays_in_one_process(test_id: str, group: str) -> None:
    assert group_of(test_id) == group
