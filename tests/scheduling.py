"""How the tests are shared out among test processes: a set-up that is booted once stays in one process.

In: the id of a test. Out: the name of its group. xdist's own ``loadgroup`` does the same with marks, but
rewrites a test's id in a way that pytest no longer has.
"""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

# The tests on a running Airflow: with two processes, SQLite and PostgreSQL run side by side. They wait more
# than they compute.
_ON_A_LAPTOP = re.compile(r"tests/system/[^:]+::[^\[]+\[(sqlite|postgres)\b")


def group_of(test_id: str) -> str:
    """Return the set-up that a test runs on; the file, for every other test."""
    on_a_laptop = _ON_A_LAPTOP.match(test_id)
    return f"laptop on {on_a_laptop.group(1)}" if on_a_laptop else test_id.partition("::")[0]


class BySetUp(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Hands out whole groups, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
