"""The guide's three machines, made as docs/guides/clusters.md says, with network namespaces as the machines.

Commands and property files are taken from the guide. What is changed: the directories, and in the places that the guide
names, the number and the name of the machine.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.admin import connect
from penstock.processes.server_process import ServerProcess
from penstock.processes.zookeeper_jars import ZooKeeperMissingError, find_class_path, find_java
from proof.cluster.network import Namespaces, can_make_namespaces
from tests.guides.blocks import find_section, read_blocks
from tests.servers import give_up_without

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "clusters.md"
MACHINES = ("kafka1", "kafka2", "kafka3")
PATIENCE_S = 60
# A machine of its own for names, too: the hosts file is seen by this process and its children alone.
WITH_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'


def guide_blocks() -> list[str]:
    """The commands and files under "On three machines", in their order."""
    return [block.text.strip() for block in read_blocks(find_section(GUIDE.read_text(), "On three machines"))]


class Machines:
    """The namespaces, and how the guide's commands are run in them."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._network = Namespaces(MACHINES)
        stack.callback(self._network.close)
        self._hosts = directory / "hosts"
        self._hosts.write_text("".join(f"{self._network.host(name)} {name}\n" for name in MACHINES))

    def localize(self, machine: str, text: str) -> str:
        """Every machine has its own disk."""
        for path in ("/var/lib/penstock", "/etc/penstock"):
            text = text.replace(path, f"{self._directory / machine}{path}")
        return text

    def command(self, machine: str, text: str) -> list[str]:
        program, *arguments = shlex.split(self.localize(machine, text).replace("\\\n", " "))
        assert program == "penstock"
        return [
            *self._network.prefix(machine),
            *("unshare", "--mount", "sh", "-c", WITH_HOSTS, str(self._hosts)),
            *(str(Path(sys.executable).with_name("penstock")), *arguments),
        ]

    def write(self, machine: str, path: str, text: str) -> None:
        file = Path(self.localize(machine, path))
        file.parent.mkdir(parents=True)
        file.write_text(self.localize(machine, text))

    def spawn(self, machine: str, text: str, port: int) -> ServerProcess:
        log_path = self._directory / f"{machine}-{port}.log"
        address = self._network.host(machine)
        server = ServerProcess(machine, self.command(machine, text), host=address, port=port, log_path=log_path)
        self._stack.callback(stop, server)
        server.spawn()
        return server

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        with connect([(self._network.host(MACHINES[0]), 9092)]) as admin:
            return [partition.replicas for partition in admin.topics([topic])[topic].partitions]

    def run(self, machine: str, text: str) -> str:
        done = subprocess.run(self.command(machine, text), check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout


def stop(server: ServerProcess) -> None:
    if server.is_running:
        server.terminate()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    if not can_make_namespaces():
        give_up_without("root with ip and nsenter, for network namespaces,", "broker")
    try:
        find_java()
        find_class_path()
    except ZooKeeperMissingError as error:
        give_up_without(str(error), "broker")
    with ExitStack() as stack:
        yield Machines(tmp_path, stack)


def test_cluster_is_whole_when_three_machines_are_made_as_the_guide_says(machines: Machines) -> None:
    start_zookeeper, properties, start_broker, describe = guide_blocks()
    stores = []
    for number, machine in enumerate(MACHINES, start=1):
        # What differs from machine to machine, as the guide has it.
        own = properties.replace("broker.id=1", f"broker.id={number}")
        own = own.replace("PLAINTEXT://kafka1:9092", f"PLAINTEXT://{machine}:9092")
        own = own.replace("broker.rack=a", f"broker.rack={'abc'[number - 1]}")
        assert number == 1 or own != properties
        machines.write(machine, "/etc/penstock/server.properties", own)
        stores.append(machines.spawn(machine, start_zookeeper.replace("--id 1", f"--id {number}"), 2181))
    for store in stores:
        store.wait_until_ready()
    brokers = [machines.spawn(machine, start_broker, 9092) for machine in MACHINES]
    for broker in brokers:
        broker.wait_until_ready()
    wait_until_whole(machines, describe)
    servers = "--bootstrap-server kafka1:9092,kafka2:9092,kafka3:9092"
    machines.run("kafka3", f"penstock topics create orders --partitions 3 {servers}")
    assert [sorted(replicas) for replicas in machines.replicas("orders")] == 3 * [[1, 2, 3]]
    brokers[0].restart()
    deadline = time.monotonic() + PATIENCE_S
    while machines.run("kafka2", f"penstock topics describe --under-replicated {servers}").strip():
        assert time.monotonic() < deadline
    wait_until_whole(machines, describe)


def wait_until_whole(machines: Machines, describe: str) -> None:
    """All three brokers are listed, one of them as the controller, and no partition lacks anything."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = machines.run("kafka2", describe)
        rows = [line.split() for line in shown.splitlines() if any(f" {name}:9092 " in line for name in MACHINES)]
        are_well = "(0 under-replicated, 0 offline)" in shown
        if len(rows) == len(MACHINES) and [row[-1] for row in rows].count("yes") == 1 and are_well:
            return
        assert time.monotonic() < deadline, shown
