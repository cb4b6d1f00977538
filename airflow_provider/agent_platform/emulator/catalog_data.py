"""The machines, accelerators and regions of the training service, as tables.

Data only; ``catalog`` reads it. Sources: the service's pages on compute for custom training and on
locations, and Compute Engine's pages on machine families and GPU machine types, as they stood in 2025 and
2026. Memory is in GiB.
"""

from __future__ import annotations

from collections.abc import Mapping

REGIONS: tuple[str, ...] = (
    "africa-south1",
    "asia-east1",
    "asia-east2",
    "asia-northeast1",
    "asia-northeast2",
    "asia-northeast3",
    "asia-south1",
    "asia-southeast1",
    "asia-southeast2",
    "australia-southeast1",
    "australia-southeast2",
    "europe-central2",
    "europe-north1",
    "europe-southwest1",
    "europe-west1",
    "europe-west2",
    "europe-west3",
    "europe-west4",
    "europe-west6",
    "europe-west8",
    "europe-west9",
    "europe-west12",
    "me-central1",
    "me-central2",
    "me-west1",
    "northamerica-northeast1",
    "northamerica-northeast2",
    "southamerica-east1",
    "southamerica-west1",
    "us-central1",
    "us-east1",
    "us-east4",
    "us-east5",
    "us-south1",
    "us-west1",
    "us-west2",
    "us-west3",
    "us-west4",
)

CPU_FAMILIES: tuple[tuple[str, float, tuple[int, ...]], ...] = (
    # shape, GiB for each vCPU, vCPUs
    ("n1-standard", 3.75, (4, 8, 16, 32, 64, 96)),
    ("n1-highmem", 6.5, (2, 4, 8, 16, 32, 64, 96)),
    ("n1-highcpu", 0.9, (16, 32, 64, 96)),
    ("e2-standard", 4, (4, 8, 16, 32)),
    ("e2-highmem", 8, (2, 4, 8, 16)),
    ("e2-highcpu", 1, (16, 32)),
    ("n2-standard", 4, (4, 8, 16, 32, 48, 64, 80)),
    ("n2-highmem", 8, (2, 4, 8, 16, 32, 48, 64, 80)),
    ("n2-highcpu", 1, (16, 32, 48, 64, 80)),
    ("n2d-standard", 4, (4, 8, 16, 32, 48, 64, 80, 96, 128, 224)),
    ("n2d-highmem", 8, (2, 4, 8, 16, 32, 48, 64, 80, 96)),
    ("n2d-highcpu", 1, (16, 32, 48, 64, 80, 96, 128, 224)),
    ("c2-standard", 4, (4, 8, 16, 30, 60)),
    ("c2d-standard", 4, (4, 8, 16, 32, 56, 112)),
    ("c2d-highmem", 8, (2, 4, 8, 16, 32, 56, 112)),
    ("c2d-highcpu", 2, (4, 8, 16, 32, 56, 112)),
    ("c3-standard", 4, (4, 8, 22, 44, 88, 176)),
    ("c3-highmem", 8, (4, 8, 22, 44, 88, 176)),
    ("c3-highcpu", 2, (4, 8, 22, 44, 88, 176)),
    ("m1-ultramem", 24.025, (40, 80, 160)),
    ("m1-megamem", 14.933, (96,)),
)

ACCELERATOR_MACHINES: tuple[tuple[str, int, float, str, int], ...] = (
    # machine type, vCPUs, GiB, accelerator, its only count
    ("a2-highgpu-1g", 12, 85, "NVIDIA_TESLA_A100", 1),
    ("a2-highgpu-2g", 24, 170, "NVIDIA_TESLA_A100", 2),
    ("a2-highgpu-4g", 48, 340, "NVIDIA_TESLA_A100", 4),
    ("a2-highgpu-8g", 96, 680, "NVIDIA_TESLA_A100", 8),
    ("a2-megagpu-16g", 96, 1360, "NVIDIA_TESLA_A100", 16),
    ("a2-ultragpu-1g", 12, 170, "NVIDIA_A100_80GB", 1),
    ("a2-ultragpu-2g", 24, 340, "NVIDIA_A100_80GB", 2),
    ("a2-ultragpu-4g", 48, 680, "NVIDIA_A100_80GB", 4),
    ("a2-ultragpu-8g", 96, 1360, "NVIDIA_A100_80GB", 8),
    ("a3-highgpu-1g", 26, 234, "NVIDIA_H100_80GB", 1),
    ("a3-highgpu-2g", 52, 468, "NVIDIA_H100_80GB", 2),
    ("a3-highgpu-4g", 104, 936, "NVIDIA_H100_80GB", 4),
    ("a3-highgpu-8g", 208, 1872, "NVIDIA_H100_80GB", 8),
    ("a3-megagpu-8g", 208, 1872, "NVIDIA_H100_MEGA_80GB", 8),
    ("a3-ultragpu-8g", 224, 2952, "NVIDIA_H200_141GB", 8),
    ("a4-highgpu-8g", 224, 3968, "NVIDIA_B200", 8),
    ("a4x-highgpu-4g", 140, 884, "NVIDIA_GB200", 4),
    ("g2-standard-4", 4, 16, "NVIDIA_L4", 1),
    ("g2-standard-8", 8, 32, "NVIDIA_L4", 1),
    ("g2-standard-12", 12, 48, "NVIDIA_L4", 1),
    ("g2-standard-16", 16, 64, "NVIDIA_L4", 1),
    ("g2-standard-24", 24, 96, "NVIDIA_L4", 2),
    ("g2-standard-32", 32, 128, "NVIDIA_L4", 1),
    ("g2-standard-48", 48, 192, "NVIDIA_L4", 4),
    ("g2-standard-96", 96, 384, "NVIDIA_L4", 8),
    ("g4-standard-48", 48, 180, "NVIDIA_RTX_PRO_6000", 1),
    ("g4-standard-96", 96, 360, "NVIDIA_RTX_PRO_6000", 2),
    ("g4-standard-192", 192, 720, "NVIDIA_RTX_PRO_6000", 4),
    ("g4-standard-384", 384, 1440, "NVIDIA_RTX_PRO_6000", 8),
)

TPU_MACHINES: tuple[tuple[str, int, float], ...] = (
    # machine type, vCPUs, GiB; the number of chips is in the name or in tpu_topology
    ("cloud-tpu", 96, 335),
    ("ct5lp-hightpu-1t", 24, 48),
    ("ct5lp-hightpu-4t", 112, 192),
    ("ct5lp-hightpu-8t", 224, 384),
    ("ct6e-standard-1t", 44, 176),
    ("ct6e-standard-4t", 180, 720),
    ("ct6e-standard-8t", 180, 1440),
)

CLOUD_TPU_COUNTS: Mapping[str, tuple[int, ...]] = {
    "TPU_V2": (8, 32, 128, 256, 512),
    "TPU_V3": (8, 32, 64, 128, 256),
}

N1_ACCELERATORS: Mapping[str, Mapping[int, int]] = {
    # accelerator -> count -> the most vCPUs an N1 machine may have with so many
    "NVIDIA_TESLA_P4": {1: 24, 2: 48, 4: 96},
    "NVIDIA_TESLA_T4": {1: 24, 2: 48, 4: 96},
    "NVIDIA_TESLA_P100": {1: 16, 2: 32, 4: 96},
    "NVIDIA_TESLA_V100": {1: 12, 2: 24, 4: 48, 8: 96},
}

QUOTA_NAMES: Mapping[str, str] = {
    # accelerator -> the middle of its quota metric: custom_model_training_<this>
    "NVIDIA_TESLA_K80": "nvidia_k80_gpus",
    "NVIDIA_TESLA_P4": "nvidia_p4_gpus",
    "NVIDIA_TESLA_P100": "nvidia_p100_gpus",
    "NVIDIA_TESLA_T4": "nvidia_t4_gpus",
    "NVIDIA_TESLA_V100": "nvidia_v100_gpus",
    "NVIDIA_TESLA_A100": "nvidia_a100_gpus",
    "NVIDIA_A100_80GB": "nvidia_a100_80gb_gpus",
    "NVIDIA_L4": "nvidia_l4_gpus",
    "NVIDIA_H100_80GB": "nvidia_h100_gpus",
    "NVIDIA_H100_MEGA_80GB": "nvidia_h100_mega_gpus",
    "NVIDIA_H200_141GB": "nvidia_h200_gpus",
    "NVIDIA_B200": "nvidia_b200_gpus",
    "NVIDIA_GB200": "nvidia_gb200_gpus",
    "NVIDIA_RTX_PRO_6000": "nvidia_rtx_pro_6000_gpus",
    "TPU_V2": "tpu_v2",
    "TPU_V3": "tpu_v3",
    "TPU_V4_POD": "tpu_v4",
    "TPU_V5_LITEPOD": "tpu_v5e",
}

FLEX_START_ACCELERATORS: frozenset[str] = frozenset(
    {
        "NVIDIA_L4",
        "NVIDIA_TESLA_A100",
        "NVIDIA_A100_80GB",
        "NVIDIA_H100_80GB",
        "NVIDIA_H100_MEGA_80GB",
        "NVIDIA_H200_141GB",
        "NVIDIA_B200",
    }
)

REGIONS_OF: Mapping[str, str] = {
    # family, or shape within one -> the only regions that have it; what is not named here is everywhere
    "a2-highgpu": (
        "us-central1 us-east1 us-west1 us-west3 us-west4 europe-west4 me-west1 asia-northeast1 "
        "asia-northeast3 asia-southeast1"
    ),
    "a2-megagpu": ("us-central1 europe-west4 asia-southeast1"),
    "a2-ultragpu": ("us-central1 us-east4 us-east5 europe-west4 asia-southeast1"),
    "a3": (
        "us-central1 us-east1 us-east4 us-east5 us-south1 us-west1 us-west4 europe-west1 europe-west2 "
        "europe-west4 australia-southeast1 asia-northeast1 asia-northeast3 asia-south1 asia-southeast1"
    ),
    "a4": ("us-central1 us-east1 us-east4 us-south1 us-west2 us-west3 europe-west4 asia-southeast1"),
    "a4x": ("us-central1 us-east1 us-east4 europe-west4"),
    "g2": (
        "us-central1 us-east1 us-east4 us-west1 us-west4 europe-west1 europe-west2 europe-west3 europe-west4 "
        "europe-west6 me-central2 northamerica-northeast2 asia-east1 asia-northeast1 asia-northeast3 "
        "asia-south1 asia-southeast1 asia-southeast2 australia-southeast1"
    ),
    "g4": ("us-central1 us-east1 us-east4 us-east5 us-south1 us-west1 europe-west4 asia-southeast1"),
    "m1": (
        "us-central1 us-east1 us-east4 us-west1 us-west2 europe-west1 europe-west2 europe-west3 europe-west4 "
        "asia-east1 asia-northeast1 asia-south1 asia-southeast1 australia-southeast1"
    ),
    "cloud": ("us-central1 europe-west4 asia-east1"),
    "ct5lp": ("us-central1 us-east1 us-east5 us-south1 us-west1 us-west4 europe-west4 asia-southeast1"),
    "ct6e": ("us-central1 us-east1 us-east5 us-south1 europe-west4 asia-northeast1"),
}
