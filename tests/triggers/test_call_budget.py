"""The sliding window of calls."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.agent_platform.triggers.call_budget import (
    CALLS_PER_MINUTE,
    WINDOW_SECONDS,
    CallBudget,
    CallBudgets,
)


def test_a_quarter_of_the_documented_quota() -> None:
    assert CALLS_PER_MINUTE / WINDOW_SECONDS == 600 / 60 / 4


def test_all_budgets_together_leave_something_of_the_quota_to_people() -> None:
    budgets = CallBudgets()
    assert sum(one._calls for one in (budgets.polling, budgets.urgent, budgets.searching)) < 600
    assert len({id(budgets.polling), id(budgets.urgent), id(budgets.searching)}) == 3


def test_calls_within_the_budget_wait_for_nothing_and_the_next_one_for_the_oldest() -> None:
    budget = CallBudget(3, 60)
    assert [budget.take(now) for now in (0, 10, 20)] == [0, 0, 0]
    assert budget.take(21) == 39
    assert budget.take(21) == 49


def test_calls_that_belong_together_wait_for_the_last_of_their_slots() -> None:
    budget = CallBudget(3, 60)
    assert budget.take(0, 2) == 0
    assert budget.take(10, 2) == 50
    assert budget.take(10, 2) == 60


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0, 40), min_size=1, max_size=60), st.integers(1, 5))
def test_no_window_ever_holds_more_calls_than_the_budget(gaps: list[float], calls: int) -> None:
    budget = CallBudget(calls, 60)
    now, made = 0.0, []
    for gap in gaps:
        now += gap
        made.append(now + budget.take(now))
    for start in made:
        assert sum(1 for moment in made if start <= moment < start + 60 - 1e-6) <= calls
