"""The clock: order, speed, and that one bad callback stops nobody else."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from airflow_provider.agent_platform.emulator.clock import Clock, ManualClock


def test_a_manual_clock_calls_back_in_order_at_the_right_time() -> None:
    clock = ManualClock(start=100.0)
    seen: list[tuple[str, float]] = []
    clock.call_later(5, lambda: seen.append(("b", clock.wall())))
    clock.call_later(1, lambda: seen.append(("a", clock.wall())))
    clock.call_later(9, lambda: seen.append(("c", clock.wall())))
    clock.advance(6)
    assert seen == [("a", 101.0), ("b", 105.0)]
    assert clock.wall() == 106.0


def test_what_a_callback_adds_is_called_in_the_same_step() -> None:
    clock = ManualClock()
    seen: list[int] = []

    def again() -> None:
        clock.call_later(1, lambda: seen.append(1))

    clock.call_later(1, again)
    clock.advance(3)
    assert seen == [1]


def test_equal_times_keep_their_order() -> None:
    clock = ManualClock()
    seen: list[int] = []
    for number in range(5):
        clock.call_later(1, lambda number=number: seen.append(number))  # type: ignore[misc]  # mypy cannot infer defaults
    clock.advance(1)
    assert seen == [0, 1, 2, 3, 4]


def test_speed_divides_platform_seconds_and_not_real_ones() -> None:
    clock = ManualClock(speed=10)
    seen: list[str] = []
    clock.call_later(10, lambda: seen.append("platform"))
    clock.call_later_real(10, lambda: seen.append("real"))
    clock.advance(1)
    assert seen == ["platform"]
    clock.advance(9)
    assert seen == ["platform", "real"]


def test_a_cancelled_timer_is_not_called() -> None:
    clock = ManualClock()
    clock.call_later(1, lambda: pytest.fail("was cancelled")).cancel()
    clock.advance(2)


def test_cancelled_timers_do_not_pile_up() -> None:
    clock = ManualClock()
    kept = [clock.call_later(10**6, lambda: None) for _ in range(10)]
    for _ in range(5000):
        clock.call_later(10**6, lambda: None).cancel()
    assert len(clock._heap) < 1500
    assert {timer for _, _, timer in clock._heap if timer.callback} == set(kept)


@pytest.fixture
def clock() -> Clock:
    return Clock(speed=1000)


def test_a_real_clock_calls_an_earlier_timer_first(clock: Clock) -> None:
    seen: list[str] = []
    done = threading.Event()
    clock.start()
    clock.call_later(100, done.set)
    clock.call_later(1, lambda: seen.append("early"))
    assert done.wait(5)
    assert seen == ["early"]
    clock.stop()


def test_a_callback_that_raises_does_not_stop_the_others(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def trouble() -> None:
        raise ValueError("a callback's own")

    done = threading.Event()
    clock.start()
    clock.call_later(1, trouble)
    clock.call_later(2, done.set)
    with caplog.at_level(logging.ERROR):
        assert done.wait(5)
    clock.stop()
    assert "A timer of the emulator failed" in caplog.text


def test_a_stopped_clock_has_no_thread_and_calls_nobody(clock: Clock) -> None:
    # Another test of this process may have an emulator, and so a clock, of its own.
    others = set(threading.enumerate())
    clock.start()
    assert "emulator-clock" in {thread.name for thread in set(threading.enumerate()) - others}
    clock.call_later(1000, lambda: pytest.fail("was stopped"))
    clock.stop()
    assert "emulator-clock" not in {thread.name for thread in set(threading.enumerate()) - others}


def test_an_idle_clock_wakes_for_a_new_timer(clock: Clock) -> None:
    clock.start()
    time.sleep(0.05)
    done = threading.Event()
    clock.call_later(1, done.set)
    assert done.wait(5)
    clock.stop()
