"""The two clusters. Everything a cluster needs counts: each broker's process, and ours with its ZooKeeper."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from apache_kafka.cluster import ApacheKafkaCluster
from apache_kafka.node import ApacheKafkaNode
from bench.contenders import APACHE_KAFKA, PENSTOCK, SETTINGS
from bench.errors import BenchError
from bench.wire import RawConnection, compact_bytes, frame, unsigned_varint
from penstock.admin import connect
from penstock.local_cluster.settings import BrokerPlace, broker_properties, shared_properties
from penstock.testing.processes import BrokerProcess, ServerProcess, ZooKeeperProcess, find_free_port

NODE_IDS = (1, 2, 3)
KAFKA_HEAP_MB = 512
STOP_PATIENCE_S = 120.0
_ANSWER_TIMEOUT_S = 2.0

# Ours asks ZooKeeper for 2 s. A node of Kafka says three times within its session that it is there, as ours does.
SHORT_SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "650"}


class BrokerCluster:
    """Brokers by their ids, and what they need beside them. The block of a cluster ends with a kill: nobody reads its
    data again.
    """

    def __init__(
        self,
        name: str,
        brokers: Mapping[int, ServerProcess],
        store: ServerProcess | None,
        find_controller: Callable[[ServerProcess], int],
    ) -> None:
        self.name = name
        self.brokers = brokers
        self.store = store
        self._find_controller = find_controller

    @property
    def servers(self) -> list[ServerProcess]:
        """All that run."""
        return [each for each in (self.store, *self.brokers.values()) if each is not None and each.is_running]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def is_running(self) -> bool:
        return all(broker.is_running for broker in self.brokers.values())

    def controller_id(self) -> int:
        return self._find_controller(next(broker for broker in self.brokers.values() if broker.is_running))

    def prepare(self) -> None:
        """What an operator does once, before the first start."""
        for broker in self.brokers.values():
            if isinstance(broker, ApacheKafkaNode):
                broker.format()

    def spawn(self) -> None:
        """All at once, without waiting."""
        for server in (self.store, *self.brokers.values()):
            if server is not None:
                server.spawn()

    def wait_until_ready(self) -> None:
        for server in self.servers:
            server.wait_until_ready()

    def stop(self) -> None:
        """Cleanly and together, as when a machine is shut down; the store last. One that hangs is killed: nodes of
        Kafka wait for a quorum that has gone before them.
        """
        brokers = [broker for broker in self.brokers.values() if broker.is_running]
        for broker in brokers:
            broker.process.send_signal(signal.SIGTERM)
        with ExitStack() as stack:
            for broker in brokers:
                stack.callback(broker.kill)  # also says that the end was asked for
                broker.process.wait(STOP_PATIENCE_S)
        if self.store is not None:
            self.store.terminate()

    def describe(self, what: str) -> str:
        return "\n\n".join(broker.describe(what) for broker in self.brokers.values())

    def __enter__(self) -> Self:
        self.prepare()
        try:
            self.spawn()
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        for server in (*self.brokers.values(), self.store):
            if server is not None:
                server.kill()


class MakeCluster(Protocol):
    """A cluster that is not yet started."""

    def __call__(self, directory: Path, config: Mapping[str, str] = {}) -> BrokerCluster: ...


@dataclass(frozen=True, slots=True)
class ClusterContender:
    name: str
    make: MakeCluster
    has_equal_session: bool  # without being told


def _make_penstock(directory: Path, config: Mapping[str, str] = {}) -> BrokerCluster:
    """With the settings of `penstock cluster start`, and with bytecode, as an installed package has it."""
    zookeeper = ZooKeeperProcess(directory / "zookeeper")
    shared = shared_properties(len(NODE_IDS), {**SETTINGS, **config})
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory.parent / "bytecode")}
    brokers = {}
    for node_id in NODE_IDS:
        place = BrokerPlace(node_id, "127.0.0.1", find_free_port(), directory / f"broker-{node_id}")
        properties = broker_properties(place, shared, zookeeper.connect)
        own = {key: value for key, value in properties.items() if key not in ("listeners", "log.dirs")}
        brokers[node_id] = BrokerProcess(place.data_dir, port=place.port, config=own, environment=bytecode)
    return BrokerCluster(PENSTOCK.name, brokers, zookeeper, _named_controller)


def _make_apache_kafka(directory: Path, config: Mapping[str, str] = {}) -> BrokerCluster:
    """Each node is broker and controller, and has half of the usual heap: three share the machine."""
    nodes = ApacheKafkaCluster(directory, config={**SETTINGS, **config}, heap_mb=KAFKA_HEAP_MB).nodes
    return BrokerCluster(APACHE_KAFKA.name, dict(zip(NODE_IDS, nodes, strict=True)), None, _leader_of_quorum)


OURS = ClusterContender(PENSTOCK.name, _make_penstock, has_equal_session=True)
THEIRS = ClusterContender(APACHE_KAFKA.name, _make_apache_kafka, has_equal_session=False)
CLUSTERS = (OURS, THEIRS)


def warm_up(contender: ClusterContender, directory: Path) -> None:
    """A start that does not count: it writes the bytecode, and brings what both read into the page cache."""
    with contender.make(directory):
        pass
    shutil.rmtree(directory, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ who the controller is


def _named_controller(broker: ServerProcess) -> int:
    address = broker.host, broker.port
    with connect([address], timeout_s=_ANSWER_TIMEOUT_S) as admin:
        view = admin.nodes.views([address]).found.get(address)
    if view is None or view.controller_id is None:
        raise BenchError(f"{broker.name} names no controller")
    return view.controller_id


_DESCRIBE_QUORUM, _DESCRIBE_QUORUM_VERSION = 55, 0
_METADATA_LOG = compact_bytes(b"__cluster_metadata")


def _leader_of_quorum(broker: ServerProcess) -> int:
    """In metadata Kafka names any broker as the controller; the leader of the metadata's log is the true one."""
    topics = unsigned_varint(2) + _METADATA_LOG + unsigned_varint(2) + bytes(4) + b"\x00" + b"\x00"
    with RawConnection(broker.host, broker.port) as connection:
        answer = connection.exchange(frame(_DESCRIBE_QUORUM, _DESCRIBE_QUORUM_VERSION, topics + b"\x00"))
    # After correlation id, header tags, error, topic count, name, partition count, partition index and its error.
    position = 4 + 1 + 2 + 1 + len(_METADATA_LOG) + 1 + 4 + 2
    return int.from_bytes(answer[position : position + 4], "big", signed=True)
