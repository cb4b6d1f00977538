"""A task whose process is killed between any two steps of the lifecycle still runs one job, and loses none.

Every point by itself, then random combinations of up to three kills, from a fixed seed. The jobs are simulated, the
processes that are killed are real.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider.agent_platform.emulator import Emulator
from airflow_provider.agent_platform.operators import points
from tests.chaos.world import Crash, World

COMBINATIONS = 24
SEED = 20260301


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(speed=60, runner="simulated") as running:
        yield running


def world(
    emulator: Emulator, run_id: str, crashes: list[Crash], *, seconds: int = 30, **arguments: Any
) -> World:
    pools = [
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "container_spec": {
                "image_uri": "image",
                "env": [
                    {"name": "EMULATE_RUN_SECONDS", "value": str(seconds)},
                    {"name": "CHAOS_RUN", "value": run_id},
                ],
            },
        }
    ]
    return World(
        grpc_target=emulator.grpc_target,
        rest_url=emulator.rest_url,
        run_id=run_id,
        crashes=crashes,
        arguments={"worker_pool_specs": pools, "display_name": run_id, **arguments},
    )


def assert_one_success(world: World, *, jobs: int) -> None:
    answer = world.run()
    assert answer["how"] == "success", (answer, world.story)
    found = world.settle()
    assert [job["state"] for job in found].count(4) == 1, world.story
    assert not [job for job in found if job["state"] in (1, 2, 3)], world.story
    assert len(found) <= jobs, world.story


PLAIN = (
    points.LEDGER_READ,
    points.CREATE_SENT,
    points.CREATE_ANSWERED,
    points.LEDGER_READ_AGAIN,
    points.BEFORE_DEFER,
    points.RESUMED,
)


@pytest.mark.parametrize("point", PLAIN)
def test_a_kill_at_any_point_leaves_one_job(emulator: Emulator, point: str) -> None:
    place = world(emulator, f"plain-{point}", [Crash(point=point)])
    assert_one_success(place, jobs=1)
    assert place.crashes == [], f"{point} was never passed"


@pytest.mark.parametrize("point", [points.DECIDED, points.REQUEUE_WAIT_ENDED, points.CREATE_SENT])
def test_a_kill_while_it_moves_to_another_region_leaves_one_success(emulator: Emulator, point: str) -> None:
    run_id = f"stockout-{point}"
    # Four attempts are what the service makes before it gives up.
    emulator.control.add_fault("stockout", match={"display_name": run_id, "region": "us-central1"}, times=4)
    nth = 2 if point == points.CREATE_SENT else 1
    place = world(emulator, run_id, [Crash(point=point, nth=nth)], fallback_regions=["europe-west4"])
    assert_one_success(place, jobs=2)
    assert place.story[-1].endswith("success")


@pytest.mark.parametrize("point", PLAIN)
def test_a_kill_around_a_create_whose_reply_is_lost_leaves_one_job(emulator: Emulator, point: str) -> None:
    run_id = f"lost-{point}"
    emulator.control.add_fault(
        "rpc_error",
        match={"display_name": run_id},
        method="CreateCustomJob",
        code="UNAVAILABLE",
        message="The service is currently unavailable.",
        after_effect=True,
        times=1,
    )
    assert_one_success(world(emulator, run_id, [Crash(point=point)]), jobs=1)


def test_kills_after_a_clear_leave_one_job_of_the_new_run(emulator: Emulator) -> None:
    # Long enough to be running still when the clear comes: ten seconds of this machine's time.
    place = world(emulator, "cleared", [], seconds=600)
    first = place._process({"method": "execute"})
    assert first["how"] == "deferred"
    place.max_tries = place.try_number + place.retries
    place.try_number += 1
    place.crashes = [Crash(point=points.STALE_CANCELLED), Crash(point=points.CREATE_ANSWERED)]
    assert_one_success(place, jobs=2)
    states = [job["state"] for job in place.settle()]
    assert states == [7, 4], place.story


@pytest.mark.parametrize("number", range(COMBINATIONS))
def test_random_combinations_of_kills_leave_one_success(emulator: Emulator, number: int) -> None:
    chance = random.Random(SEED + number)
    run_id = f"random-{number}"
    crashes = [
        Crash(point=chance.choice(points.POINTS), nth=chance.choice([1, 1, 1, 2]))
        for _ in range(chance.randint(1, 3))
    ]
    jobs = 1
    if chance.random() < 0.5:
        emulator.control.add_fault(
            "stockout", match={"display_name": run_id, "region": "us-central1"}, times=4
        )
        jobs += 1
    if chance.random() < 0.3:
        emulator.control.add_fault(
            "rpc_error",
            match={"display_name": run_id},
            method="CreateCustomJob",
            code="UNAVAILABLE",
            message="The service is currently unavailable.",
            after_effect=chance.random() < 0.7,
            times=1,
        )
    assert_one_success(world(emulator, run_id, crashes, fallback_regions=["europe-west4"]), jobs=jobs)
