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

    def find(self, parent: Parent, predicate: Predicate, before: int | None) -> Iterator[Row]:
        """Matching rows, newest first.

        :param before: only rows whose sequence is below this one.
        """
        rows = self._rows.get(parent, {})
        candidates = self._candidates(parent, predicate)
        if candidates is not None and len(candidates) <= FEW:
            order: Iterator[int] = iter(sorted(candidates, reverse=True))
        else:
            order = reversed(self._sequences.get(parent, []))
        for sequence in order:
            if before is not None and sequence >= before:
                continue
            if (candidates is None or sequence in candidates) and predicate.matches(rows[sequence]):
                yield rows[sequence]

    def _candidates(self, parent: Parent, predicate: Predicate) -> set[int] | None:
        hints = predicate.hints
        sets = self._sets[parent]
        keys: list[tuple[str, ...]] = [("label", key, value) for key, value in hints.labels]
        keys += [("key", key) for key in hints.label_keys]
        if hints.display_name is not None:
            keys.append(("display_name", hints.display_name))
        found = [sets.get(key) for key in keys]
        if hints.states is not None:
            found.append(_union([sets.get(("state", str(state))) for state in hints.states]))
        return min(found, key=len) if found else None


def _union(sets: list[set[int]]) -> set[int]:
    filled = [members for members in sets if members]
    return filled[0] if len(filled) == 1 else set().union(*filled)


def _parent(row: Row) -> Parent:
    return (row.kind, row.project, row.region)


def _keys(row: Row) -> Iterator[tuple[str, ...]]:
    yield ("state", str(row.state))
    yield ("display_name", row.display_name)
    for key, value in row.labels.items():
        yield ("label", key, value)
        yield ("key", key)
