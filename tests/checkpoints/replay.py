"""Replays what a framework wrote (fixtures/*.json) up to any point, as a disk or as Cloud Storage would
show it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from airflow_provider.agent_platform.checkpoints.recognisers import StoredObject

FIXTURES = Path(__file__).parent / "fixtures"

SHARED = {
    "checkpoint",
    "latest",
    "latest_checkpointed_iteration.txt",
    "zero_to_fp32.py",
    "zero_to_torch.py",
    "last.ckpt",
    "latest.weights.h5.bkp",
    "training_metadata.json.bkp",
}
"""Files that belong to no single step: trackers, helpers, copies."""

BEGINNING = 1_700_000_000.0


class Version(NamedTuple):
    size: int
    seconds: float
    number: int
    """Which event wrote it: the same number is the same content."""


@dataclass
class Moment:
    """What is there after some event."""

    after: str
    files: dict[str, Version]
    saved: tuple[int, ...]
    """Steps whose save has returned."""
    texts: dict[str, str] = field(default_factory=dict)

    def objects(self) -> list[StoredObject]:
        return [
            StoredObject(name, version.size, BEGINNING + version.seconds)
            for name, version in sorted(self.files.items())
        ]

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def holds(self, own: dict[str, int]) -> bool:
        """Whether all files are there as they were when the save returned."""
        return all(name in self.files and self.files[name].number == number for name, number in own.items())


@dataclass
class Recording:
    """The events of one framework."""

    name: str
    events: list[list[Any]]
    texts: dict[str, dict[str, str]]

    @classmethod
    def load(cls, name: str) -> Recording:
        data = json.loads((FIXTURES / f"{name}.json").read_text())
        return cls(name=name, events=data["events"], texts=data["texts"])

    def moments(self, *, cloud: bool) -> Iterator[Moment]:
        """Yield what is there before the first event and after each; a renamed directory on Cloud Storage,
        file by file."""
        files: dict[str, Version] = {}
        texts: dict[str, str] = {}
        saved: tuple[int, ...] = ()
        seconds = 0.0
        yield Moment("nothing", {}, ())
        for number, (kind, *rest) in enumerate(self.events):
            if kind == "saved":
                saved = (*saved, rest[0])
            elif kind == "write":
                name, size, seconds = rest
                files[name] = Version(size, seconds, number)
                self._tell(name, number, texts)
            elif kind == "delete":
                files.pop(rest[0], None)
            else:
                old, new = rest
                moved = [name for name in files if name == old or name.startswith(f"{old}/")]
                if not moved:  # written under a name that strace did not see closed
                    files[new] = Version(1, seconds, number)
                for name in moved:
                    version = files.pop(name)
                    target = new + name[len(old) :]
                    files[target] = Version(
                        version.size, seconds if cloud else version.seconds, version.number
                    )
                    self._tell(target, number, texts)
                    if cloud:
                        yield Moment(f"{number}: {name} -> {target}", dict(files), saved, dict(texts))
            yield Moment(f"{number}: {kind} {rest}", dict(files), saved, dict(texts))

    def own_files(self, *, cloud: bool) -> dict[int, dict[str, int]]:
        """Return for each step what its save wrote and left: name -> version number."""
        own: dict[int, dict[str, int]] = {}
        first = 0
        for number, (kind, *rest) in enumerate(self.events):
            if kind == "saved":
                moment = next(m for m in self.moments(cloud=cloud) if m.after == f"{number}: saved {rest}")
                own[rest[0]] = {
                    name: version.number
                    for name, version in moment.files.items()
                    if version.number >= first and name not in SHARED
                }
                first = number
        return own

    def _tell(self, name: str, number: int, texts: dict[str, str]) -> None:
        """Note what a tracker says from now on: what it said when the save returned."""
        if name.endswith("_CHECKPOINT_METADATA"):
            # Orbax writes it three times, and says only in the last that it is committed.
            later = [rest[0] for kind, *rest in self.events[number + 1 :] if kind == "write"]
            texts[name] = f'{{"commit_timestamp_nsecs": {"null" if name in later else 1}}}'
            return
        for kind, *rest in self.events[number:]:
            if kind == "saved":
                text = self.texts.get(str(rest[0]), {}).get(name)
                if text is not None:
                    texts[name] = text
                return


def recordings() -> list[str]:
    return sorted(path.stem for path in FIXTURES.glob("*.json"))
