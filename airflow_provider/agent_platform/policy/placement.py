"""
Where the next job goes: region, machine type, strategy.

Enters: the ledger, the outcome, what the user allows. Leaves: one placement, or None when there is nothing
to climb to. Not here: whether there is a next job at all (``decide``), and how a machine type is written
into a spec (``jobs.spec``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    :param machine_types: the ladder climbed after OUT_OF_MEMORY or OUT_OF_DISK. May or may not begin with
        the spec's own type.
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
    HOME = "HOME"
    """Stays in the task's own region; leaves a fallback region, whose quota may well be zero for ever."""
    MACHINE = "MACHINE"


CLIMBS: Mapping[FailureKind, Climb] = MappingProxyType(
    {
        FailureKind.STOCKOUT: Climb.REGION,
        FailureKind.QUOTA: Climb.HOME,
        FailureKind.OUT_OF_MEMORY: Climb.MACHINE,
        FailureKind.OUT_OF_DISK: Climb.MACHINE,
    }
)
"""Kinds that are not here stay where they are: data and quota are in the region the user chose."""


def first_placement(options: PlacementOptions) -> Placement:
    """Where the first job of an epoch goes: the task's own region, the spec's own machine types."""
    return Placement(region=options.regions[0], strategy=options.strategy)


def same_placement(ledger: Ledger, options: PlacementOptions) -> Placement:
    """Where the last job was, as far as the options still allow it; else the first placement."""
    last = ledger.last
    if last is None:
        return first_placement(options)
    region = last.record.region
    machine_type = last.record.machine_type
    return Placement(
        region=region if region in options.regions else options.regions[0],
        machine_type=machine_type if machine_type in options.machine_types else None,
        strategy=options.strategy,
    )


def next_placement(ledger: Ledger, outcome: Outcome, options: PlacementOptions) -> Placement | None:
    """
    Where the next job goes after this outcome.

    :param ledger: the epoch's jobs.
    :param outcome: of the ledger's last job, or of a submit refused after it (phase SUBMIT).
    :param options: what the user allows.
    :return: None when the kind must climb the ladder of machines and there is no higher rung.
    """
    here = same_placement(ledger, options)
    if outcome.phase is FailurePhase.SUBMIT:
        # What was refused is the job that the last one's end had asked for, machine and all.
        last = ledger.last
        if last is not None and last.outcome is not None:
            here = next_placement(ledger, last.outcome, options) or here
        if outcome.region in options.regions:
            here = replace(here, region=outcome.region)
    climb = Climb.STAY if outcome.kind is None else CLIMBS.get(outcome.kind, Climb.STAY)
    if climb is Climb.MACHINE:
        machine_type = _next_rung(ledger, options)
        return None if machine_type is None else replace(here, machine_type=machine_type)
    if climb is Climb.REGION or (climb is Climb.HOME and here.region != options.regions[0]):
        return replace(here, region=_region_after(here.region, options.regions))
    return here


def _next_rung(ledger: Ledger, options: PlacementOptions) -> str | None:
    ladder = options.machine_types
    last = ledger.last
    current = last.record.machine_type if last else None
    rung = ladder.index(current) + 1 if current in ladder else 0
    return ladder[rung] if rung < len(ladder) else None


def _region_after(region: str, regions: tuple[str, ...]) -> str:
    return regions[(regions.index(region) + 1) % len(regions)]
