"""What is refused at submit: each rule with its field path, all errors at once, and nothing that is right."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import CustomJob

from airflow_provider.agent_platform.emulator.errors import ApiError
from airflow_provider.agent_platform.emulator.found_errors import FoundErrors
from airflow_provider.agent_platform.emulator.validation import require_region, validate_custom_job

POOL = "job_spec.worker_pool_specs[0]"


def job(**changes: Any) -> dict[str, Any]:
    """A job that is right, changed at dotted paths: ``job(**{"labels": {}, "job_spec.network": "x"})``."""
    value: dict[str, Any] = {
        "display_name": "digits",
        "job_spec": {
            "worker_pool_specs": [
                {
                    "machine_spec": {"machine_type": "n1-standard-4"},
                    "replica_count": 1,
                    "container_spec": {"image_uri": "gcr.io/p/i", "args": ["--x"], "env": []},
                }
            ]
        },
    }
    for path, new in changes.items():
        target: Any = value
        *parents, last = path.replace("[", ".").replace("]", "").split(".")
        for part in parents:
            target = target[int(part)] if part.isdigit() else target.setdefault(part, {})
        if new is None:
            del target[last]
        else:
            target[last] = new
    return value


def package(**changes: Any) -> dict[str, Any]:
    spec = {
        "executor_image_uri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-14.py310:latest",
        "package_uris": ["gs://bucket/trainer-0.1.tar.gz"],
        "python_module": "trainer.task",
    }
    spec.update(changes)
    return job(**{f"{POOL}.container_spec": None, f"{POOL}.python_package_spec": spec})


def worker(**changes: Any) -> dict[str, Any]:
    pool: dict[str, Any] = copy.deepcopy(job()["job_spec"]["worker_pool_specs"][0])
    pool.update(changes)
    return pool


def found(value: dict[str, Any], region: str | None = "us-central1") -> str:
    with pytest.raises(ApiError) as caught:
        validate_custom_job(CustomJob(value), region=region)
    assert caught.value.code == 3
    return caught.value.message


L4 = {"machine_type": "g2-standard-8", "accelerator_type": "NVIDIA_L4", "accelerator_count": 1}
FLEX = {f"{POOL}.machine_spec": L4, "job_spec.scheduling": {"strategy": "FLEX_START"}}

RIGHT = {
    "plain": job(),
    "no region asked": job(),
    "longest name": job(display_name="ä" * 128),
    "no replica_count": job(**{f"{POOL}.replica_count": None}),
    "workers": job(**{"job_spec.worker_pool_specs": [worker(), worker(replica_count=7)]}),
    "a skipped pool": job(**{"job_spec.worker_pool_specs": [worker(), {}, worker(replica_count=2)]}),
    "labels": job(labels={"a": "", "b-c_d9": "x" * 63, "größe": "1", "k" * 63: "ab-_9"}),
    "64 labels": job(labels={f"k{i}": "v" for i in range(64)}),
    "a T4": job(**{f"{POOL}.machine_spec.accelerator_type": 5, f"{POOL}.machine_spec.accelerator_count": 2}),
    "an A100": job(
        **{
            f"{POOL}.machine_spec": {
                "machine_type": "a2-highgpu-4g",
                "accelerator_type": "NVIDIA_TESLA_A100",
                "accelerator_count": 4,
            }
        }
    ),
    "FLEX_START": job(**FLEX),
    "FLEX_START, waiting": job(
        **{**FLEX, "job_spec.scheduling": {"strategy": 6, "max_wait_duration": "0s", "timeout": "604800s"}}
    ),
    "SPOT": job(**{"job_spec.scheduling": {"strategy": "SPOT", "disable_retries": True}}),
    "deprecated strategy": job(**{"job_spec.scheduling.strategy": "LOW_COST"}),
    "output": job(**{"job_spec.base_output_directory.output_uri_prefix": "gs://bucket/a b/ü"}),
    "bare bucket": job(**{"job_spec.base_output_directory.output_uri_prefix": "gs://my-bucket"}),
    "network": job(**{"job_spec.network": "projects/12345/global/networks/vpc"}),
    "100 variables": job(
        **{f"{POOL}.container_spec.env": [{"name": f"_V{i}", "value": ""} for i in range(100)]}
    ),
    "long arguments": job(**{f"{POOL}.container_spec.args": ["x" * 50_000, "y" * 50_000]}),
    "a disk": job(**{f"{POOL}.disk_spec": {"boot_disk_type": "pd-standard", "boot_disk_size_gb": 200}}),
    "a package": package(),
    "a package on this machine": package(package_uris=["/tmp/trainer.whl", "file:///tmp/trainer.whl"]),
    "a persistent resource": job(
        **{"job_spec.persistent_resource_id": "my-cluster-1", f"{POOL}.machine_spec": None}
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_accepted(name: str) -> None:
    validate_custom_job(CustomJob(RIGHT[name]), region="us-central1")


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("no name", job(display_name=""), "display_name", "Required"),
    ("long name", job(display_name="x" * 129), "display_name", "at most 128 characters in length, found 129"),
    ("no pools", job(**{"job_spec.worker_pool_specs": []}), "job_spec.worker_pool_specs", "at least one"),
    (
        "five pools",
        job(**{"job_spec.worker_pool_specs": [worker()] * 5}),
        "job_spec.worker_pool_specs",
        "at most 4 worker pools, found 5",
    ),
    ("two chiefs", job(**{f"{POOL}.replica_count": 2}), f"{POOL}.replica_count", "must be 1, found 2"),
    ("negative", job(**{f"{POOL}.replica_count": -1}), f"{POOL}.replica_count", "negative"),
    ("no task", job(**{f"{POOL}.container_spec": None}), POOL, "container_spec and python_package_spec"),
    (
        "no task, no count",
        job(**{f"{POOL}.container_spec": None, f"{POOL}.replica_count": None}),
        POOL,
        "must be set",
    ),
    (
        "no image",
        job(**{f"{POOL}.container_spec.image_uri": ""}),
        f"{POOL}.container_spec.image_uri",
        "Required",
    ),
    (
        "unknown machine",
        job(**{f"{POOL}.machine_spec.machine_type": "n1-standard-1"}),
        f"{POOL}.machine_spec.machine_type",
        "Machine type n1-standard-1 is not supported.",
    ),
    (
        "no machine",
        job(**{f"{POOL}.machine_spec": None}),
        f"{POOL}.machine_spec.machine_type",
        "Required",
    ),
    (
        "GPU on the wrong machine",
        job(
            **{
                f"{POOL}.machine_spec": {
                    "machine_type": "e2-standard-4",
                    "accelerator_type": "NVIDIA_TESLA_T4",
                    "accelerator_count": 1,
                }
            }
        ),
        f"{POOL}.machine_spec.accelerator_type",
        'Accelerator "NVIDIA_TESLA_T4" is not supported for machine type "e2-standard-4"',
    ),
    (
        "end of support",
        job(**{f"{POOL}.machine_spec.accelerator_type": 1, f"{POOL}.machine_spec.accelerator_count": 1}),
        f"{POOL}.machine_spec.accelerator_type",
        'Accelerator "NVIDIA_TESLA_K80" is not supported',
    ),
    (
        "unknown accelerator",
        job(**{f"{POOL}.machine_spec.accelerator_type": 99, f"{POOL}.machine_spec.accelerator_count": 1}),
        f"{POOL}.machine_spec.accelerator_type",
        'Accelerator "99" is not supported',
    ),
    (
        "three GPUs",
        job(**{f"{POOL}.machine_spec.accelerator_type": 5, f"{POOL}.machine_spec.accelerator_count": 3}),
        f"{POOL}.machine_spec.accelerator_count",
        'Accelerator count 3 of "NVIDIA_TESLA_T4" is not supported for machine type "n1-standard-4"; '
        "supported: 1, 2, 4",
    ),
    (
        "no count",
        job(**{f"{POOL}.machine_spec.accelerator_type": 5}),
        f"{POOL}.machine_spec.accelerator_count",
        "Accelerator count 0",
    ),
    (
        "no type",
        job(**{f"{POOL}.machine_spec.accelerator_count": 1}),
        f"{POOL}.machine_spec.accelerator_type",
        "Must be set if accelerator_count is set",
    ),
    (
        "an A2 without its GPU",
        job(**{f"{POOL}.machine_spec.machine_type": "a2-highgpu-1g"}),
        f"{POOL}.machine_spec.accelerator_type",
        "set accelerator_type to NVIDIA_TESLA_A100 and accelerator_count to 1",
    ),
    (
        "101 variables",
        job(**{f"{POOL}.container_spec.env": [{"name": f"V{i}", "value": ""} for i in range(101)]}),
        f"{POOL}.container_spec.env",
        "at most 100 environment variables, found 101",
    ),
    (
        "a variable twice",
        job(**{f"{POOL}.container_spec.env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
        f"{POOL}.container_spec.env",
        "EnvVar names must be unique.",
    ),
    (
        "no identifier",
        job(**{f"{POOL}.container_spec.env": [{"name": "A-B", "value": "1"}]}),
        f"{POOL}.container_spec.env[0].name",
        "'A-B' is not a valid C identifier",
    ),
    (
        "a null character",
        job(**{f"{POOL}.container_spec.env": [{"name": "A", "value": "x\0y"}]}),
        f"{POOL}.container_spec.env[0].value",
        "null character",
    ),
    (
        "long arguments",
        job(**{f"{POOL}.container_spec.args": ["x" * 100_000, "y"]}),
        f"{POOL}.container_spec.args",
        "at most 100000 characters, found 100001",
    ),
    ("a capital", job(labels={"Team": "x"}), "labels", "key 'Team'"),
    ("a digit first", job(labels={"1a": "x"}), "labels", "key '1a'"),
    ("an empty key", job(labels={"": "x"}), "labels", "key ''"),
    ("a long key", job(labels={"k" * 64: "x"}), "labels", "less than 64 characters"),
    ("a bad value", job(labels={"a": "x y"}), "labels", "value 'x y' of key 'a'"),
    ("a capital value", job(labels={"a": "Ä"}), "labels", "lowercase letters"),
    ("65 labels", job(labels={f"k{i}": "v" for i in range(65)}), "labels", "65 labels"),
    (
        "local output",
        job(**{"job_spec.base_output_directory.output_uri_prefix": "/tmp/x"}),
        "",
        "gs://<bucket>",
    ),
    (
        "no bucket",
        job(**{"job_spec.base_output_directory.output_uri_prefix": "gs:///x"}),
        "",
        "Cloud Storage URI",
    ),
    (
        "unknown strategy",
        job(**{"job_spec.scheduling.strategy": 5}),
        "job_spec.scheduling.strategy",
        "FLEX_START",
    ),
    (
        "wait without FLEX_START",
        job(**{"job_spec.scheduling.max_wait_duration": "60s"}),
        "job_spec.scheduling.max_wait_duration",
        "only be set if the scheduling strategy is FLEX_START",
    ),
    ("no time", job(**{"job_spec.scheduling.timeout": "0s"}), "job_spec.scheduling.timeout", "positive"),
    (
        "negative time",
        job(**{"job_spec.scheduling.timeout": "-1s"}),
        "job_spec.scheduling.timeout",
        "negative",
    ),
    (
        "FLEX_START for eight days",
        job(**{**FLEX, "job_spec.scheduling": {"strategy": 6, "timeout": "691200s"}}),
        "job_spec.scheduling.timeout",
        "at most 604800s",
    ),
    (
        "FLEX_START without GPU",
        job(**{"job_spec.scheduling.strategy": 6}),
        f"{POOL}.machine_spec.accelerator_type",
        "FLEX_START does not support ACCELERATOR_TYPE_UNSPECIFIED; select from NVIDIA_A100_80GB",
    ),
    (
        "FLEX_START with a T4",
        job(
            **{
                "job_spec.scheduling.strategy": 6,
                f"{POOL}.machine_spec.accelerator_type": 5,
                f"{POOL}.machine_spec.accelerator_count": 1,
            }
        ),
        f"{POOL}.machine_spec.accelerator_type",
        "FLEX_START does not support NVIDIA_TESLA_T4",
    ),
    (
        "FLEX_START on two machines",
        job(
            **{
                "job_spec.scheduling.strategy": 6,
                "job_spec.worker_pool_specs": [
                    worker(machine_spec=L4),
                    worker(machine_spec={**L4, "machine_type": "g2-standard-4"}),
                ],
            }
        ),
        "job_spec.worker_pool_specs",
        "same machine_spec in all worker pools",
    ),
    (
        "FLEX_START on a reservation",
        job(
            **{
                "job_spec.scheduling.strategy": 6,
                f"{POOL}.machine_spec": {
                    **L4,
                    "reservation_affinity": {"reservation_affinity_type": "ANY_RESERVATION"},
                },
            }
        ),
        f"{POOL}.machine_spec.reservation_affinity",
        "cannot be used with reservations",
    ),
    ("a bare network", job(**{"job_spec.network": "default"}), "job_spec.network", "global/networks"),
    ("no e-mail", job(**{"job_spec.service_account": "me"}), "job_spec.service_account", "e-mail address"),
    (
        "TensorBoard without account",
        job(**{"job_spec.tensorboard": "projects/p/locations/l/tensorboards/1"}),
        "job_spec.service_account",
        "Must be set if tensorboard is set",
    ),
    (
        "small disk",
        job(**{f"{POOL}.disk_spec.boot_disk_size_gb": 10}),
        f"{POOL}.disk_spec.boot_disk_size_gb",
        "between 100 and 64000, found 10",
    ),
    (
        "unknown disk",
        job(**{f"{POOL}.disk_spec.boot_disk_type": "floppy"}),
        f"{POOL}.disk_spec.boot_disk_type",
        "'floppy' is not supported",
    ),
    ("no module", package(python_module=""), f"{POOL}.python_package_spec.python_module", "Required"),
    (
        "an option",
        package(python_module="-c"),
        f"{POOL}.python_package_spec.python_module",
        "name of a Python",
    ),
    ("no packages", package(package_uris=[]), f"{POOL}.python_package_spec.package_uris", "Required"),
    (
        "101 packages",
        package(package_uris=["gs://b/x.whl"] * 101),
        f"{POOL}.python_package_spec.package_uris",
        "at most 100 package URIs, found 101",
    ),
    (
        "the web",
        package(package_uris=["https://example.com/x.whl"]),
        f"{POOL}.python_package_spec.package_uris[0]",
        "must be a gs:// URI",
    ),
    (
        "an escape",
        package(package_uris=["gs://b/../../etc/x.whl"]),
        f"{POOL}.python_package_spec.package_uris[0]",
        "'..'",
    ),
    ("a bad key", job(**{"encryption_spec.kms_key_name": "key"}), "encryption_spec.kms_key_name", "keyRings"),
]


@pytest.mark.parametrize(
    ("value", "field", "says"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_what_is_wrong_is_refused_with_its_field(value: dict[str, Any], field: str, says: str) -> None:
    message = found(value)
    assert message.startswith("List of found errors:\t1.Field: ")
    assert f"Field: {field}" in message
    assert says in message
    assert message.count("Field: ") == 1


def test_all_errors_are_listed_numbered_and_separated_by_tabs() -> None:
    message = found(job(display_name="", labels={"A": "b"}, **{f"{POOL}.machine_spec.machine_type": "x"}))
    parts = message.split("\t")
    assert parts[0] == "List of found errors:"
    assert [part.split(";")[0] for part in parts[1:-1]] == [
        "1.Field: display_name",
        "2.Field: labels",
        f"3.Field: {POOL}.machine_spec.machine_type",
    ]
    assert parts[-1] == ""


def test_a_machine_that_only_other_regions_have_reads_like_an_unknown_one() -> None:
    value = job(
        **{
            f"{POOL}.machine_spec": {
                "machine_type": "a3-ultragpu-8g",
                "accelerator_type": "NVIDIA_H200_141GB",
                "accelerator_count": 8,
            }
        }
    )
    validate_custom_job(CustomJob(value), region="us-central1")
    assert "Machine type a3-ultragpu-8g is not supported." in found(value, "africa-south1")


def test_the_index_in_a_path_is_that_of_the_pool() -> None:
    value = job(**{"job_spec.worker_pool_specs": [worker(), {}, worker(machine_spec={"machine_type": "x"})]})
    assert "Field: job_spec.worker_pool_specs[2].machine_spec.machine_type" in found(value)


def test_bare_protobuf_is_checked_as_well() -> None:
    validate_custom_job(CustomJob.pb(CustomJob(job())))


def test_a_request_full_of_errors_gets_a_short_answer() -> None:
    errors = FoundErrors()
    for index in range(1_000):
        errors.add(f"f[{index}]", "wrong")
    assert len(errors.error().message) < 3_000
    assert "(and 950 more)" in errors.error().message


def test_a_region_that_does_not_exist_is_refused_with_those_that_do() -> None:
    require_region("europe-west4")
    with pytest.raises(ApiError, match=r"Unsupported region 'mars-north1'.*us-central1"):
        require_region("mars-north1")
