"""Named points between every two steps of the lifecycle, for tests that crash a process exactly there.

In: nothing. Out: nothing, unless a test has put an observer in. A point costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LEDGER_READ: Final = "ledger_read"
CREATE_SENT: Final = "create_sent"
CREATE_ANSWERED: Final = "create_answered"
LEDGER_READ_AGAIN: Final = "ledger_read_again"
DUPLICATE_CANCELLED: Final = "duplicate_cancelled"
BEFORE_DEFER: Final = "before_defer"
RESUMED: Final = "resumed"
DECIDED: Final = "decided"
STALE_CANCELLED: Final = "stale_cancelled"
REQUEUE_WAIT_ENDED: Final = "requeue_wait_ended"

POINTS: Final = (
    LEDGER_READ,
    CREATE_SENT,
    CREATE_ANSWERED,
    LEDGER_READ_AGAIN,
    DUPLICATE_CANCELLED,
    BEFORE_DEFER,
    RESUMED,
    DECIDED,
    STALE_CANCELLED,
    REQUEUE_WAIT_ENDED,
)

observer: Callable[[str], None] | None = None
"""Called with the name of each point that is passed; set by tests only."""


def passed(point: str) -> None:
    """Tell the observer, if there is one, that this point is behind us."""
    if observer is not None:
        observer(point)
