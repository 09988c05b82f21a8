"""A ZooKeeper server as a process of its own, alone or as one of an ensemble.

For clusters on one machine, for tests, and for `penstock zookeeper start`. Its tick is short, so that the session of a
broker that was killed ends after two seconds and not after eighteen.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.processes.server_process import ServerGroup, ServerProcess, find_free_port
from penstock.processes.zookeeper_jars import MAIN_CLASS, find_class_path, find_java

# A session ends at a tick, so a short tick ends it soon after its timeout. Shorter ones load idle machines.
TICK_MS = 500
# Two ticks, ZooKeeper's own proportion. Its own upper bound, twenty ticks, would refuse the timeouts of usual clients.
MIN_SESSION_TIMEOUT_MS, MAX_SESSION_TIMEOUT_MS = 1_000, 60_000
# A server has 10 s to join its leader and may lag by 5 s: ZooKeeper's usual numbers, in ticks of 500 ms.
_INIT_TICKS, _SYNC_TICKS = 20, 10
# ZooKeeper's own default. 10,000 partitions take about 20 MB, but 100,000 of one topic filled 256 MB.
_HEAP_MB = 1_024
# Transactions that are kept for servers that lag. ZooKeeper keeps 500, and one of ours can have half a megabyte.
_TRANSACTIONS_KEPT = 100
# One collector and one compiler thread: the server shares the machine with brokers.
_JAVA_OPTIONS = (
    *("-Xms32m", f"-Xmx{_HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    f"-Dzookeeper.commitLogCount={_TRANSACTIONS_KEPT}",
)
# Errors alone: warnings of a start are about options that the cluster does not need. The commands log an error if they
# come before the server is up, as they do here.
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n%ex
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.commands.name = org.apache.zookeeper.server.ServerCnxn
logger.commands.level = off
"""
_ANSWER_TIMEOUT_S = 2.0
# The whole answer to any command before the server serves. Before it has its database, it fails to close the connection
# behind this: a reader that waited for the end would learn two seconds late that the server serves.
_NOT_SERVING = b"not currently serving requests"


class ZooKeeperServer(NamedTuple):
    """One server of an ensemble, as the others see it."""

    host: str
    peer_port: int
    election_port: int


class EnsembleMembership(NamedTuple):
    """The server's number and the members of its ensemble. Servers are counted from 1, in the order of the members."""

    server_id: int
    members: Sequence[ZooKeeperServer]


class ZooKeeperProcess(ServerProcess):
    clean_exit_codes = frozenset({0, 143})  # 128 + SIGTERM: how Java ends at that signal

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        place: EnsembleMembership | None = None,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> None:
        """Raises ZooKeeperMissingError. Without a place it is alone. `settings` are lines for zoo.cfg."""
        self.data_dir = data_dir
        self.place = place or EnsembleMembership(1, ())
        chosen_port = find_free_port(host) if port is None else port
        self.settings = {
            "dataDir": str(data_dir.absolute()),
            "clientPort": str(chosen_port),
            "clientPortAddress": host,
            "tickTime": str(TICK_MS),
            "initLimit": str(_INIT_TICKS),
            "syncLimit": str(_SYNC_TICKS),
            "minSessionTimeout": str(MIN_SESSION_TIMEOUT_MS),
            "maxSessionTimeout": str(MAX_SESSION_TIMEOUT_MS),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,srvr,mntr,conf",
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "1",
            **{
                f"server.{number}": f"{member.host}:{member.peer_port}:{member.election_port}"
                for number, member in enumerate(self.place.members, start=1)
            },
            **(settings or {}),
        }
        super().__init__(
            "ZooKeeper" if place is None else f"ZooKeeper {place.server_id}",
            [
                *(find_java(), *_JAVA_OPTIONS, f"-Dlog4j2.configurationFile={self._logging.absolute()}"),
                *("-cp", find_class_path(), MAIN_CLASS, str(self._configuration.absolute())),
            ],
            port=chosen_port,
            host=host,
            log_path=data_dir.with_name(f"{data_dir.name}.process.log") if log_path is None else log_path,
            environment=environment,
        )

    @property
    def connect(self) -> str:
        """For `zookeeper.connect`."""
        return f"{self.host}:{self.port}"

    @property
    def _configuration(self) -> Path:
        return self.data_dir / "zoo.cfg"

    @property
    def _logging(self) -> Path:
        return self.data_dir / "log4j2.properties"

    def prepare(self) -> None:
        """The data directory with its configuration. Existing files stay, but for the configuration."""
        # Users' credentials are among what the brokers keep there.
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._logging.write_text(_LOGGING)
        self._configuration.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        (self.data_dir / "myid").write_text(f"{self.place.server_id}\n")

    def spawn(self) -> None:
        self.prepare()
        super().spawn()

    def is_ready(self) -> bool:
        """Whether it serves: one of an ensemble accepts connections before it has found the others."""
        return "Mode:" in self.ask("srvr")

    def ask(self, command: str) -> str:
        """The answer to one of ZooKeeper's four-letter commands; empty when there is none."""
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), _ANSWER_TIMEOUT_S) as link:
            link.sendall(command.encode())
            answer = b""
            while _NOT_SERVING not in answer and (chunk := link.recv(65_536)):
                answer += chunk
            return answer.decode(errors="replace")
        return ""


class ZooKeeperEnsemble(ServerGroup):
    """Several servers on this machine, each in a directory of its own below `directory`."""

    def __init__(self, directory: Path, size: int = 3, *, settings: Mapping[str, str] | None = None) -> None:
        taken = iter(_free_ports(3 * size))
        ports = [next(taken) for _ in range(size)]
        members = [ZooKeeperServer("127.0.0.1", next(taken), next(taken)) for _ in range(size)]
        self.servers = [
            ZooKeeperProcess(
                directory / f"zookeeper-{number}",
                port=port,
                place=EnsembleMembership(number, members),
                settings=settings,
            )
            for number, port in enumerate(ports, start=1)
        ]

    @property
    def connect(self) -> str:
        return ",".join(server.connect for server in self.servers)

    def start_all(self, stack: contextlib.ExitStack) -> None:
        for server in self.servers:
            server.spawn()  # none serves before most of them are there
            stack.callback(_stop, server)
        for server in self.servers:
            server.wait_until_ready()


def _stop(server: ZooKeeperProcess) -> None:
    if server.is_running:
        server.terminate()


def _free_ports(count: int) -> list[int]:
    """Different ones: a port that was found free is not taken by that."""
    ports: list[int] = []
    while len(ports) < count:
        port = find_free_port()
        if port not in ports:
            ports.append(port)
    return ports
