"""The benchmark runner writes what it measured, and says so when a benchmark broke."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.benchmarks import run


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one benchmark that measures and one that breaks."""

    def measure() -> dict[str, float]:
        return {"answer_ms": 42.5}

    def broken() -> dict[str, float]:
        raise RuntimeError("no stub")

    for name, main in (("good", measure), ("bad", broken)):
        (tmp_path / f"bench_{name}.py").touch()
        module = ModuleType(name)
        module.main = main  # type: ignore[attr-defined]  # as a benchmark has it
        monkeypatch.setitem(sys.modules, f"tests.benchmarks.bench_{name}", module)
    monkeypatch.setattr(run, "_HERE", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_figures_are_written_and_shown(benchmarks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["good"]) == 0
    report = json.loads((benchmarks / "build" / "bench.json").read_text())
    assert report["benchmarks"]["bench_good"]["figures"] == {"answer_ms": 42.5}
    assert report["machine"]["cpus"]
    assert "answer_ms  42.5" in capsys.readouterr().out


def test_a_broken_benchmark_fails_the_command_and_not_the_others(
    benchmarks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([]) == 1
    report = json.loads((benchmarks / "build" / "bench.json").read_text())["benchmarks"]
    assert "no stub" in report["bench_bad"]["error"]
    assert report["bench_good"]["figures"] == {"answer_ms": 42.5}
    assert "no stub" in capsys.readouterr().err


def test_an_unknown_benchmark_is_named_with_those_there_are(
    benchmarks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["fast"]) == 1
    assert "bad, good" in capsys.readouterr().out
