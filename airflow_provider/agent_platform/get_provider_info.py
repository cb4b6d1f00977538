"""What Airflow reads about this package when it discovers providers: names, and the options of its configuration."""

from __future__ import annotations

from typing import Any

from airflow_provider.agent_platform.settings import provider_config

_PACKAGE = "airflow_provider.agent_platform"
_INTEGRATION = "Google Agent Platform training"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata in the form of Airflow's provider schema."""

    def modules(kind: str, *names: str) -> list[dict[str, Any]]:
        return [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [f"{_PACKAGE}.{kind}.{name}" for name in names],
            }
        ]

    return {
        "package-name": "airflow-provider-agent-platform",
        "name": _INTEGRATION,
        "description": (
            "Training jobs on Google's managed training service (Vertex AI custom training): one job whatever "
            "crashes, failures understood and runs counted once, checkpoints kept; with an emulator of the service."
        ),
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://cloud.google.com/vertex-ai/docs/training/overview",
                "tags": ["gcp"],
            }
        ],
        "operators": modules("operators", "custom_job", "hyperparameter_tuning_job"),
        "sensors": modules("sensors", "training_job", "checkpoint"),
        "hooks": modules("hooks", "training_job"),
        "triggers": modules("triggers", "training_job", "checkpoint"),
        "extra-links": [f"{_PACKAGE}.links.training_job.TrainingJobLink"],
        "config": provider_config(),
    }
