"""Run every benchmark and write the figures down.

In: the modules ``bench_*.py`` beside this file, each with ``main() -> Mapping[str, float]``: a name with
its unit (``"import_ms"``) -> the figure. Out: ``build/bench.json`` and a table on stdout; exit 1 when a
benchmark failed.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_REPORT = Path("build") / "bench.json"


def main(arguments: list[str]) -> int:
    """Run the benchmarks named in ``arguments`` (without ``bench_``), all of them when there is none."""
    names = sorted(path.stem for path in _HERE.glob("bench_*.py"))
    wanted = [name for name in names if not arguments or name.removeprefix("bench_") in arguments]
    if not wanted:
        there_are = ", ".join(name.removeprefix("bench_") for name in names) or "none yet"
        print(f"No such benchmark. There are: {there_are}")
        return 1 if arguments else 0
    results = {name: _run(name) for name in wanted}
    _REPORT.parent.mkdir(parents=True, exist_ok=True)
    _REPORT.write_text(json.dumps({"machine": _machine(), "benchmarks": results}, indent=2) + "\n")
    _print_table(results)
    print(f"\nWritten to {_REPORT}")
    return 1 if any("error" in result for result in results.values()) else 0


def _run(name: str) -> dict[str, Any]:
    print(f"running {name} ...", file=sys.stderr, flush=True)
    started = time.perf_counter()
    try:
        figures: Mapping[str, float] = importlib.import_module(f"tests.benchmarks.{name}").main()
    except Exception:
        traceback.print_exc()
        return {"error": traceback.format_exc(limit=1), "seconds": round(time.perf_counter() - started, 2)}
    return {"figures": dict(figures), "seconds": round(time.perf_counter() - started, 2)}


def _machine() -> dict[str, Any]:
    return {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}


def _print_table(results: Mapping[str, Mapping[str, Any]]) -> None:
    rows = [
        (name.removeprefix("bench_"), figure, f"{value:,.3f}".rstrip("0").rstrip("."))
        for name, result in results.items()
        for figure, value in result.get("figures", {"failed": float("nan")}).items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else [0, 0, 0]
    for benchmark, figure, value in rows:
        print(f"{benchmark:<{widths[0]}}  {figure:<{widths[1]}}  {value:>{widths[2]}}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
