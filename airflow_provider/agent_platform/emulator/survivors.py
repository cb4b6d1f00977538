"""Workers that an earlier emulator left behind, and its files.

In: what that one had written down: the marker of its workers and its directory. Out: none of them is left. A
supervisor ends its worker when its emulator dies; this is for a supervisor that was killed itself.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from airflow_provider.agent_platform.emulator.runners.process import MARKER

PATIENCE = 5.0
"""Real seconds that supervisors have to end their workers by themselves."""
PAUSE = 0.05


def end(runner: Mapping[str, Any] | None) -> int:
    """Kill what is left; answers how many processes that were."""
    if not runner or not runner.get("token"):
        return 0
    deadline = time.monotonic() + PATIENCE
    left = _marked(runner["token"])
    while left and time.monotonic() < deadline:
        time.sleep(PAUSE)
        left = _marked(runner["token"])
    killed = 0
    while left:
        for process in left:
            try:
                process.kill()
                killed += 1
            except psutil.Error:
                pass
        psutil.wait_procs(left, timeout=1)
        left = _marked(runner["token"])
    root = runner.get("root", "")
    if root and runner["token"] in Path(root).name:
        shutil.rmtree(root, ignore_errors=True)
    return killed


def _marked(token: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == token and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
