"""Where the next job goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.agent_platform.policy.failures import FailureKind
from airflow_provider.agent_platform.policy.placement import (
    Placement,
    PlacementOptions,
    first_placement,
    next_placement,
    same_placement,
)
from tests.policy.builders import LOW_ON_MEMORY, QUOTA, STOCKOUT, a_job_of, a_ledger, a_refusal, an_outcome

K = FailureKind
REGIONS = ("us-central1", "us-west1", "europe-west4")
LADDER = ("n1-highmem-8", "n1-highmem-16")
OPTIONS = PlacementOptions(regions=REGIONS, machine_types=LADDER, strategy="SPOT")


def after(kind: FailureKind, options: PlacementOptions = OPTIONS, **job: Any) -> Placement | None:
    ledger = a_ledger(a_job_of(kind, **job))
    assert ledger.last is not None
    assert ledger.last.outcome is not None
    return next_placement(ledger, ledger.last.outcome, options)


def test_the_first_job_goes_where_the_user_said() -> None:
    assert first_placement(OPTIONS) == Placement(region="us-central1", machine_type=None, strategy="SPOT")
    assert same_placement(a_ledger(), OPTIONS) == first_placement(OPTIONS)


def test_a_task_has_at_least_one_region() -> None:
    with pytest.raises(
        ValueError, match=r"^PlacementOptions.regions is empty; give at least the task's region$"
    ):
        PlacementOptions(regions=())


def test_a_region_named_twice_is_tried_once() -> None:
    assert PlacementOptions(regions=("a", "b", "a")).regions == ("a", "b")


@pytest.mark.parametrize(
    ("here", "there"),
    [("us-central1", "us-west1"), ("us-west1", "europe-west4"), ("europe-west4", "us-central1")],
)
def test_a_stockout_goes_to_the_next_region(here: str, there: str) -> None:
    assert after(K.STOCKOUT, region=here) == Placement(region=there, strategy="SPOT")


def test_with_one_region_a_stockout_stays() -> None:
    assert after(K.STOCKOUT, replace(OPTIONS, regions=("us-central1",))) == Placement(
        region="us-central1", strategy="SPOT"
    )


def test_a_region_that_the_user_has_taken_away_is_left() -> None:
    assert after(K.INTERNAL, region="asia-east1") == Placement(region="us-central1", strategy="SPOT")
    assert after(K.STOCKOUT, region="asia-east1") == Placement(region="us-west1", strategy="SPOT")


@pytest.mark.parametrize(
    "kind", [K.PREEMPTED, K.INTERNAL, K.CRASH, K.UNKNOWN, K.LOST, K.CANCELLED, K.USER_CODE]
)
def test_other_kinds_stay_where_they_are(kind: FailureKind) -> None:
    assert after(kind, region="us-west1", machine_type="n1-highmem-8") == Placement(
        region="us-west1", machine_type="n1-highmem-8", strategy="SPOT"
    )


def test_quota_stays_at_home_and_leaves_a_fallback_region() -> None:
    assert after(K.QUOTA, region="us-central1") == Placement(region="us-central1", strategy="SPOT")
    assert after(K.QUOTA, region="us-west1") == Placement(region="europe-west4", strategy="SPOT")


@pytest.mark.parametrize("kind", [K.OUT_OF_MEMORY, K.OUT_OF_DISK])
@pytest.mark.parametrize(
    ("here", "there"),
    [("n1-standard-4", "n1-highmem-8"), (None, "n1-highmem-8"), ("n1-highmem-8", "n1-highmem-16")],
)
def test_a_job_that_was_too_large_climbs_the_ladder(kind: FailureKind, here: str | None, there: str) -> None:
    assert after(kind, machine_type=here, region="us-west1") == Placement(
        region="us-west1", machine_type=there, strategy="SPOT"
    )


def test_without_any_job_the_ladder_begins_at_its_first_rung() -> None:
    placement = next_placement(a_ledger(), an_outcome(LOW_ON_MEMORY), OPTIONS)

    assert placement is not None
    assert placement.machine_type == "n1-highmem-8"


def test_above_the_highest_rung_there_is_nothing() -> None:
    assert after(K.OUT_OF_MEMORY, machine_type="n1-highmem-16") is None
    assert after(K.OUT_OF_MEMORY, replace(OPTIONS, machine_types=())) is None


def test_a_ladder_may_begin_with_the_specs_own_machine() -> None:
    ladder = replace(OPTIONS, machine_types=("n1-standard-4", "n1-standard-8"))

    placement = after(K.OUT_OF_MEMORY, ladder, machine_type="n1-standard-4")
    assert placement is not None
    assert placement.machine_type == "n1-standard-8"


def test_a_machine_of_the_spec_is_no_rung() -> None:
    placement = after(K.INTERNAL, machine_type="n1-standard-4")
    assert placement is not None
    assert placement.machine_type is None


def test_a_refused_submit_keeps_the_rung_it_was_going_to() -> None:
    ledger = a_ledger(a_job_of(K.OUT_OF_MEMORY, machine_type="n1-highmem-8"))

    refused = a_refusal(QUOTA, 8, region="us-central1")

    assert next_placement(ledger, refused, OPTIONS) == Placement(
        region="us-central1", machine_type="n1-highmem-16", strategy="SPOT"
    )


def test_a_submit_refused_in_another_region_goes_on_from_there() -> None:
    ledger = a_ledger(a_job_of(K.STOCKOUT))

    assert next_placement(ledger, a_refusal(STOCKOUT, 8, region="us-west1"), OPTIONS) == Placement(
        region="europe-west4", strategy="SPOT"
    )
    assert next_placement(ledger, a_refusal(QUOTA, 8, region="us-west1"), OPTIONS) == Placement(
        region="europe-west4", strategy="SPOT"
    )
    assert next_placement(ledger, a_refusal("?", 14, region="us-west1"), OPTIONS) == Placement(
        region="us-west1", strategy="SPOT"
    )


def test_the_region_of_the_refusal_counts_not_that_of_the_last_job() -> None:
    ledger = a_ledger(a_job_of(K.STOCKOUT))

    assert next_placement(ledger, a_refusal(STOCKOUT, 8, region="europe-west4"), OPTIONS) == Placement(
        region="us-central1", strategy="SPOT"
    )


def test_lists_will_do_as_options() -> None:
    options = PlacementOptions(regions=["a"], machine_types=["m"])  # type: ignore[arg-type]

    assert options == PlacementOptions(regions=("a",), machine_types=("m",))


def test_a_refusal_in_a_region_that_is_not_allowed_starts_from_the_last_job() -> None:
    ledger = a_ledger(a_job_of(K.STOCKOUT))

    assert next_placement(ledger, a_refusal("?", 14, region="mars"), OPTIONS) == Placement(
        region="us-west1", strategy="SPOT"
    )


def test_the_first_submit_refused_starts_from_the_first_placement() -> None:
    assert next_placement(a_ledger(), a_refusal("?", 14), OPTIONS) == first_placement(OPTIONS)


def test_a_refusal_after_the_last_rung_stays_on_it() -> None:
    ledger = a_ledger(a_job_of(K.OUT_OF_MEMORY, machine_type="n1-highmem-16"))

    placement = next_placement(ledger, a_refusal(QUOTA, 8, region="us-central1"), OPTIONS)
    assert placement == Placement(region="us-central1", machine_type="n1-highmem-16", strategy="SPOT")


def test_a_success_moves_nothing() -> None:
    from tests.policy.builders import a_success

    ledger = a_ledger(a_success(region="us-west1"))
    assert ledger.last is not None
    assert ledger.last.outcome is not None

    assert next_placement(ledger, ledger.last.outcome, OPTIONS) == Placement(
        region="us-west1", strategy="SPOT"
    )
