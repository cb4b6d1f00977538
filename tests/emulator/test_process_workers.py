"""Platform facts, section 4, and what a worker's process may and may not do: with real processes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

Make = Callable[..., dict[str, Any]]


def python(code: str) -> list[str]:
    return ["python3", "-c", code]


DUMP = python(
    "import json, os, sys; print('ENV=' + json.dumps(dict(os.environ))); print('ARGV=' + json.dumps(sys.argv))"
)
SLEEP = python("import time; print('up', flush=True); time.sleep(600)")


def environment(cloud: Any, name: str, replica: str = "workerpool0-0") -> dict[str, str]:
    line = next(line for line in cloud.lines(name, replica) if line.startswith("ENV="))
    return dict(json.loads(line.removeprefix("ENV=")))


def gone(pid: int, patience: float = 10) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def pid_said(cloud: Any, name: str, word: str = "pid") -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for line in cloud.lines(name):
            if line.startswith(f"{word}="):
                return int(line.partition("=")[2])
        time.sleep(0.05)
    raise AssertionError(f"no {word}: {cloud.lines(name)}")


# --- environment and arguments ---


def test_a_single_worker_gets_what_the_service_documents(cloud: Any, make_job: Make, make_pool: Make) -> None:
    base = {"output_uri_prefix": "gs://bucket/base/"}
    name = cloud.create(make_job(make_pool(DUMP), base_output_directory=base))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED"
    found = environment(cloud, name)
    assert found["AIP_MODEL_DIR"] == "gs://bucket/base/model/"
    assert found["AIP_CHECKPOINT_DIR"] == "gs://bucket/base/checkpoints/"
    assert found["AIP_TENSORBOARD_LOG_DIR"] == "gs://bucket/base/logs/"
    assert found["CLOUD_ML_JOB_ID"] == name.rpartition("/")[2]
    assert found["CLOUD_ML_PROJECT_ID"] == name.split("/")[1]
    assert found["CLOUD_ML_REGION"] == "us-central1"
    assert (found["RANK"], found["WORLD_SIZE"]) == ("0", "1")
    spec = json.loads(found["CLUSTER_SPEC"])
    assert list(spec["cluster"]) == ["workerpool0"]
    assert spec["task"] == {"type": "workerpool0", "index": 0}
    assert spec["environment"] == "cloud"
    assert spec["job"]["worker_pool_specs"][0]["machine_spec"]["machine_type"] == "n1-standard-4"
    assert "TF_CONFIG" not in found


def test_without_a_base_directory_there_is_none_of_the_three(
    cloud: Any, make_job: Make, make_pool: Make
) -> None:
    name = cloud.create(make_job(make_pool(DUMP)))
    cloud.wait(name)
    assert not {key for key in environment(cloud, name) if key.startswith("AIP_")}


def test_the_emulators_own_environment_does_not_leak(
    cloud: Any, make_job: Make, make_pool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for leak in (
        "PYTHONPATH",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "STORAGE_EMULATOR_HOST",
        "A_SECRET",
        "AIRFLOW_HOME",
    ):
        monkeypatch.setenv(leak, "leaked")
    name = cloud.create(make_job(make_pool(DUMP)))
    cloud.wait(name)
    assert "leaked" not in environment(cloud, name).values()


def test_references_to_variables_are_expanded_as_documented(
    cloud: Any, make_job: Make, make_pool: Make
) -> None:
    env = {
        "FIRST": "1",
        "SECOND": "$(FIRST)-$(CLOUD_ML_REGION)",
        "ESCAPED": "$$(FIRST)",
        "UNKNOWN": "$(NOT_THERE)",
        "LATER": "$(LAST)",
        "PLAIN": "$FIRST $$ $(",
        "LAST": "9",
    }
    name = cloud.create(make_job(make_pool(DUMP, **env)))
    cloud.wait(name)
    found = environment(cloud, name)
    assert found["SECOND"] == "1-us-central1"
    assert found["ESCAPED"] == "$(FIRST)"
    assert (found["UNKNOWN"], found["LATER"], found["PLAIN"]) == ("$(NOT_THERE)", "$(LAST)", "$FIRST $$ $(")


def test_arguments_reach_the_worker_as_they_are(cloud: Any, make_job: Make, make_pool: Make) -> None:
    words = ["; touch /tmp/pwned", "$(id)", "`id`", "a b", "*", "", "ü\n\t'\"", "--flag=$HOME"]
    made = make_pool(DUMP)
    made["container_spec"]["args"] = words
    name = cloud.create(make_job(made))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED"
    line = next(line for line in cloud.lines(name) if line.startswith("ARGV="))
    assert json.loads(line.removeprefix("ARGV="))[1:] == words


def test_each_worker_has_a_directory_of_its_own_that_is_gone_afterwards(
    cloud: Any, make_job: Make, make_pool: Make
) -> None:
    code = "import os; print('cwd=' + os.getcwd()); open('file', 'x').close(); print(len(os.listdir('.')))"
    name = cloud.create(make_job(make_pool(python(code)), make_pool(python(code))))
    cloud.wait(name)
    places = {line.partition("=")[2] for line in cloud.lines(name) if line.startswith("cwd=")}
    assert places
    deadline = time.monotonic() + 10
    while any(os.path.exists(place) for place in places) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(os.path.exists(place) for place in places)


# --- exits ---


def test_a_traceback_is_in_the_error(cloud: Any, make_job: Make, make_pool: Make) -> None:
    found = cloud.wait(cloud.create(make_job(make_pool(python("raise ValueError('no data')")))))
    assert (found.state.name, found.error.code) == ("JOB_STATE_FAILED", 3)
    first = "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error. \nTraceback (most"
    assert found.error.message.startswith(first)
    assert "ValueError: no data" in found.error.message


def test_the_restart_in_place_finds_its_files_again(cloud: Any, make_job: Make, make_pool: Make) -> None:
    code = "import os, sys, time; seen = os.path.exists('seen'); print('seen', seen); open('seen', 'a').close()\n"
    code += "time.sleep(60 if seen else 0); sys.exit(1)"
    name = cloud.create(make_job(make_pool(python(code))))
    assert cloud.wait(name).state.name == "JOB_STATE_FAILED"
    assert [line for line in cloud.lines(name, "workerpool0-0") if line.startswith("seen")] == [
        "seen False",
        "seen True",
    ]


def test_a_signal_that_kills_is_reported_as_128_and_its_number(
    cloud: Any, make_job: Make, make_pool: Make
) -> None:
    name = cloud.create(make_job(make_pool(python("import os; os.kill(os.getpid(), 9)"))))
    assert "non-zero status of 137." in cloud.wait(name).error.message


def test_an_abort_is_run_four_times(cloud: Any, make_job: Make, make_pool: Make) -> None:
    name = cloud.create(make_job(make_pool(python("import os; os.abort()"))))
    found = cloud.wait(name)
    assert "non-zero status of 134." in found.error.message
    assert cloud.runs(name) == 4


@pytest.mark.parametrize("command", [["no-such-program"], ["/"], []])
def test_what_cannot_be_started_is_a_start_error(
    command: list[str], cloud: Any, make_job: Make, make_pool: Make
) -> None:
    found = cloud.wait(cloud.create(make_job(make_pool(command))))
    assert (found.state.name, found.error.code) == ("JOB_STATE_FAILED", 3)
    first = "The replica workerpool0-0 exited with a non-zero status of 128. Termination reason: StartError. \n Term"
    assert found.error.message.startswith(first)


# --- stop ---

IGNORES = "import signal, time, os; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('pid=%d' % os.getpid(), flush=True); time.sleep(600)"


def test_a_cancel_sends_sigterm_first(cloud: Any, make_job: Make, make_pool: Make) -> None:
    code = "import signal, sys, time\ndef end(*a):\n    print('saved', flush=True)\n    sys.exit(0)\n"
    code += "signal.signal(signal.SIGTERM, end)\nprint('pid=1', flush=True)\ntime.sleep(600)"
    name = cloud.create(make_job(make_pool(python(code))))
    pid_said(cloud, name)
    cloud.client.cancel_custom_job(name=name)
    found = cloud.wait(name)
    assert (found.state.name, found.error.code) == ("JOB_STATE_CANCELLED", 1)
    assert "saved" in cloud.lines(name)
    assert [event["signal"] for event in cloud.events(name, "worker_kill")] == ["SIGTERM"]


def test_who_ignores_sigterm_is_killed(cloud: Any, make_job: Make, make_pool: Make) -> None:
    name = cloud.create(make_job(make_pool(python(IGNORES))))
    pid = pid_said(cloud, name)
    started = time.monotonic()
    cloud.client.cancel_custom_job(name=name)
    assert cloud.wait(name).state.name == "JOB_STATE_CANCELLED"
    assert time.monotonic() - started > 0.9
    assert [event["signal"] for event in cloud.events(name, "worker_kill")] == ["SIGTERM", "SIGKILL"]
    assert gone(pid)


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3):
            os.close(number)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {})
    os._exit(0)
os.wait()
import pathlib
me = os.getpid()
time.sleep(0.3)
for entry in pathlib.Path('/proc').iterdir():
    if entry.name.isdigit():
        try:
            if b'time.sleep(600)' in (entry / 'cmdline').read_bytes() and (entry / 'environ').read_bytes() == b'':
                print('daemon=' + entry.name, flush=True)
        except OSError:
            pass
"""


@pytest.mark.parametrize("ending", ["", "time.sleep(600)", "sys.exit(1)"])
def test_a_daemon_without_session_or_environment_dies_with_its_worker(
    ending: str, cloud: Any, make_job: Make, make_pool: Make
) -> None:
    name = cloud.create(make_job(make_pool(python(DAEMON + ending))))
    pid = pid_said(cloud, name, "daemon")
    if "600" in ending:
        assert psutil.pid_exists(pid)
        cloud.client.cancel_custom_job(name=name)
    cloud.wait(name)
    assert gone(pid)


def test_the_other_workers_are_ended_when_the_primary_is_done(
    cloud: Any, make_job: Make, make_pool: Make
) -> None:
    other = python("import os, time; print('pid=%d' % os.getpid(), flush=True); time.sleep(600)")
    name = cloud.create(make_job(make_pool(python("import time; time.sleep(1)")), make_pool(other)))
    pid = pid_said(cloud, name)
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED"
    assert gone(pid)


def test_reset_ends_all_workers_before_it_answers(cloud: Any, make_job: Make, make_pool: Make) -> None:
    name = cloud.create(make_job(make_pool(python(IGNORES))))
    pid = pid_said(cloud, name)
    cloud.control.reset()
    assert gone(pid, 0.5)
    assert list(cloud.client.list_custom_jobs(parent="projects/test-project/locations/us-central1")) == []


# --- faults ---


def test_a_preemption_at_a_log_line_starts_the_job_again(cloud: Any, make_job: Make, make_pool: Make) -> None:
    code = "import time\nfor step in range(1, 12):\n    print('step', step, flush=True)\n    time.sleep(0.1)"
    cloud.control.add_fault("preempt", after_log="step 3", match={"display_name": "spot*"})
    name = cloud.create(make_job(make_pool(python(code)), name="spot-1", scheduling={"strategy": "SPOT"}))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED"
    assert cloud.runs(name) == 2
    assert cloud.lines(name, "workerpool0-0").count("step 3") == 2
    assert cloud.lines(name, "workerpool0-0").count("step 11") == 1


def said_by(cloud: Any, name: str, count: int) -> list[str]:
    deadline = time.monotonic() + 20
    while len(said := [line for line in cloud.lines(name) if line.startswith("host")]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return said


def test_maintenance_keeps_the_hostname_and_moves_to_an_empty_directory(
    cloud: Any, make_job: Make, make_pool: Make
) -> None:
    code = "import os, time; print('host', os.environ['HOSTNAME'], os.environ['MASTER_PORT'], os.path.exists('seen'), flush=True)\n"
    code += "open('seen', 'a').close(); time.sleep(600)"
    name = cloud.create(make_job(make_pool(python(code))))
    said_by(cloud, name, 1)
    cloud.control.add_fault("maintenance", match={"job": name.rpartition("/")[2]})
    said = said_by(cloud, name, 2)
    assert said[0] == said[1]
    assert said[0].endswith("False")
    assert cloud.runs(name) == 1


def test_a_lost_node_takes_its_worker_without_a_warning(cloud: Any, make_job: Make, make_pool: Make) -> None:
    name = cloud.create(make_job(make_pool(SLEEP), make_pool(SLEEP)))
    cloud.wait(name, lambda found: found.state == 3)
    cloud.control.add_fault("node_loss", replica="workerpool1-0")
    cloud.wait_event(name, "worker_start", 3)
    assert [event["signal"] for event in cloud.events(name, "worker_kill")] == ["SIGKILL"]
    assert cloud.get(name).state.name == "JOB_STATE_RUNNING"


# --- memory ---

EAT = "import time\nblock = bytearray(120_000_000)\nfor i in range(0, len(block), 4096):\n    block[i] = 1\ntime.sleep(20)"
SHARED = """
import mmap, os, time
block = mmap.mmap(-1, 60_000_000)
for i in range(0, len(block), 4096):
    block[i] = 1
for _ in range(4):
    if os.fork() == 0:
        sum(block[i] for i in range(0, len(block), 4096))
        time.sleep(2)
        os._exit(0)
time.sleep(2)
"""


def test_over_the_memory_of_its_machine_a_replica_is_killed(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(memory_scale=0.008)
    name = cloud.create(make_job(make_pool(python(EAT))))
    found = cloud.wait(name)
    assert (found.state.name, found.error.code) == ("JOB_STATE_FAILED", 8)
    expected = "Replicas low on memory: workerpool0. Specify a machine with larger memory and try again."
    assert found.error.message == expected
    assert cloud.events(name, "worker_exit")[0]["exit_code"] == 137
    assert cloud.runs(name) == 1


def test_shared_pages_are_counted_once(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(memory_scale=0.012)
    found = cloud.wait(cloud.create(make_job(make_pool(python(SHARED)))))
    assert found.state.name == "JOB_STATE_SUCCEEDED", found.error


def test_a_larger_machine_has_a_larger_limit(
    fast_cloud: Callable[..., Any], make_job: Make, make_pool: Make
) -> None:
    cloud = fast_cloud(memory_scale=0.008)
    code = EAT.replace("sleep(20)", "sleep(1)")
    found = cloud.wait(cloud.create(make_job(make_pool(python(code), machine="n1-highmem-16"))))
    assert found.state.name == "JOB_STATE_SUCCEEDED", found.error
