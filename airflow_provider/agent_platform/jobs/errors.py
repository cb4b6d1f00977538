"""The errors a user's job description can raise, before anything is submitted.

In: the problems found, each with its field. Out: one exception that lists all of them. Failures of a job that
was submitted are not here: they are in ``exceptions``.
"""

from __future__ import annotations

from dataclasses import dataclass

_SHOWN = 80


@dataclass(frozen=True, kw_only=True)
class SpecProblem:
    """One thing that is wrong with a job description.

    :param path: where, in the names of the API: ``worker_pool_specs[0].machine_spec.machine_type``.
    :param message: what is wrong, what is allowed and what to do, as one sentence or two.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecError(ValueError):
    """A job description that the service would refuse, or that we would have to change to send it.

    Raised while the DAG is parsed where the values are known then, else when the task runs; in both cases
    nothing has been submitted.

    :param problems: all that was found, in the order of the fields.
    """

    def __init__(self, problems: tuple[SpecProblem, ...] | list[SpecProblem]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            text = str(self.problems[0])
        else:
            lines = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(self.problems, 1))
            text = f"{len(self.problems)} problems in the job description:{lines}"
        super().__init__(text)

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[SpecProblem, ...]]]:
        return (type(self), (self.problems,))


def problem(path: str, message: str) -> SpecError:
    """Return a :class:`SpecError` with a single problem.

    :param path: the field, in the names of the API.
    :param message: what is wrong, what is allowed and what to do.
    """
    return SpecError((SpecProblem(path=path, message=message),))


def shown(value: object) -> str:
    """Return a value as an error may show it: ``repr``, cut at 80 characters.

    :param value: anything. Never call it with the value of an environment variable: it may be a secret.
    """
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
