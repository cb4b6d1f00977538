"""Quotas per region: who waits, in which order, and what a switch makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions

from airflow_provider.agent_platform.emulator.quota import QuotaBook, QuotaError, read_limits

Make = Callable[..., dict[str, Any]]
LONG = {"EMULATE_RUN_SECONDS": "1000"}
CPUS = "custom_model_training_cpus"


def limit(cloud: Any, amount: int, metric: str = CPUS) -> None:
    cloud.control.set_quotas({"us-central1": {metric: amount}})


def state(cloud: Any, name: str) -> str:
    return str(cloud.get(name).state.name).removeprefix("JOB_STATE_")


def test_over_quota_a_job_waits_in_queued_and_starts_when_another_ends(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    limit(still, 8)
    first = [still.create(make_job(make_pool(**LONG))) for _ in range(2)]
    third = still.create(make_job(make_pool(**LONG)))
    still.advance(500)
    assert [state(still, name) for name in first] == ["RUNNING", "RUNNING"]
    assert state(still, third) == "QUEUED"
    still.advance(510)
    assert state(still, third) == "RUNNING"
    assert still.states(third) == ["QUEUED", "PENDING", "RUNNING"]


def test_jobs_that_wait_start_in_the_order_they_came(still: Any, make_job: Make, make_pool: Make) -> None:
    limit(still, 4)
    names = [still.create(make_job(make_pool(EMULATE_RUN_SECONDS="10"))) for _ in range(4)]
    still.advance(1000)
    starts = [still.get(name).start_time for name in names]
    assert starts == sorted(starts)
    assert len(set(starts)) == 4


def test_a_small_job_does_not_overtake_a_large_one(still: Any, make_job: Make, make_pool: Make) -> None:
    limit(still, 8)
    running = still.create(make_job(make_pool(**LONG)))
    large = still.create(make_job(make_pool(machine="n1-standard-8", **LONG)))
    small = still.create(make_job(make_pool(**LONG)))
    still.advance(10)
    assert [state(still, name) for name in (running, large, small)] == ["RUNNING", "QUEUED", "QUEUED"]


def test_a_job_larger_than_the_limit_waits_until_the_limit_is_raised(
    still: Any, make_job: Make, make_pool: Make
) -> None:
    limit(still, 4)
    name = still.create(make_job(make_pool(replicas=1, **LONG), make_pool(replicas=3, **LONG)))
    still.advance(10_000)
    assert state(still, name) == "QUEUED"
    limit(still, 16)
    still.advance(5)
    assert state(still, name) == "RUNNING"


def test_a_cancel_in_the_queue_lets_the_next_one_pass(still: Any, make_job: Make, make_pool: Make) -> None:
    limit(still, 4)
    blocked = still.create(make_job(make_pool(machine="n1-standard-8")))
    behind = still.create(make_job(make_pool(**LONG)))
    still.client.cancel_custom_job(name=blocked)
    still.advance(5)
    assert (state(still, blocked), state(still, behind)) == ("CANCELLED", "RUNNING")


def test_other_metrics_and_other_regions_do_not_wait(
    still: Any, make_job: Make, make_pool: Make, parent: str
) -> None:
    limit(still, 0)
    waiting = still.create(make_job(make_pool(**LONG)))
    spot = still.create(make_job(make_pool(**LONG), scheduling={"strategy": "SPOT"}))
    elsewhere = still.create(make_job(make_pool(**LONG)), parent.replace("us-central1", "europe-west4"))
    still.advance(5)
    assert [state(still, name) for name in (waiting, spot, elsewhere)] == ["QUEUED", "RUNNING", "RUNNING"]


def test_spot_counts_against_the_preemptible_quota(still: Any, make_job: Make, make_pool: Make) -> None:
    limit(still, 0, "custom_model_training_preemptible_cpus")
    name = still.create(make_job(make_pool(**LONG), scheduling={"strategy": "SPOT"}))
    still.advance(5)
    assert state(still, name) == "QUEUED"


def test_refuse_answers_429_with_the_services_text(
    still_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = still_cloud(switches={"over_quota": "refuse"})
    limit(cloud, 2)
    with pytest.raises(exceptions.ResourceExhausted) as refused:
        cloud.create(make_job(make_pool()))
    expected = f"The following quota metrics exceed quota limits: aiplatform.googleapis.com/{CPUS}"
    assert refused.value.message == expected
    assert list(cloud.client.list_custom_jobs(parent="projects/test-project/locations/us-central1")) == []


def test_fail_later_stores_the_job_and_ends_it_with_code_8(
    still_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = still_cloud(switches={"over_quota": "fail_later"})
    limit(cloud, 2)
    found = cloud.run(make_job(make_pool()))
    assert cloud.states(found.name) == ["QUEUED", "PENDING", "FAILED"]
    assert found.error.code == 8
    assert found.error.message.startswith("The following quota metrics exceed quota limits: ")


def test_the_book_gives_back_what_was_held() -> None:
    book = QuotaBook()
    book.limits = {"r": {"m": 1}}
    for job in "abc":
        book.ask(job, "r", {"m": 1})
    assert book.admit() == ["a"]
    assert book.admit() == []
    book.give_back("b")
    book.give_back("a")
    assert book.admit() == ["c"]


def test_without_limits_everything_begins_at_once() -> None:
    book = QuotaBook()
    for job in "abc":
        book.ask(job, "r", {"m": 1000})
    assert book.admit() == ["a", "b", "c"]
    assert book.missing("r", {"m": 5}) == []


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ([], "object"),
        ({"us-central1": 8}, "us-central1"),
        ({"us-central1": {"cpus": "8"}}, "us-central1.cpus"),
        ({"us-central1": {"cpus": -1}}, "-1"),
        ({"us-central1": {"cpus": True}}, "True"),
    ],
)
def test_limits_that_cannot_be_understood_are_refused_by_name(body: Any, named: str) -> None:
    with pytest.raises(QuotaError, match=named.replace(".", r"\.")):
        read_limits(body)


def test_limits_may_name_the_service() -> None:
    metric = "custom_model_training_cpus"
    limits = read_limits({"us-east1": {f"aiplatform.googleapis.com/{metric}": 3}})
    assert limits == {"us-east1": {metric: 3}}
