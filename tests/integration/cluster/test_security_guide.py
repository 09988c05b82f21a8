"""A running cluster becomes a secure one, as docs/guides/security.md says, while a user's program writes and reads.

Commands and settings are taken from the guide, in their order. What is changed: all machines are this one, so that
hosts and ports are others; directories; `ssh` and `scp` are scripts that restart and copy here; and passwords stand
where the guide tells to put them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from penstock.client.java_settings import translate_client_settings
from penstock.core.properties import format_properties, parse_properties, read_properties
from penstock.processes.server_process import ServerProcess
from penstock.testing.processes import ZooKeeperProcess, find_free_port
from tests.clients.cli_runner import Cli
from tests.guides.blocks import find_section, read_blocks
from tests.integration.cluster.application import Application
from tests.integration.zookeeper import own_connect

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "security.md"
PATIENCE_S = 120.0
TOPIC, GROUP = "orders", "billing"
NUMBERS = (1, 2, 3)
PLAIN, SECURE = "9092", "9093"
# As `On three machines` in docs/guides/clusters.md has them, with less to wait for.
BEFORE = {
    "zookeeper.session.timeout.ms": "2000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
}
SCP = """#!/bin/sh
exec cp "$1" "{root}/$(echo "$2" | tr -d :)"
"""
SSH = """#!/bin/sh
echo "$1" > "{root}/restart.new" && exec mv "{root}/restart.new" "{root}/restart"
"""


def guide_blocks() -> Iterator[tuple[str, str]]:
    """The language and the text of each block of the section."""
    for block in read_blocks(find_section(GUIDE.read_text(), "Turn security on in a running cluster")):
        yield block.language, block.text


class Machines:
    """Three brokers on this machine, each with files of its own, and a place from which they are administered."""

    def __init__(self, root: Path, connect: str, stack: ExitStack) -> None:
        self.root = root
        self._ports = {(number, port): find_free_port() for number in NUMBERS for port in (PLAIN, SECURE)}
        self._scripts = root / "bin"
        self._scripts.mkdir()
        for name, text in (("scp", SCP), ("ssh", SSH)):
            script = self._scripts / name
            script.write_text(text.format(root=root))
            script.chmod(0o700)
        self._is_over = threading.Event()
        self._restarter = threading.Thread(target=self._restart_on_demand)
        self.brokers = {number: self._make_broker(number, connect) for number in NUMBERS}
        stack.callback(self._end)
        for broker in self.brokers.values():
            broker.spawn()
        for broker in self.brokers.values():
            broker.wait_until_ready()
        self._restarter.start()

    def servers(self, port: str) -> str:
        return ",".join(f"127.0.0.1:{self._ports[number, port]}" for number in NUMBERS)

    # ------------------------------------------------------------------------------------ brokers

    def _make_broker(self, number: int, connect: str) -> ServerProcess:
        own = {
            "broker.id": str(number),
            "zookeeper.connect": connect,
            "log.dirs": str(self._directory(number) / "data"),
            "listeners": self.localize("PLAINTEXT://0.0.0.0:9092", number),
            **BEFORE,
        }
        file = self._properties_file(number)
        file.parent.mkdir(parents=True)
        file.write_text(format_properties(own))
        command = [sys.executable, "-m", "penstock.cli.main", "broker", "start", "--config", str(file)]
        log = self.root / f"kafka{number}.log"
        return ServerProcess(f"broker {number}", command, port=self._ports[number, PLAIN], log_path=log)

    def _directory(self, number: int) -> Path:
        return self.root / f"kafka{number}"

    def _properties_file(self, number: int) -> Path:
        return self._directory(number) / "etc" / "penstock" / "server.properties"

    def configure(self, settings: str) -> None:
        """On each machine, as the guide tells for the first."""
        for number in NUMBERS:
            text = self.localize(settings.replace("kafka1", f"kafka{number}"), number)
            file = self._properties_file(number)
            properties = read_properties(file) | parse_properties(text)
            file.write_text(format_properties(properties))
            if "PLAINTEXT" not in properties["listeners"]:
                self.brokers[number].port = self._ports[number, SECURE]

    def _restart_on_demand(self) -> None:
        """What systemd does on a machine."""
        asked = self.root / "restart"
        while not self._is_over.wait(0.01):
            if asked.exists():
                number = int(asked.read_text())
                asked.unlink()
                self.brokers[number].terminate()
                self.brokers[number].spawn()

    def _end(self) -> None:
        self._is_over.set()
        if self._restarter.is_alive():
            self._restarter.join(PATIENCE_S)
        for broker in self.brokers.values():
            broker.kill()

    # ------------------------------------------------------------------------------------ commands

    def localize(self, text: str, number: int | None = None) -> str:
        """What the guide says, for machines that are all here."""

        def address(match: re.Match[str]) -> str:
            broker = int(match[1]) if match[1] else number
            assert broker is not None, match[0]
            return f"127.0.0.1:{self._ports[broker, match[2]]}"

        text = re.sub(r"(?:kafka(\d)|0\.0\.0\.0):(9092|9093)", address, text)
        text = re.sub(r"--host kafka\d", "--host 127.0.0.1", text)
        text = text.replace("ssh {host}", f"{self._scripts / 'ssh'} {{id}}")
        if number is not None:
            text = text.replace("/etc/penstock", str(self._directory(number) / "etc" / "penstock"))
        return re.sub(r"THE CONTENT OF (\S+\.password)", lambda match: (self.root / match[1]).read_text().strip(), text)

    def run(self, commands: str) -> str:
        """Ours within this process, the others by a shell; what they have said last."""
        said = ""
        for line in self.localize(commands).replace("\\\n", " ").strip().splitlines():
            if line.startswith("penstock "):
                said = Cli("").run(*shlex.split(line)[1:]).text
            else:
                path = f"{self._scripts}:{os.environ['PATH']}"
                subprocess.run(["/bin/sh", "-ec", line], check=True, env={**os.environ, "PATH": path}, timeout=60)
        return said


@pytest.fixture
def machines(tmp_path: Path, zookeeper: ZooKeeperProcess) -> Iterator[Machines]:
    with ExitStack() as stack:
        stack.enter_context(contextlib.chdir(tmp_path))  # where the administrator works
        yield Machines(tmp_path, own_connect(zookeeper), stack)


def client_file(machines: Machines, settings: str, user: str) -> Path:
    file = machines.root / f"{user}.properties"
    file.write_text(machines.localize(settings.replace("shop", user)))
    return file


def confluent_settings(file: Path) -> dict[str, Any]:
    return dict(translate_client_settings(read_properties(file)))


def is_refused(settings: dict[str, Any], timeout_s: float = 3.0) -> bool:
    try:
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=timeout_s)
    except confluent_kafka.KafkaException:
        return True
    return False


def test_application_hears_of_nothing_when_security_is_turned_on_as_the_guide_says(machines: Machines) -> None:
    kinds, texts = zip(*guide_blocks(), strict=True)
    assert " ".join(kinds) == "sh sh sh properties sh sh properties sh properties sh properties sh"
    level, certificates, users, listeners, restart, rights = texts[:6]
    among_brokers, restart_again, client, explain, alone, restart_alone = texts[6:]
    plain = machines.servers(PLAIN)
    Cli(plain).run("topics", "create", TOPIC, "--partitions", "6", "--replication-factor", "3")

    with Application(plain, TOPIC, group=GROUP, name="plain-") as before:
        machines.run(level)
        machines.run(certificates)
        machines.run(users)
        machines.configure(listeners)
        machines.run(restart)
        machines.run(rights)
        machines.configure(among_brokers)
        machines.run(restart_again)
    assert before.errors == []
    assert set(before.sent) <= set(before.received)
    assert len(before.sent) > 100

    shop, admin = (confluent_settings(client_file(machines, client, user)) for user in ("shop", "admin"))
    with Application("", TOPIC, shop, group=GROUP, name="secure-") as after:
        assert "may Write" in machines.run(explain)
        machines.configure(alone)
        machines.run(restart_alone)
    assert after.errors == []
    assert set(after.sent) <= set(after.received)
    assert len(after.sent) > 100

    assert is_refused({"bootstrap.servers": plain})
    assert is_refused({"bootstrap.servers": machines.servers(SECURE)})  # plain bytes on the secure port
    assert is_refused({**shop, "sasl.password": "guess"})
    assert not is_refused(admin, 20.0)
    status = Cli("").run("cluster", "status", "--json", "--command-config", "admin.properties").json
    assert status["healthy"], status
    assert len(status["brokers"]) == len(NUMBERS)
    # What is left to do, and nothing else.
    log = machines.brokers[1].read_log()
    assert "everybody who reaches ZooKeeper reads the users' credentials" in log
    assert "Traceback" not in log
