"""What is wrong with the set-up: connection, project, region, emulator, bucket.

In: nothing. Out: exceptions raised before anything is submitted. Failures of jobs are in ``exceptions``.
"""

from __future__ import annotations


class ConfigurationError(ValueError):
    """Something that a person has to set up, said as an instruction. Nothing was submitted."""


class EmulatorUnreachableError(ConfigurationError):
    """The emulator that the environment or the connection names does not answer."""


class BucketError(ConfigurationError):
    """A ``gs://`` URI whose bucket does not exist or cannot be read with these credentials."""


class TooManyJobsError(ConfigurationError):
    """A list of jobs is longer than its bound; a shortened one would be a wrong answer."""
