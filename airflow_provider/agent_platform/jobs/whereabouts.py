"""Where the jobs of a task may be, and by which connection they are reached: for those who look for them from outside.

In: what a try resolved when it started. Out: plain JSON, kept in an XCom (``triggers.ownership``), and back. No secret
is in it: a connection is named, not copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """Where to look.

    :param key: of the task instance, the value of the label ``airflow-ti``.
    :param job_type: ``custom_job`` or ``hyperparameter_tuning_job``.
    :param project_id: Google Cloud project.
    :param regions: all that the task may use.
    :param gcp_conn_id: Airflow connection.
    :param impersonation_chain: as the operator's argument.
    """

    key: str
    job_type: str
    project_id: str
    regions: tuple[str, ...]
    gcp_conn_id: str
    impersonation_chain: str | tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form. Renaming a field hides the jobs of tasks in flight."""
        chain = self.impersonation_chain
        return {
            "key": self.key,
            "job_type": self.job_type,
            "project_id": self.project_id,
            "regions": list(self.regions),
            "gcp_conn_id": self.gcp_conn_id,
            "impersonation_chain": list(chain) if isinstance(chain, tuple) else chain,
        }

    @classmethod
    def parse(cls, value: Any) -> Whereabouts | None:
        """Read the JSON form; None for anything else."""
        if not isinstance(value, Mapping):
            return None
        regions, chain = value.get("regions"), value.get("impersonation_chain")
        texts = [value.get(name) for name in ("key", "job_type", "project_id", "gcp_conn_id")]
        if not all(isinstance(text, str) and text for text in texts) or not _are_texts(regions):
            return None
        if not (chain is None or isinstance(chain, str) or _are_texts(chain)):
            return None
        return cls(
            key=value["key"],
            job_type=value["job_type"],
            project_id=value["project_id"],
            regions=tuple(value["regions"]),
            gcp_conn_id=value["gcp_conn_id"],
            impersonation_chain=tuple(chain) if isinstance(chain, list) else chain,
        )


def chain_of_argument(argument: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    """Return an ``impersonation_chain`` argument in a form that can be compared and stored."""
    return argument if argument is None or isinstance(argument, str) else tuple(argument)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
