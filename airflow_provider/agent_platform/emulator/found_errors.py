"""Collects what is wrong with a request and says it as the service does.

In: field paths and messages. Out: one INVALID_ARGUMENT whose text is a numbered, tab separated list.
"""

from __future__ import annotations

from airflow_provider.agent_platform.emulator.errors import ApiError, invalid_argument

MOST = 50
"""Errors listed at most: a request of 10,000 wrong entries does not deserve an answer of a megabyte."""


class FoundErrors:
    """A growing list of errors, in the order in which they were found."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []
        self._count = 0

    def add(self, field: str, message: str) -> None:
        """Note an error.

        :param field: the path from the resource, e.g. ``job_spec.worker_pool_specs[0].machine_spec``.
        :param message: a sentence that names the value and what is allowed.
        """
        self._count += 1
        if self._count <= MOST:
            self._found.append((field, message))

    def __len__(self) -> int:
        return self._count

    def error(self) -> ApiError:
        """The errors found so far as one."""
        text = "List of found errors:" + "".join(
            f"\t{number}.Field: {field}; Message: {message}"
            for number, (field, message) in enumerate(self._found, 1)
        )
        if self._count > MOST:
            text += f"\t(and {self._count - MOST} more)"
        return invalid_argument(text + "\t")

    def raise_if_any(self) -> None:
        """Raise what was found.

        :raises ApiError: INVALID_ARGUMENT, if anything was.
        """
        if self._found:
            raise self.error()
