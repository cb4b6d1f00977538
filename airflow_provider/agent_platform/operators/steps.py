"""What a task does next: three frozen records between the lifecycle, which decides, and the operator, which does it.

The deferrable and the plain mode differ only in how they carry out a step; the lifecycle does not know which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pendulum

from airflow_provider.agent_platform.policy.ledger import JobRecord, Ledger

CARRIED_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What the platform cannot tell the next step, because no job exists for it: creates that were refused for quota.

    Stored in Airflow's database with the deferral; losing it (a crash) only starts its clock again.

    :param refusals: creates refused for quota since the last job.
    :param waiting_since: time of the first of them, ISO 8601.
    :param region: where the last decision sends the next create.
    """

    refusals: int = 0
    waiting_since: str | None = None
    region: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with its version."""
        return {
            "version": CARRIED_VERSION,
            "refusals": self.refusals,
            "waiting_since": self.waiting_since,
            "region": self.region,
        }

    @classmethod
    def parse(cls, value: object) -> Carried:
        """Read the JSON form; anything that is not one (``dag.test()`` drops it) counts as nothing carried."""
        if not isinstance(value, Mapping) or value.get("version") != CARRIED_VERSION:
            return cls()
        refusals, since, region = (value.get(key) for key in ("refusals", "waiting_since", "region"))
        return cls(
            refusals=refusals if isinstance(refusals, int) else 0,
            waiting_since=since if isinstance(since, str) else None,
            region=region if isinstance(region, str) else None,
        )


@dataclass(frozen=True, kw_only=True)
class WaitForJob:
    """Wait until this job ends.

    :param record: the job, as it was read last.
    :param ledger: the jobs of the epoch, for people.
    :param queue_deadline: by when it must have started.
    :param stale: the job belongs to an earlier epoch and is being cancelled: only its end matters, no clock of ours.
    """

    record: JobRecord
    ledger: Ledger
    queue_deadline: pendulum.DateTime | None = None
    stale: bool = False


@dataclass(frozen=True, kw_only=True)
class WaitUntil:
    """Wait until this moment, with no job on the platform; then submit again.

    :param moment: when.
    :param carried: to be handed to the next step.
    """

    moment: pendulum.DateTime
    carried: Carried


@dataclass(frozen=True, kw_only=True)
class Done:
    """The task has succeeded.

    :param result: the XCom ``return_value``.
    """

    result: dict[str, Any]


Step = WaitForJob | WaitUntil | Done
