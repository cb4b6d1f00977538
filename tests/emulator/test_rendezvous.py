"""Three replicas that find each other by what the environment says, and add up a number over sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[..., dict[str, Any]]

ALL_REDUCE = """
import json, os, socket, struct, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))

def read(peer):
    data = b""
    while len(data) < 8:
        data += peer.recv(8 - len(data))
    return struct.unpack("d", data)[0]

if rank == 0:
    server = socket.create_server(address)
    peers = [server.accept()[0] for _ in range(size - 1)]
    total = rank + 1 + sum(read(peer) for peer in peers)
    for peer in peers:
        peer.sendall(struct.pack("d", total))
else:
    deadline = time.monotonic() + 30
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    peer.sendall(struct.pack("d", rank + 1))
    total = read(peer)
print("total", total, flush=True)
"""

OWN_ADDRESS = """
import json, os, socket, time
spec = json.loads(os.environ["CLUSTER_SPEC"])
host, _, port = spec["cluster"][spec["task"]["type"]][spec["task"]["index"]].partition(":")
server = socket.create_server((host, int(port)))
print("bound", port, flush=True)
time.sleep(0.5 if spec["task"]["type"] == "workerpool0" else 60)
"""


def test_an_all_reduce_over_three_replicas_succeeds(cloud: Any, make_job: Make, make_pool: Make) -> None:
    command = ["python3", "-c", ALL_REDUCE]
    name = cloud.create(make_job(make_pool(command), make_pool(command, replicas=2)))
    found = cloud.wait(name)
    assert found.state.name == "JOB_STATE_SUCCEEDED", (found.error, cloud.lines(name))
    assert "total 6.0" in cloud.lines(name, "workerpool0-0")


def test_it_works_again_after_a_preemption_on_the_same_ports(
    cloud: Any, make_job: Make, make_pool: Make
) -> None:
    cloud.control.add_fault("preempt", after_log="total")
    late = ["python3", "-c", ALL_REDUCE + "time.sleep(1)"]
    body = make_job(make_pool(late), make_pool(late, replicas=2), scheduling={"strategy": "SPOT"})
    name = cloud.create(body)
    found = cloud.wait(name)
    assert found.state.name == "JOB_STATE_SUCCEEDED", (found.error, cloud.lines(name))
    assert cloud.runs(name) == 2


def test_every_replica_can_bind_its_own_address(cloud: Any, make_job: Make, make_pool: Make) -> None:
    command = ["python3", "-c", OWN_ADDRESS]
    name = cloud.create(make_job(make_pool(command), make_pool(command, replicas=2), make_pool(command)))
    assert cloud.wait(name).state.name == "JOB_STATE_SUCCEEDED", cloud.lines(name)
