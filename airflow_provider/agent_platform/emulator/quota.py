"""Quotas per region: who holds what, and who waits in which order.

In: limits (``PUT /emulator/v1/quotas``) and what each job needs. Out: the jobs that may now begin. First in,
first out among the jobs of a region that want the same metric: a job never overtakes one that waits for
something it needs itself, not even one that is larger than the limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.agent_platform.emulator import catalog

Use = Mapping[str, int]
Limits = Mapping[str, Mapping[str, int]]


class QuotaError(ValueError):
    """Limits that cannot be understood; the text names the place and what is allowed."""


def read_limits(body: object) -> dict[str, dict[str, int]]:
    """``{"us-central1": {"custom_model_training_cpus": 8}}``, checked.

    :raises QuotaError: naming the field.
    """
    if not isinstance(body, Mapping):
        raise QuotaError('Quotas are an object: {"us-central1": {"custom_model_training_cpus": 8}}.')
    limits: dict[str, dict[str, int]] = {}
    for region, metrics in body.items():
        if region not in catalog.REGIONS:
            raise QuotaError(
                f"Field: {region}; Message: no region; select from {', '.join(sorted(catalog.REGIONS))}."
            )
        if not isinstance(metrics, Mapping):
            raise QuotaError(f"Field: {region}; Message: expected an object of metrics and limits.")
        for metric, limit in metrics.items():
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
                raise QuotaError(
                    f"Field: {region}.{metric}; Message: {limit!r} is not allowed; expected a whole number, 0 or more."
                )
            if _bare(metric) not in catalog.quota_metrics():
                raise QuotaError(
                    f"Field: {region}.{metric}; Message: no job uses this metric; select from "
                    f"{', '.join(sorted(catalog.quota_metrics() - catalog.quota_metrics('preemptible_')))}, "
                    f"or the same with {catalog.QUOTA_PREFIX}preemptible_."
                )
        limits[str(region)] = {_bare(metric): limit for metric, limit in metrics.items()}
    return limits


def _bare(metric: object) -> str:
    """A metric without its service, which clients may write before it."""
    return str(metric).rpartition("/")[2]


class QuotaBook:
    """Limits, holders and waiting jobs. Guarded by the engine's lock."""

    def __init__(self) -> None:
        self.limits: dict[str, dict[str, int]] = {}
        self._held: dict[str, tuple[str, Use]] = {}
        self._waiting: dict[str, tuple[str, Use]] = {}

    def missing(self, region: str, use: Use) -> list[str]:
        """Metrics that a job over quota would exceed, whoever waits before it."""
        limits, held = self.limits.get(region, {}), self._total(region)
        return [
            metric
            for metric, amount in use.items()
            if held.get(metric, 0) + amount > limits.get(metric, amount + held.get(metric, 0))
        ]

    def ask(self, job_id: str, region: str, use: Use) -> None:
        """Stand in line; :meth:`admit` answers."""
        self._waiting[job_id] = (region, use)

    def hold(self, job_id: str, region: str, use: Use) -> None:
        """Hold without standing in line: a job found running after a restart of the emulator."""
        self._held[job_id] = (region, use)

    def give_back(self, job_id: str) -> None:
        """The job has ended, or waits no longer."""
        self._held.pop(job_id, None)
        self._waiting.pop(job_id, None)

    def admit(self) -> list[str]:
        """Jobs that may begin now, in the order they came; they hold their quota from here on."""
        admitted: list[str] = []
        wanted: dict[str, set[str]] = {}
        totals = {region: self._total(region) for region in {region for region, _ in self._waiting.values()}}
        for job_id, (region, use) in self._waiting.items():
            limits, held = self.limits.get(region, {}), totals[region]
            limited = {metric for metric in use if metric in limits}
            ahead = wanted.setdefault(region, set())
            if limited & ahead or any(
                held.get(metric, 0) + use[metric] > limits[metric] for metric in limited
            ):
                ahead |= limited
                continue
            admitted.append(job_id)
            for metric, amount in use.items():
                held[metric] = held.get(metric, 0) + amount
        for job_id in admitted:
            self._held[job_id] = self._waiting.pop(job_id)
        return admitted

    def _total(self, region: str) -> dict[str, int]:
        if region not in self.limits:
            return {}
        total: dict[str, int] = {}
        for where, use in self._held.values():
            if where == region:
                for metric, amount in use.items():
                    total[metric] = total.get(metric, 0) + amount
        return total

    def clear(self) -> None:
        """Forget limits, holders and waiting jobs."""
        QuotaBook.__init__(self)
