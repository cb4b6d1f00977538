"""
Where the next job goes: region, machine type, strategy.

Enters: the ledger, the outcome, what the user allows. Leaves: one placement, or None when there is nothing to climb to.
Not here: whether there is a next job at all (``decide``), and how a machine type is written into a spec (``jobs.spec``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow_provider.agent_platform.policy.kinds import FailureKind, FailurePhase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider.agent_platform.policy.ledger import Ledger
    from airflow_provider.agent_platform.policy.outcome import Outcome


@dataclass(frozen=True, kw_only=True)
class Placement:
    """
    Where one job runs.

    :param region: "us-central1".
    :param machine_type: the rung of the ladder; None keeps the machine types of the user's spec.
    :param strategy: scheduling strategy; None keeps the spec's.
    """

    region: str
    machine_type: str | None = None
    strategy: str | None = None


@dataclass(frozen=True, kw_only=True)
class PlacementOptions:
    """
    What the user allows.

    :param regions: the task's region, then its ``fallback_regions``; at least one.
    :param machine_types: the ladder climbed after OUT_OF_MEMORY or OUT_OF_DISK. May or may not begin with the spec's own type.
    :param strategy: the same for all jobs; None keeps the spec's.
    :raises ValueError: when ``regions`` is empty.
    """

    regions: tuple[str, ...]
    machine_types: tuple[str, ...] = ()
    strategy: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "regions", tuple(dict.fromkeys(self.regions)))
        object.__setattr__(self, "machine_types", tuple(self.machine_types))
        if not self.regions:
            raise ValueError("PlacementOptions.regions is empty; give at least the task's region")


class Climb(str, Enum):
    """What a kind may change about the next job."""

    STAY = "STAY"
    REGION = "REGION"
    MACHINE = "MACHINE"


CLIMBS: Mapping[FailureKind, Climb] = MappingProxyType(
    {
        FailureKind.STOCKOUT: Climb.REGION,
        FailureKind.OUT_OF_MEMORY: Climb.MACHINE,
        FailureKind.OUT_OF_DISK: Climb.MACHINE,
    }
)
"""Kinds that are not here stay where they are: data and quota are in the region the user chose."""


def first_placement(options: PlacementOptions) -> Placement:
    """Where the first job of an epoch goes: the task's own region, the spec's own machine types."""
    return Placement(region=options.regions[0], strategy=options.strategy)


def next_placement(ledger: Ledger, outcome: Outcome, options: PlacementOptions) -> Placement | None:
    """
    Where the next job goes after this outcome.

    :return: None when the kind must climb the ladder of machines and there is no higher rung.
    """
    raise NotImplementedError
