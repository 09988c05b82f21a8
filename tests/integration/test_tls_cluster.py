"""Three brokers that know each other by certificates alone, and an authority that is replaced under load."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.connection import Connection
from penstock.client.java_settings import translate_client_settings
from penstock.client.security import ClientSecurity, security_settings
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.config.broker_config import BrokerConfig, ConfigError
from penstock.core.loops import LoopThread
from penstock.core.types import TopicPartition
from penstock.pipelines.source.brokers import Brokers
from penstock.processes.server_process import find_free_port
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.private_files import write_private
from penstock.server.broker_server import BrokerServer
from tests.certificates import broker_settings, client_settings, new_directory
from tests.clients.cli_runner import Cli
from tests.clients.support import PATIENCE_S, eventually

BROKERS = (1, 2, 3)


class TlsCluster:
    """Brokers on one loop, with a store in memory, that listen with mutual TLS and nothing else."""

    def __init__(self, path: Path) -> None:
        self.directory = new_directory(path / "certificates", alice=None)
        self._thread = LoopThread("tls-cluster")
        self._tree = MemoryTree()
        self._path = path
        self.servers: list[BrokerServer] = []
        ports = {number: find_free_port() for number in BROKERS}
        self.bootstrap_servers = ",".join(f"localhost:{port}" for port in ports.values())
        starts = [self._thread.begin(self._start(number, ports[number])) for number in BROKERS]
        self.servers = [start.result(PATIENCE_S) for start in starts]

    async def _start(self, number: int, port: int) -> BrokerServer:
        config = {
            "node.id": str(number),
            "log.dirs": str(self._path / f"data-{number}"),
            "listeners": f"SSL://localhost:{port}",
            "inter.broker.listener.name": "SSL",
            "penstock.ssl.crl.location": str(self.directory.revocations),
            **broker_settings(self.directory, client_auth="required"),
        }
        return await BrokerServer.start(BrokerConfig.parse(config), store=MemoryStore(self._tree))

    def look(self, *servers: BrokerServer) -> None:
        """What each broker does every few seconds."""
        for server in servers or self.servers:
            assert server.encryption.reloading is not None
            self._thread.call(server.encryption.reloading.look())

    def connect_each_to_each(self) -> None:
        """Each broker as a client of each, with what it has loaded by now: a handshake, and an answer."""
        for one in self.servers:
            for other in self.servers:
                self._thread.call(self._greet(one.encryption.towards_brokers(), other.port))

    async def _greet(self, security: ClientSecurity, port: int) -> None:
        async with await Connection.open("localhost", port, security=security) as connection:
            answer = await connection.request(ApiVersionsRequest(), 0)
            assert answer.error_code == ErrorCode.NONE

    def reloads(self) -> int:
        return sum(server.broker.metrics.sockets.certificate_reloads for server in self.servers)

    def in_sync(self, topic: str) -> list[int]:
        image = self.servers[0].broker.metadata.image
        return [len(state.isr) for state in image.topics[topic].partitions] if topic in image.topics else []

    def settings(self, **more: str) -> dict[str, Any]:
        own = translate_client_settings(client_settings(self.directory, "alice"))
        return {"bootstrap.servers": self.bootstrap_servers, **own, **more}

    def stop(self) -> None:
        for server in self.servers:
            self._thread.call(server.stop())
        self._thread.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TlsCluster]:
    cluster = TlsCluster(tmp_path)
    try:
        yield cluster
    finally:
        cluster.stop()


class Load:
    """A producer that writes all the time, and a new one for each connection that a test wants to see opened."""

    def __init__(self, cluster: TlsCluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._is_over = threading.Event()
        self.errors: list[str] = []
        self.written = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        producer = confluent_kafka.Producer(self._cluster.settings(acks="all"))
        while not self._is_over.wait(0.01):
            producer.produce(self._topic, b"x", on_delivery=self._delivered)
            producer.poll(0)
        if producer.flush(PATIENCE_S):
            self.errors.append("records are left")

    def _delivered(self, error: object, _: object) -> None:
        self.written += 1
        if error is not None:
            self.errors.append(str(error))

    def wait_for_more(self) -> None:
        written = self.written
        eventually(lambda: self.written > written + 20, "writing goes on")

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def write_once(cluster: TlsCluster, topic: str) -> None:
    """With connections of its own, and the certificates of the moment."""
    failures: list[object] = []
    producer = confluent_kafka.Producer(cluster.settings(acks="all"))
    producer.produce(topic, b"once", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failures == [None]


def test_replicas_are_in_sync_and_nobody_is_refused_when_the_authority_is_replaced(cluster: TlsCluster) -> None:
    topic = "replicated"
    admin = AdminClient(cluster.settings())
    admin.create_topics([NewTopic(topic, 3, len(BROKERS))])[topic].result(PATIENCE_S)
    eventually(lambda: cluster.in_sync(topic) == [3, 3, 3], "all replicas are in sync")
    kept = Brokers(cluster.bootstrap_servers, "spark", security_settings(cluster.settings()))
    assert kept.leader(TopicPartition(topic, 0)).is_open
    load = Load(cluster, topic)
    try:
        for step in (
            cluster.directory.trust_new_authority,
            cluster.directory.renew_all,
            cluster.directory.drop_old_authority,
        ):
            before = cluster.reloads()
            step()
            for server in cluster.servers:  # each at its own time: those behind and those ahead know each other
                cluster.connect_each_to_each()
                cluster.look(server)
            cluster.connect_each_to_each()
            assert cluster.reloads() == before + len(BROKERS)
            write_once(cluster, topic)
            load.wait_for_more()
    finally:
        load.stop()
    assert load.errors == []
    assert cluster.in_sync(topic) == [3, 3, 3]
    assert all(not server.broker.metrics.sockets.certificate_refusals for server in cluster.servers)
    # A worker of Spark that has read its files before the rotation reads them again when it is refused.
    kept.close()
    with pytest.raises(ssl.SSLError):
        kept.leader(TopicPartition(topic, 0))
    assert kept.leader(TopicPartition(topic, 0)).is_open
    kept.close()


def test_nobody_is_refused_when_one_command_replaces_the_authority_under_load(cluster: TlsCluster) -> None:
    """The brokers look more often than every 5 s, so that the command need not wait for long."""
    topic, is_over = "replicated", threading.Event()
    admin = AdminClient(cluster.settings())
    admin.create_topics([NewTopic(topic, 3, len(BROKERS))])[topic].result(PATIENCE_S)
    old = cluster.directory.trusted.read_text()

    def look_again_and_again() -> None:
        while not is_over.wait(0.05):
            cluster.look()

    def connect_again_and_again() -> None:
        while not is_over.wait(0.05):
            write_once(cluster, topic)
            cluster.connect_each_to_each()

    load = Load(cluster, topic)
    with ThreadPoolExecutor() as threads:
        working = [threads.submit(work) for work in (look_again_and_again, connect_again_and_again)]
        try:
            directory = str(cluster.directory.path)
            Cli("").run("certificates", "rotate", "--ca", "--settle", "1.5", "--directory", directory)
            load.wait_for_more()
        finally:
            is_over.set()
            load.stop()
        for each in working:
            each.result(PATIENCE_S)
    assert load.errors == []
    assert all(not server.broker.metrics.sockets.certificate_refusals for server in cluster.servers)
    assert cluster.directory.trusted.read_text() != old
    write_once(cluster, topic)
    cluster.connect_each_to_each()


def test_certificate_in_use_stays_when_the_new_one_cannot_be_used(cluster: TlsCluster) -> None:
    directory: CertificateDirectory = cluster.directory
    file = directory.file("broker")
    good = file.read_bytes()
    write_private(file, good[: len(good) // 2])  # at once: the brokers look by themselves, too
    cluster.look()
    cluster.look()  # the same file is not tried again
    assert [server.broker.metrics.sockets.certificate_refusals for server in cluster.servers] == [1, 1, 1]
    write_once(cluster, "still-served")
    write_private(file, good)
    cluster.look()
    assert cluster.reloads() == len(BROKERS)


def test_broker_does_not_start_when_others_would_refuse_its_certificate(tmp_path: Path) -> None:
    directory, stranger = new_directory(tmp_path / "a"), new_directory(tmp_path / "b")
    config = {
        **broker_settings(directory),
        "ssl.truststore.location": str(stranger.trusted),
        "listeners": "SSL://localhost:0",
        "log.dirs": str(tmp_path / "data"),
        "inter.broker.listener.name": "SSL",
    }
    thread = LoopThread("start")
    try:
        with pytest.raises(ConfigError, match="brokers would refuse each other"):
            thread.call(BrokerServer.start(BrokerConfig.parse(config), store=MemoryStore(MemoryTree())))
    finally:
        thread.stop()
