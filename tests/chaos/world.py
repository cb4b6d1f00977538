"""Airflow's part of a crash test: tries in real processes that can be killed at any point of the lifecycle.

Each start or resume of the task is a process of its own, forked from a server that has imported everything and opened
nothing. A process dies of SIGKILL at the point it was told to; then, as Airflow does, a new try starts. Waiting for a
job or for a moment is done here, in place of the triggerer.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from airflow_provider.agent_platform.emulator.client import Control

CRASHED = "crashed"
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.chaos.process"])

SETTLE_SECONDS = 60.0
MAX_STEPS = 40


@dataclass(frozen=True, kw_only=True)
class Crash:
    """One kill: at the ``nth`` time a process passes ``point``, counted over all processes of the world."""

    point: str
    nth: int = 1


@dataclass(kw_only=True)
class World:
    """One task instance on one emulator.

    :param grpc_target: address of the emulator.
    :param rest_url: its control API.
    :param run_id: makes the task instance unique.
    :param arguments: of the operator.
    :param retries: of the task.
    :param crashes: in the order they happen.
    """

    grpc_target: str
    rest_url: str
    run_id: str
    arguments: dict[str, Any]
    retries: int = 20
    crashes: list[Crash] = field(default_factory=list)
    try_number: int = 1
    max_tries: int | None = None
    passed: dict[str, int] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)

    def run(self) -> dict[str, Any]:
        """Start the task, crash as told, recover as Airflow would; return how the last process ended."""
        call: dict[str, Any] = {"method": "execute"}
        for _ in range(MAX_STEPS):
            answer = self._process(call)
            self.story.append(f"try {self.try_number} {call['method']}: {answer['how']}")
            if answer["how"] == CRASHED:
                # No policy is asked, no code runs: the next try just starts.
                self.try_number += 1
                call = {"method": "execute"}
            elif answer["how"] == "deferred":
                call = self._wait(answer)
            elif answer["how"] == "retry":
                self.try_number += 1
                call = {"method": "execute"}
            else:
                return answer
        raise AssertionError("the task did not come to an end:\n" + "\n".join(self.story))

    def _process(self, call: dict[str, Any]) -> dict[str, Any]:
        from tests.chaos.process import main

        crash = self.crashes[0] if self.crashes else None
        receiver, sender = CONTEXT.Pipe(duplex=False)
        task = {
            "run_id": self.run_id,
            "try_number": self.try_number,
            "max_tries": self.retries if self.max_tries is None else self.max_tries,
            "retries": self.retries,
            "arguments": self.arguments,
            "grpc_target": self.grpc_target,
            "crash": None if crash is None else (crash.point, crash.nth - self.passed.get(crash.point, 0)),
            **call,
        }
        process = CONTEXT.Process(target=main, args=(task, sender))
        process.start()
        sender.close()
        answer: dict[str, Any] | None = None
        while True:
            try:
                message = receiver.recv()
            except EOFError:
                break
            if "point" in message:
                self.passed[message["point"]] = self.passed.get(message["point"], 0) + 1
            else:
                answer = message
        process.join()
        if process.exitcode == -signal.SIGKILL:
            self.crashes.pop(0)
            self.passed.clear()
            return {"how": CRASHED}
        assert answer is not None, f"the process ended with {process.exitcode} and said nothing"
        return answer

    def _wait(self, answer: dict[str, Any]) -> dict[str, Any]:
        kwargs = answer["kwargs"]
        if answer["method"] == "execute_requeue":
            # The moment itself is tested elsewhere; the emulator's clock is real, so it is not slept through.
            return {"method": "execute_requeue", "kwargs": kwargs}
        name = answer["trigger"]["job_name"]
        state = self._await_end(name)
        event = {"version": 1, "type": "ended", "job_name": name, "state": state}
        return {"method": "execute_complete", "kwargs": {**kwargs, "event": event}}

    def _await_end(self, name: str) -> int:
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            job = next(item for item in self.jobs() if item["name"] == name)
            if job["state"] in ENDS and (job["state"] != 5 or job["error"]):
                return int(job["state"])
            time.sleep(0.02)
        raise AssertionError(f"{name} did not end")

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs on the emulator that belong to this task instance, oldest first."""
        return [job for job in list_jobs(self.grpc_target) if job["run"] == self.run_id]

    def settle(self) -> list[dict[str, Any]]:
        """Wait until no job is being cancelled any more, and return all jobs."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            jobs = self.jobs()
            if not any(job["state"] == 6 for job in jobs):
                return jobs
            time.sleep(0.02)
        raise AssertionError("a job is being cancelled for ever")

    @property
    def control(self) -> Control:
        """The emulator's control API."""
        return Control(self.rest_url)


ENDS = (4, 5, 7, 9, 11)


def list_jobs(grpc_target: str) -> list[dict[str, Any]]:
    """Every custom job of the regions the tests use, oldest first."""
    import grpc
    from google.cloud import aiplatform_v1 as v1
    from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

    jobs = []
    with grpc.insecure_channel(grpc_target) as channel:
        client = v1.JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))
        for region in ("us-central1", "europe-west4"):
            for job in client.list_custom_jobs(parent=f"projects/chaos/locations/{region}", timeout=30):
                env = job.job_spec.worker_pool_specs[0].container_spec.env
                jobs.append(
                    {
                        "name": job.name,
                        "state": int(job.state),
                        "error": job.error.message,
                        "created": job.create_time,
                        "try": job.labels.get("airflow-try"),
                        "run": next((item.value for item in env if item.name == "CHAOS_RUN"), None),
                    }
                )
    return sorted(jobs, key=lambda job: job["created"])


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)
