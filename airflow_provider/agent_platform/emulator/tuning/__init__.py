"""Hyperparameter tuning: trials as child custom jobs, suggested, measured, stopped early, counted.

``space`` reads parameters, ``suggest`` chooses their values, ``measurements`` reads what a trial reports,
``stopping`` says when a trial or the study should end; all four are pure. ``study`` is one tuning job's
message and what follows from it; ``controller`` connects it to the engine.
"""

from __future__ import annotations

from airflow_provider.agent_platform.emulator.tuning.controller import TuningJobs

__all__ = ["TuningJobs"]
