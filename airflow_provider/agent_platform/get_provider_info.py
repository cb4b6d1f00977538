"""What Airflow reads about this package when it discovers providers: names only, nothing is imported here."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata in the form of Airflow's provider schema."""
    return {
        "package-name": "airflow-provider-agent-platform",
        "name": "Google Agent Platform training",
        "description": "Runs training jobs on Google's managed training service.",
    }
