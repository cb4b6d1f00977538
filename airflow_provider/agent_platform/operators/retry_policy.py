"""
The operators' default ``retry_policy``: Airflow's RETRY or FAIL by the decision that the exception carries.

Enters: the exception of a failed try. Leaves: Airflow's own decision. Not here: any judgement of ours. That
is in ``policy.decide``: a try that starts after a killed worker, when no policy is asked, must come to the
same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy

from airflow_provider.agent_platform.exceptions import TrainingJobError
from airflow_provider.agent_platform.policy.actions import Action

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

REASON_LENGTH = 500
"""Characters of Airflow's column ``task_instance.retry_reason``; a longer one would fail the state change."""


class TrainingRetryPolicy(RetryPolicy):
    """
    Follow ``TrainingJobError.decision``; leave every other exception to Airflow.

    A task's own ``retry_policy`` replaces it. Stateless: two instances are equal.
    """

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,
        max_tries: int,
        context: Context | None = None,
    ) -> RetryDecision:
        """
        Turn our decision into Airflow's.

        :param exception: what the try raised.
        :param try_number: not read: the ledger has been counted already.
        :param max_tries: not read; Airflow itself never retries past it.
        :param context: not read.
        """
        if not isinstance(exception, TrainingJobError) or exception.decision is None:
            return RetryDecision.default()
        decision = exception.decision
        reason = decision.reason[:REASON_LENGTH]
        if decision.action is Action.FAIL:
            return RetryDecision.fail(reason=reason)
        if decision.action is Action.RETRY:
            return RetryDecision.retry(delay=decision.delay, reason=reason)
        # SUCCEED and REQUEUE are never raised; should one be, Airflow's own counting is the safe answer.
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Nothing to store: the policy has no settings."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> TrainingRetryPolicy:
        """The policy again."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))
