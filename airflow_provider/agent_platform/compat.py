"""What differs between Airflow versions, and the few types we need that Airflow does not export.

Built for Airflow 3.3. Nothing else in the package asks for a version.
"""

from __future__ import annotations

from typing import Any, Protocol


class TaskLogger(Protocol):
    """What our code calls on a log: the standard library's loggers and Airflow's task log both have it."""

    def debug(self, msg: Any, /, *args: Any) -> Any:
        """Log for those who look for a fault in this package."""

    def info(self, msg: Any, /, *args: Any) -> Any:
        """Log what happened."""

    def warning(self, msg: Any, /, *args: Any) -> Any:
        """Log what a person should know."""

    def error(self, msg: Any, /, *args: Any) -> Any:
        """Log what went wrong."""

    def exception(self, msg: Any, /, *args: Any) -> Any:
        """Log what went wrong, with the traceback of the exception at hand."""

    def log(self, level: int, msg: Any, /, *args: Any) -> Any:
        """Log at a level that is computed."""
