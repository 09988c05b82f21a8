"""The cluster of the rounds: three brokers and a ZooKeeper, or an ensemble of three, on a network that can be cut."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from penstock.admin import ErrorCode, NewTopic, connect
from penstock.core.properties import format_properties
from penstock.local_cluster.settings import BrokerPlace, broker_properties, shared_properties
from penstock.local_cluster.state import ClusterCounts, why_not_in_sync, why_not_ready
from penstock.processes.server_process import ServerProcess
from penstock.processes.zookeeper_process import EnsembleMembership, ZooKeeperProcess, ZooKeeperServer
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from penstock.testing.history import Where
from proof.cluster.disks import Disk
from proof.cluster.network import Network
from proof.cluster.securing import PEERS, secure_peers
from proof.search_path import search_path

Response = TypeVar("Response", bound=Message)

BROKERS = (1, 2, 3)
BROKER_PORT, STORE_PORT, PEER_PORT, ELECTION_PORT = 9092, 2181, 2888, 3888
_SECURE_PORT = 9093
# A follower that is cut off leaves the in-sync set while the fault lasts, and segments end while the load runs. Nothing
# is compacted: each broker does that when it likes, and its files then differ from the others'.
_CONFIG = {
    "log.cleaner.enable": "false",
    "log.segment.bytes": "1048576",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "1048576",
    "replica.lag.time.max.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.state.log.num.partitions": "2",
}
# Of each broker, on one disk: replicas can be moved from one to the other.
_LOG_DIRS = ("one", "two")
# Started again as a user starts it; the other one has a slow disk.
_START = ("-m", "penstock.cli.main", "broker", "start")
_START_SLOW = ("-m", "proof.cluster.slow_broker")
_NAME = "penstock-proof"
_POLL_S = 0.05
_ANSWER_TIMEOUT_S = 2.0
_PATIENCE_S = 30.0
_STOP_TIMEOUT_S = 60.0
# Seven processes start at once, perhaps on a machine that does something else.
_START_TIMEOUT_S = 180.0


class Broker(ServerProcess):
    def __init__(self, place: BrokerPlace, properties: dict[str, str], prefix: Sequence[str], disk: Disk) -> None:
        self.node_id = place.node_id
        self.data_dir = place.data_dir
        self.log_dirs = [place.data_dir / name for name in _LOG_DIRS]
        self.disk = disk
        self.is_paused = False
        self.is_slow = False
        self._prefix = list(prefix)
        self._place = place
        own = {"log.dirs": ",".join(str(directory) for directory in self.log_dirs)}
        place.properties_path.write_text(format_properties({**properties, **own}))
        super().__init__(
            f"broker {place.node_id}",
            [],
            host=place.host,
            port=place.port,
            log_path=place.log_path,
            environment={"PYTHONPATH": search_path()},
        )

    @property
    def member(self) -> str:
        """Its name in the network."""
        return broker_name(self.node_id)

    def spawn(self) -> None:
        self.is_paused = False
        module = _START_SLOW if self.is_slow else _START
        self.command = [*self._prefix, sys.executable, *module, "--config", str(self._place.properties_path)]
        super().spawn()

    def pause(self) -> None:
        self.is_paused = True
        super().pause()

    def resume(self) -> None:
        self.is_paused = False
        if self.is_running:
            super().resume()


def broker_name(node_id: int) -> str:
    return f"b{node_id}"


def store_name(server_id: int) -> str:
    return f"z{server_id}"


class Wiring:
    """Where members are. The loopback network has more to say about ports and listeners than the namespaces do."""

    def __init__(self, network: Network, stores: int) -> None:
        self.network = network
        self.stores = [store_name(number) for number in range(1, stores + 1)]

    def prefix(self, member: str) -> list[str]:
        # Members go when this process is killed, which then cannot stop them.
        dying = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        return [*dying, *self.network.prefix(member)]

    def port(self, member: str) -> int:
        return STORE_PORT if member in self.stores else BROKER_PORT

    def store_members(self) -> list[ZooKeeperServer]:
        return [ZooKeeperServer(self.network.host(name), PEER_PORT, ELECTION_PORT) for name in self.stores]

    def connect(self, _member: str) -> str:
        """`zookeeper.connect` of a broker."""
        return ",".join(f"{self.network.host(name)}:{self.port(name)}" for name in self.stores)

    def listeners(self, member: str, *, is_secured: bool) -> Mapping[str, str]:
        """What a broker's properties say beside its usual listener; `is_secured` where brokers know each other by TLS
        and a login.
        """
        if not is_secured:
            return {}
        host = self.network.host(member)
        return {
            "listeners": f"PLAINTEXT://{host}:{BROKER_PORT},{PEERS}://{host}:{_SECURE_PORT}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{PEERS}:SASL_SSL",
            "inter.broker.listener.name": PEERS,
        }


class FaultCluster:
    def __init__(
        self, directory: Path, wiring: Wiring, make_disk: Callable[[Path], Disk], *, is_secured: bool = False
    ) -> None:
        self.network = wiring.network
        self.zookeeper = [self._make_store(directory, wiring, number) for number in range(1, len(wiring.stores) + 1)]
        shared = shared_properties(len(BROKERS), _CONFIG)
        hosts = {node_id: self.network.host(broker_name(node_id)) for node_id in BROKERS}
        security = secure_peers(directory, hosts) if is_secured else {}
        self.brokers: list[Broker] = []
        for node_id in BROKERS:
            name = broker_name(node_id)
            data_dir = directory / f"broker-{node_id}"
            place = BrokerPlace(node_id, self.network.host(name), wiring.port(name), data_dir)
            disk = make_disk(data_dir)
            properties = {
                **broker_properties(place, shared, wiring.connect(name)),
                **security.get(node_id, {}),
                **wiring.listeners(name, is_secured=is_secured),
            }
            self.brokers.append(Broker(place, properties, wiring.prefix(name), disk))
        for server in (*self.zookeeper, *self.brokers):
            server.start_timeout_s = _START_TIMEOUT_S
        self._admin = connect(
            [(each.host, each.port) for each in self.brokers],
            client_id=_NAME,
            timeout_s=_ANSWER_TIMEOUT_S,
            patience_s=_PATIENCE_S,
        )

    @staticmethod
    def _make_store(directory: Path, wiring: Wiring, number: int) -> ZooKeeperProcess:
        name = store_name(number)
        place = EnsembleMembership(number, wiring.store_members()) if len(wiring.stores) > 1 else None
        host, port = wiring.network.host(name), wiring.port(name)
        store = ZooKeeperProcess(directory / f"zookeeper-{number}", host=host, port=port, place=place)
        store.command = [*wiring.prefix(name), *store.command]
        return store

    def __enter__(self) -> Self:
        try:
            for server in (*self.zookeeper, *self.brokers):
                server.spawn()
            for server in (*self.zookeeper, *self.brokers):
                server.wait_until_ready()
            problem = self.wait_until_ready(60.0)
            if problem:
                raise RuntimeError(problem)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def stop(self) -> None:
        """Cleanly, the controller last. Raises ServerProcessError."""
        controller = self.controller_id()
        for broker in sorted(self.brokers, key=lambda each: each.node_id == controller):
            broker.terminate(_STOP_TIMEOUT_S)
        self.end()

    def end(self) -> None:
        """Ends whatever still runs."""
        self._admin.close()
        for server in (*self.brokers, *self.zookeeper):
            server.kill()
        for broker in self.brokers:
            with contextlib.suppress(OSError):
                broker.disk.free(None)

    def restore(self) -> None:
        """Heals the network, and starts what does not run. Raises ServerProcessError."""
        self.network.heal()
        for server in (*self.zookeeper, *self.brokers):
            if not server.is_running:
                server.start()

    # ---------------------------------------------------------------------------------------- looking

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def node_ids(self) -> Sequence[int]:
        return BROKERS

    def broker(self, node_id: int) -> Broker:
        return self.brokers[BROKERS.index(node_id)]

    def states(self) -> dict[int, ClusterCounts | None]:
        asked = {each.node_id: (each.host, each.port) for each in self.brokers}
        views = self._admin.nodes.views(asked.values()).found
        return {
            node_id: ClusterCounts.of(views[address]) if address in views else None
            for node_id, address in asked.items()
        }

    def controller_id(self) -> int | None:
        states = [state for state in self.states().values() if state is not None]
        return next((state.controller_id for state in states if state.controller_id is not None), None)

    def partitions(self, without: Broker | None = None) -> dict[Where, MetadataResponsePartition]:
        """As the first broker that answers tells them, but for this one."""
        for broker in self.brokers:
            if broker is without:
                continue
            with contextlib.suppress(OSError):
                answer = self.ask(broker.node_id, MetadataRequest(topics=None), MetadataResponse)
                return {
                    (topic.name or "", partition.partition_index): partition
                    for topic in answer.topics
                    for partition in topic.partitions
                }
        return {}

    def ask(self, node_id: int, request: Message, response: type[Response]) -> Response:
        """OSError when no answer comes."""
        broker = self.broker(node_id)
        answer: Response = self._admin.nodes.ask((broker.host, broker.port), request)
        return answer

    def ask_controller(self, request: Message, response: type[Response], timeout_s: float) -> Response:
        controller = self.controller_id()
        broker = self.broker(controller) if controller is not None else self.brokers[0]
        answer: Response = self._admin.nodes.ask((broker.host, broker.port), request, timeout_s=timeout_s)
        return answer

    def wait_until_ready(self, timeout_s: float) -> str:
        """Empty, or what is missing when the time is up."""
        return self._wait(why_not_ready, timeout_s)

    def wait_until_in_sync(self, timeout_s: float) -> str:
        return self._wait(why_not_in_sync, timeout_s)

    def wait_until_away(self, broker: Broker, timeout_s: float) -> str:
        """Until no other broker names this one, which was killed."""

        def judge(states: Mapping[int, ClusterCounts | None]) -> str:
            known = {each: state for each, state in states.items() if state is not None}
            naming = [each for each, state in known.items() if broker.node_id in state.broker_ids]
            return f"broker {broker.node_id} is still there for {naming}" if naming else ""

        return self._wait(judge, timeout_s)

    def _wait(self, judge: Callable[[Mapping[int, ClusterCounts | None]], str], timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while problem := judge(self.states()):
            if time.monotonic() > deadline:
                return problem
            time.sleep(_POLL_S)
        return ""

    # ---------------------------------------------------------------------------------------- doing

    def create_topic(self, name: str, partitions: int, factor: int | None = None) -> None:
        refused = self._admin.create_topics([NewTopic(name, partitions, factor)])
        if name in refused:
            raise refused[name]

    def delete_topic(self, name: str) -> None:
        refused = self._admin.delete_topics([name])
        if name in refused and refused[name].code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise refused[name]
