"""One stored job: what lists filter on, as columns, and the message itself, as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, kw_only=True)
class Row:
    """A job resource.

    :param id: the 19 digits of its name.
    :param sequence: order of creation, over all kinds.
    :param kind: the collection, ``customJobs`` or ``hyperparameterTuningJobs``.
    :param project: the project's number.
    :param created_ns: create time, nanoseconds since the epoch.
    :param payload: the serialized message, names and times filled in.
    :param life: what the job's controller must remember over a restart; None once it has ended.
    :param launch: what a parent added to the workers of a child job (see ``engine.Launch``), else None.
    """

    id: str
    sequence: int
    kind: str
    project: str
    region: str
    display_name: str
    state: int
    created_ns: int
    labels: Mapping[str, str]
    payload: bytes
    life: Mapping[str, Any] | None = None
    launch: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The resource name, with the project's number."""
        return f"projects/{self.project}/locations/{self.region}/{self.kind}/{self.id}"

    @property
    def create_time(self) -> int:
        """What a list filter compares ``create_time`` with."""
        return self.created_ns
