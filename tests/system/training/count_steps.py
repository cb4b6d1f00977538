"""A training that only counts, with checkpoints as real ones write them: what the system tests preempt.

In: options, and the environment of a worker. Out: one line of the log for each step, and checkpoints. It stands
still where its machine is to be taken away, so that how many steps are lost is known and not measured.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "dags" / "training"))

import checkpoint_io  # type: ignore[import-not-found]  # the path is known only now


def main() -> None:
    """Count from the checkpoint to the end, or to where the machine goes."""
    options = _options()
    job = int(os.environ["AIRFLOW_RUN_INDEX"])
    gone_at = options.gone_at[job] if job < len(options.gone_at) else None
    step = 0
    with checkpoint_io.resume_from() as (directory, told):
        if directory:
            step = int((directory / "count.txt").read_text())
            if step != told:
                raise SystemExit(f"told to resume from step {told}, but the checkpoint holds step {step}")
    print(f"started at step {step}", flush=True)
    while step < options.steps:
        step += 1
        print(f"trained step {step}", flush=True)
        if job == 0 and step == options.cut_off_at:
            _save_without_the_marker(step)
        elif step % options.save_every == 0:
            checkpoint_io.save(step, functools.partial(_write, step=step))
            print(f"saved step {step}", flush=True)
        if step == gone_at:
            # No handler of SIGTERM: this machine goes without a word, and what was not saved is lost.
            print(f"waits for its machine to go at step {step}", flush=True)
            time.sleep(3600)


def _write(directory: Path, step: int) -> None:
    (directory / "count.txt").write_text(str(step))
    (directory / "weights.bin").write_bytes(b"\0" * 1000)


def _save_without_the_marker(step: int) -> None:
    """Upload the files as a machine does that is taken away before the last of them, the marker."""
    bucket, prefix = checkpoint_io._bucket(f"{checkpoint_io.checkpoint_dir()}/checkpoint-{step}")
    bucket.blob(f"{prefix}/count.txt").upload_from_string(str(step))
    print(f"cut off in the upload of step {step}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--save-every", type=int, required=True, help="steps between two checkpoints")
    parser.add_argument(
        "--gone-at",
        type=int,
        nargs="*",
        default=[],
        help="where the machine of each job goes, first job first",
    )
    parser.add_argument(
        "--cut-off-at", type=int, help="the step whose checkpoint the first job does not finish"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
