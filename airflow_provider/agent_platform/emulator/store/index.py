"""Finds a page of jobs among very many without looking at all of them.

In: rows as they are stored, changed and forgotten. Out: the newest rows of one parent that pass a filter. A
filter's hints (what every match has for certain) choose the smallest set to look at.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider.agent_platform.emulator.store.row import Row

if TYPE_CHECKING:
    from airflow_provider.agent_platform.emulator.filters import Predicate

Parent = tuple[str, str, str]
FEW = 2000
"""Below so many candidates it is cheaper to sort them than to walk the whole parent newest first."""
MANY = 64
"""Rows that are looked at between two words to the caller."""


class Members:
    """Sets of sequences by key. A set of one is kept as the number alone: most labels are of one job."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, ...], int | set[int]] = {}

    def get(self, key: tuple[str, ...]) -> set[int]:
        """The members; empty for a key that nobody has."""
        found = self._sets.get(key, _NOBODY)
        return {found} if isinstance(found, int) else found

    def add(self, key: tuple[str, ...], sequence: int) -> None:
        """Take one in."""
        found = self._sets.setdefault(key, sequence)
        if isinstance(found, int):
            if found != sequence:
                self._sets[key] = {found, sequence}
        else:
            found.add(sequence)

    def drop(self, key: tuple[str, ...], sequence: int) -> None:
        """Let one go."""
        found = self._sets.get(key)
        if found == sequence:
            del self._sets[key]
        elif isinstance(found, set):
            found.discard(sequence)
            if not found:
                del self._sets[key]


_NOBODY: set[int] = set()


class Index:
    """Rows of one store by parent, state and label."""

    def __init__(self) -> None:
        self._rows: dict[Parent, dict[int, Row]] = defaultdict(dict)
        self._sequences: dict[Parent, list[int]] = defaultdict(list)
        self._sets: dict[Parent, Members] = defaultdict(Members)
        self.looked_at: int | None = None
        """Sequence of the last row that a :meth:`find` has looked at."""

    def add(self, row: Row) -> None:
        """Take in a row that is not known yet."""
        parent = _parent(row)
        self._rows[parent][row.sequence] = row
        bisect.insort(self._sequences[parent], row.sequence)
        for key in _keys(row):
            self._sets[parent].add(key, row.sequence)

    def remove(self, row: Row) -> None:
        """Forget a row."""
        parent = _parent(row)
        del self._rows[parent][row.sequence]
        sequences = self._sequences[parent]
        del sequences[bisect.bisect_left(sequences, row.sequence)]
        for key in _keys(row):
            self._sets[parent].drop(key, row.sequence)

    def move(self, row: Row, old_state: int) -> None:
        """A row's state has changed."""
        parent = _parent(row)
        self._sets[parent].drop(("state", str(old_state)), row.sequence)
        self._sets[parent].add(("state", str(row.state)), row.sequence)

    def find(self, parent: Parent, predicate: Predicate, before: int | None) -> Iterator[Row | None]:
        """Matching rows, newest first; None now and then, for the caller to see how long it takes already.

        The rows must not change meanwhile. Whoever lets them goes on with another call, from the last sequence that
        was looked at (:attr:`looked_at`).

        :param before: only rows whose sequence is below this one.
        """
        rows, matches = self._rows.get(parent, {}), predicate.matches
        for number, sequence in enumerate(self._order(parent, predicate, before), 1):
            self.looked_at = sequence
            if matches(rows[sequence]):
                yield rows[sequence]
            if number % MANY == 0:
                yield None

    def _order(self, parent: Parent, predicate: Predicate, before: int | None) -> Iterator[int]:
        """Sequences of what may match, newest first."""
        known = self._sequences.get(parent, [])
        end = len(known) if before is None else bisect.bisect_left(known, before)
        candidates = self._candidates(parent, predicate)
        if candidates is None:
            return (known[position] for position in range(end - 1, -1, -1))
        if sum(map(len, candidates)) <= FEW:
            few = (one for members in candidates for one in members if before is None or one < before)
            return iter(sorted(few, reverse=True))
        walk = (known[position] for position in range(end - 1, -1, -1))
        if len(candidates) == 1:
            return filter(candidates[0].__contains__, walk)
        return (one for one in walk if any(one in members for members in candidates))

    def _candidates(self, parent: Parent, predicate: Predicate) -> list[set[int]] | None:
        """Disjoint sets that hold every match; None when nothing is known for certain."""
        hints = predicate.hints
        sets = self._sets.get(parent)
        if sets is None:
            return []
        keys: list[tuple[str, ...]] = [("label", key, value) for key, value in hints.labels]
        keys += [("key", key) for key in hints.label_keys]
        if hints.display_name is not None:
            keys.append(("display_name", hints.display_name))
        found = [[sets.get(key)] for key in keys]
        if hints.states is not None:
            of_states = [sets.get(("state", str(state))) for state in hints.states]
            found.append([members for members in of_states if members])
        return min(found, key=lambda sets: sum(map(len, sets))) if found else None


def _parent(row: Row) -> Parent:
    return (row.kind, row.project, row.region)


def _keys(row: Row) -> Iterator[tuple[str, ...]]:
    yield ("state", str(row.state))
    yield ("display_name", row.display_name)
    for key, value in row.labels.items():
        yield ("label", key, value)
        yield ("key", key)
