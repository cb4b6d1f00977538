"""An emulator of Google's managed training service: the same API, the workers as processes on this machine.

.. code-block:: python

    from airflow_provider.agent_platform.emulator import Emulator

    with Emulator(speed=60) as emulator:
        print(emulator.grpc_target, emulator.rest_url)

It imports nothing of the rest of the package. Names are loaded when they are used: Google's client library
costs seconds.

Where things are: ``lifecycle`` (what follows from what), ``engine`` (makes it happen), ``service`` (the API's
methods), ``wire_grpc``, ``wire_rest``, ``control`` (what clients speak to), ``runners`` (workers), ``store``
(jobs), ``faults`` and ``armed``, ``config`` (flags and switches), ``server`` (puts it together), ``cli``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.emulator import Emulator

__all__ = ["Emulator"]


def __getattr__(name: str) -> Any:
    if name == "Emulator":
        from airflow_provider.agent_platform.emulator.emulator import Emulator

        return Emulator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
