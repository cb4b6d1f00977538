"""The newest complete checkpoint among 10,000 steps of 20 objects; and a listing of 200,000 objects.

In: nothing. Out: seconds of processor time and of the clock, and how much memory it took on top of the
imports; every figure from a fresh process. The storage server of the listing runs in this process, so its
memory is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STEPS = 10_000
FILES = 20
LAYOUTS = ("hugging_face", "orbax", "plain", "tensorflow")

_ROOT = Path(__file__).parents[2]


def names(layout: str) -> Iterator[str]:
    """Yield the object names of all steps, as a listing sorts them within a step."""
    for step in range(0, STEPS * 100, 100):
        if layout == "hugging_face":
            yield from (f"checkpoint-{step}/{name}" for name in _HUGGING_FACE)
        elif layout == "orbax":
            yield from (f"{step}/{name}" for name in _ORBAX)
            yield from (f"{step}/default/d/{step * 100 + part:032x}" for part in range(FILES - len(_ORBAX)))
        elif layout == "plain":
            yield from (f"checkpoint-{step}/part-{part}.bin" for part in range(FILES - 1))
            yield f"checkpoint-{step}/_SUCCESS"
        else:
            yield from (f"ckpt-{step}.data-{part:05d}-of-00019" for part in range(FILES - 1))
            yield f"ckpt-{step}.index"


_HUGGING_FACE = [
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors.index.json",
    "optimizer.pt",
    "scheduler.pt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "trainer_state.json",
    "training_args.bin",
    "vocab.json",
] + [f"model-{part:05d}-of-00004.safetensors" for part in range(1, 5)]
_HUGGING_FACE += [f"rng_state_{rank}.pth" for rank in range(FILES - len(_HUGGING_FACE))]
_ORBAX = (
    "_CHECKPOINT_METADATA",
    "commit_success.txt",
    "default/_METADATA",
    "default/_sharding",
    "default/manifest.ocdbt",
)


def main() -> dict[str, float]:
    """Run every measurement in a process of its own."""
    figures: dict[str, float] = {}
    for layout in LAYOUTS:
        for name, value in _child("recognise", layout).items():
            figures[f"{layout}_{name}"] = value
    from tests.checkpoints.storage import BUCKET, StorageServer

    with StorageServer() as server:
        server.fill(
            [(f"base/checkpoints/{name}", 1000, "2026-11-30T06:00:00Z") for name in names("hugging_face")]
        )
        for name, value in _child("list", server.url, BUCKET).items():
            figures[f"listing_{name}"] = value
        figures["listing_pages"] = len(server.listings)
    return figures


def _child(*arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bench_checkpoints", *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _recognise(layout: str) -> dict[str, float]:
    from airflow_provider.agent_platform.checkpoints.recognisers import (
        StoredObject,
        newest_complete,
        recognise,
    )

    memory = _peak_mb()
    newest = newest_complete(recognise(StoredObject(name, 1000, 1.7e9) for name in names(layout)))
    figures = {"memory_mb": _peak_mb() - memory}
    # Timed on objects that are there already: making two hundred thousand names is not what is measured.
    objects = [StoredObject(name, 1000, 1.7e9) for name in names(layout)]
    clock, processor = time.perf_counter(), time.process_time()
    newest = newest_complete(recognise(objects))
    figures["cpu_s"] = time.process_time() - processor
    figures["wall_s"] = time.perf_counter() - clock
    if newest is None or newest.step != (STEPS - 1) * 100:
        raise AssertionError(f"{layout}: the newest complete checkpoint is {newest}")
    return figures


def _list(url: str, bucket: str) -> dict[str, float]:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    from airflow_provider.agent_platform.checkpoints.store import scan

    client = storage.Client(
        project="project",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": url},
    )
    scan(f"gs://{bucket}/nothing", lambda: client)
    memory, clock, processor = _peak_mb(), time.perf_counter(), time.process_time()
    found = scan(f"gs://{bucket}/base", lambda: client)
    figures = {
        "objects": float(found.objects),
        "cpu_s": time.process_time() - processor,
        "wall_s": time.perf_counter() - clock,
        "memory_mb": _peak_mb() - memory,
    }
    if found.step != (STEPS - 1) * 100:
        raise AssertionError(f"the newest complete checkpoint is {found.newest}, {found.problem}")
    return figures


def _peak_mb() -> float:
    """Return the most memory this process ever held. `ru_maxrss` would be that of the parent, which it
    inherits."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["recognise"]:
        print(json.dumps(_recognise(sys.argv[2])))
    elif sys.argv[1:2] == ["list"]:
        print(json.dumps(_list(sys.argv[2], sys.argv[3])))
    else:
        print(json.dumps(main(), indent=2))
