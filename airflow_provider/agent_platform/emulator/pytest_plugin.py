"""A pytest fixture: one emulator for a test.

``agent_platform_emulator`` yields a running :class:`Emulator`; a test sets its settings with
``@pytest.mark.agent_platform_emulator(speed=600, runner="simulated")``.

pytest imports this module in every run where the package is installed, so that it imports next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider.agent_platform.emulator.emulator import Emulator

MARKER = "agent_platform_emulator"
SPEED = 60.0


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", f"{MARKER}(**settings): settings of the emulator in the fixture of this name"
    )


@pytest.fixture
def agent_platform_emulator(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Emulator]:
    """A running emulator, 60 times as fast; ``AGENT_PLATFORM_EMULATOR_HOST`` names it."""
    from airflow_provider.agent_platform.emulator.emulator import Emulator

    marker = request.node.get_closest_marker(MARKER)
    settings = {"speed": SPEED, **(marker.kwargs if marker else {})}
    with Emulator(**settings) as emulator:
        monkeypatch.setenv("AGENT_PLATFORM_EMULATOR_HOST", emulator.grpc_target)
        yield emulator
