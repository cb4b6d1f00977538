"""The environment and the command of a replica, as the service documents them.

In: a job's spec, its addresses, and which replica. Out: a dictionary of variables, and the words of the
command. Where each variable comes from is in its row; ``$(VAR)`` follows the comment of ``EnvVar`` in the
client library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from airflow_provider.agent_platform.emulator.catalog import replicas_of
from airflow_provider.agent_platform.emulator.cluster import LOOPBACK, Cluster

_REFERENCE = re.compile(r"\$\$(?=\()|\$\(([^()\s$]*)\)")
METRIC_FILE = "/tmp/hypertune/output.metrics"  # noqa: S108 - the path a real container has; only a name here
TASK_NAMES = {1: "worker", 2: "ps", 3: "evaluator"}


@dataclass(frozen=True, kw_only=True)
class Child:
    """What a tuning job adds to the workers of its trials.

    :param trial: the trial's id. Its outputs go to ``<base_output_directory>/<trial>``, which is the directory that
        its job names already.
    :param arguments: appended to the container's arguments.
    :param metric_file: path of the trial's metric file.
    """

    trial: str
    arguments: tuple[str, ...] = ()
    metric_file: str = METRIC_FILE

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"trial": self.trial, "arguments": list(self.arguments), "metric_file": self.metric_file}

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> Child | None:
        """Read back what :meth:`to_json` made."""
        return None if values is None else cls(**{**values, "arguments": tuple(values["arguments"])})


def replica_names(spec: Any) -> tuple[str, ...]:
    """``workerpool0-0``, ``workerpool1-0``, ... of every pool that has replicas."""
    return tuple(
        f"workerpool{number}-{index}"
        for number, pool in enumerate(spec.worker_pool_specs)
        for index in range(replicas_of(pool))
    )


def split_replica(replica: str) -> tuple[int, int]:
    """Pool and index of ``workerpool1-0``."""
    pool, _, index = replica.removeprefix("workerpool").partition("-")
    return int(pool), int(index)


def hostname(job_id: str, replica: str) -> str:
    """The name of a replica's machine; stays the same when it moves."""
    pool, index = split_replica(replica)
    return f"cmle-training-workerpool{pool}-{job_id[-10:]}-{index}"


def command(pool: Any, child: Child | None = None) -> tuple[str, ...]:
    """The words that a replica of a pool executes.

    There is no image here, so a container's ``command`` and ``args`` are all there is to run; a python package
    is run by ``python3 -m``.
    """
    extra = child.arguments if child else ()
    if pool.python_package_spec.python_module:
        package = pool.python_package_spec
        return ("python3", "-m", package.python_module, *package.args, *extra)
    return (*pool.container_spec.command, *pool.container_spec.args, *extra)


def user_variables(pool: Any) -> list[tuple[str, str]]:
    """The ``env`` of a pool, in its order."""
    source = pool.python_package_spec if pool.python_package_spec.python_module else pool.container_spec
    return [(one.name, one.value) for one in source.env]


def expand(variables: Iterable[tuple[str, str]], known: Mapping[str, str]) -> dict[str, str]:
    """Values with ``$(VAR)`` replaced by what is known before them.

    ``$$(VAR)`` stays ``$(VAR)``, and so does a reference that cannot be resolved.
    """
    found = dict(known)
    own: dict[str, str] = {}
    for name, value in variables:
        own[name] = found[name] = _REFERENCE.sub(lambda match: _replace(match, found), value)
    return own


def _replace(match: re.Match[str], known: Mapping[str, str]) -> str:
    if match[0] == "$$":
        return "$"
    return known.get(match[1], match[0])


def service_variables(
    spec: Any,
    *,
    job_id: str,
    project: str,
    region: str,
    replica: str,
    cluster: Cluster,
    child: Child | None = None,
) -> dict[str, str]:
    """What the service itself sets."""
    pool, index = split_replica(replica)
    found = {
        "CLOUD_ML_PROJECT_ID": project,
        "CLOUD_ML_JOB_ID": job_id,
        "CLOUD_ML_REGION": region,
        "HOSTNAME": hostname(job_id, replica),
        "CLUSTER_SPEC": json.dumps(_cluster_spec(spec, cluster, pool, index, child)),
        **_outputs(spec.base_output_directory.output_uri_prefix),
        **_rank(cluster, pool, index),
    }
    if len(cluster.ports) > 1:
        found["TF_CONFIG"] = json.dumps(_tf_config(cluster, pool, index))
    if child is not None:
        found["CLOUD_ML_TRIAL_ID"] = child.trial
        found["CLOUD_ML_HP_METRIC_FILE"] = child.metric_file
    if spec.tensorboard:
        found["AIP_TENSORBOARD_RESOURCE_NAME"] = spec.tensorboard
        found["AIP_TENSORBOARD_API_URI"] = f"https://{region}-aiplatform.googleapis.com"
    return found


def _outputs(base: str) -> dict[str, str]:
    if not base:
        return {}
    root = base.rstrip("/")
    return {
        "AIP_MODEL_DIR": f"{root}/model/",
        "AIP_CHECKPOINT_DIR": f"{root}/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": f"{root}/logs/",
    }


def _rank(cluster: Cluster, pool: int, index: int) -> dict[str, str]:
    if pool > 1:
        return {}
    first = len(cluster.pool(0))
    return {
        "RANK": str(index if pool == 0 else first + index),
        "WORLD_SIZE": str(first + len(cluster.pool(1))),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(cluster.master_port),
    }


def _cluster_spec(spec: Any, cluster: Cluster, pool: int, index: int, child: Child | None) -> dict[str, Any]:
    task: dict[str, Any] = {"type": f"workerpool{pool}", "index": index}
    if child is not None:
        task["trial"] = child.trial
    pools = {f"workerpool{number}": cluster.pool(number) for number in range(len(spec.worker_pool_specs))}
    return {
        "cluster": {name: addresses for name, addresses in pools.items() if addresses},
        "environment": "cloud",
        "task": task,
        "job": json_format.MessageToDict(spec, preserving_proto_field_name=True),
    }


def _tf_config(cluster: Cluster, pool: int, index: int) -> dict[str, Any]:
    found = {"chief": cluster.pool(0), "worker": cluster.pool(1), "ps": cluster.pool(2)}
    return {
        "cluster": {name: addresses for name, addresses in found.items() if addresses},
        "environment": "cloud",
        "task": {"type": TASK_NAMES.get(pool, "chief"), "index": index},
    }
