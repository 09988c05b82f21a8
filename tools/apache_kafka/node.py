"""A real single-node Apache Kafka (KRaft, broker and controller in one process), with Kafka's defaults."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from apache_kafka.jars import SERVER_HEAP_MB, SERVER_OPTIONS, PeerUnavailableError, java_command
from penstock.testing.processes import ServerProcess, find_free_port

CLUSTER_ID = "cGVuc3RvY2stcGVlci0wMA"
START_TIMEOUT_S = 120.0
# The last line of Kafka's start. Kafka accepts connections before it, and a SIGTERM that comes in between ends the
# process with 143 without closing a log.
STARTED = "Kafka Server started"
POLL_INTERVAL_S = 0.02

# What a single node needs; everything else is left to Kafka's defaults.
SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class ApacheKafkaNode(ServerProcess):
    # The Java runtime ends a program that finished its shutdown hooks with 128 + SIGTERM.
    clean_exit_codes = frozenset({0, 143})

    def __init__(
        self,
        directory: Path,
        *,
        config: Mapping[str, str] | None = None,
        port: int | None = None,
        heap_mb: int = SERVER_HEAP_MB,
        options: Sequence[str] = SERVER_OPTIONS,
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.properties_path = directory / "server.properties"
        self._earlier_log_size = 0
        chosen_port = find_free_port() if port is None else port
        controller_port = find_free_port()
        self.properties = {
            **SINGLE_NODE,
            "listeners": f"PLAINTEXT://127.0.0.1:{chosen_port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{chosen_port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self.data_dir),
            **(config or {}),
        }
        super().__init__(
            "Apache Kafka",
            java_command(
                "kafka.Kafka",
                str(self.properties_path),
                options=(f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", *options),
                logging="server.properties",
            ),
            port=chosen_port,
            log_path=directory / "process.log",
            start_timeout_s=START_TIMEOUT_S,
        )

    def format(self) -> None:
        """Write server.properties and format the data directory; once per directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties_path.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(self.properties_path))
        formatted = subprocess.run(
            java_command("kafka.tools.StorageTool", *arguments),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if formatted.returncode != 0:
            raise PeerUnavailableError(f"kafka-storage format failed:\n{formatted.stdout}\n{formatted.stderr}")

    def spawn(self) -> None:
        if not self.data_dir.exists():
            self.format()
        self._earlier_log_size = len(self.read_log())
        super().spawn()

    def wait_until_ready(self) -> None:
        """Return once a client can connect and SIGTERM stops the node cleanly."""
        super().wait_until_ready()
        deadline = time.monotonic() + START_TIMEOUT_S
        while STARTED not in self.read_log()[self._earlier_log_size :]:
            if not self.is_running or time.monotonic() > deadline:
                raise PeerUnavailableError(self.describe(f"did not log {STARTED!r} within {START_TIMEOUT_S} s"))
            time.sleep(POLL_INTERVAL_S)
