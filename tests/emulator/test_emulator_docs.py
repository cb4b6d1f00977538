"""``docs/emulator.md`` names what is there: tests, flags, faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider.agent_platform.emulator.cli import FLAGS
from airflow_provider.agent_platform.emulator.faults import FAULTS

HERE = Path(__file__).parent
DOCS = (HERE.parents[1] / "docs" / "emulator.md").read_text()
SOURCES = {path.stem: path.read_text() for path in HERE.rglob("test_*.py")}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(?:clients/)?(test_\w+)", DOCS))))
def test_a_test_that_the_docs_name_exists(name: str) -> None:
    defined = any(f"def {name}" in source for source in SOURCES.values())
    assert name in SOURCES or defined


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_is_in_the_table_with_its_twin(flag: str) -> None:
    row = next(line for line in DOCS.splitlines() if line.startswith(f"| `--{flag.replace('_', '-')}`"))
    assert f"`{flag.upper()}`" in row


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_in_the_table(fault: str) -> None:
    assert f"| `{fault}` |" in DOCS
