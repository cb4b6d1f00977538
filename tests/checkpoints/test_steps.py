"""The step in a name."""

from __future__ import annotations

import pytest

from airflow_provider.agent_platform.checkpoints.recognisers.steps import is_container, step_in


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500),
        ("checkpoint_500", 500),
        ("ckpt-10", 10),
        ("model.ckpt-500", 500),
        ("500", 500),
        ("0", 0),
        ("step_0000500", 500),
        ("step500", 500),
        ("global_step500", 500),
        ("iter_0001000", 1000),
        ("epoch=3-step=1000.ckpt", 1000),
        ("step=1000-epoch=3.ckpt", 1000),
        ("epoch=3.ckpt", 3),
        ("epoch=3-val_loss=0.25.ckpt", 3),
        ("epoch=3-step=1000-v1.ckpt", 1000),
        ("epoch_12", 12),
        ("model_100.ubj", 100),
        ("net-5.pt", 5),
        ("ckpt5.npz", 5),
        ("xgboost-checkpoint.100", 100),
        ("a b 7", 7),
        ("größe-7", 7),
        ("m--val_loss=1.20-step=99-consumed_samples=800.0", 99),
        ("last.ckpt", None),
        ("best", None),
        ("val_loss=0.25.ckpt", None),
        ("abc123", None),
        ("2026-11-30", None),
        ("run-2026-11-30", None),
        ("1700000000000000000", None),
        ("9" * 40, None),
        ("", None),
        (".metadata", None),
    ],
)
def test_a_step_is_read_from_a_name(name: str, step: int | None) -> None:
    assert step_in(name) == step


@pytest.mark.parametrize(
    "name", ["trial-1", "run_3", "version_0", "v2", "my-run-3", "fold 4", "worker-0", "Seed-42"]
)
def test_a_number_of_a_trial_or_a_run_is_no_step(name: str) -> None:
    assert is_container(name)


@pytest.mark.parametrize("name", ["checkpoint-1", "step-5", "5", "prune-5", "device-1x"])
def test_other_numbers_may_be_steps(name: str) -> None:
    assert not is_container(name)
