"""The composition root: from a configuration to a broker that answers, and back to closed files."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.broker.apis import APIS
from penstock.broker.authorizer import AllowEverything
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Dispatcher
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.following import Following
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.transaction_markers import MarkerWriter
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.settings import group_settings, transaction_settings
from penstock.broker.slices import Slices
from penstock.broker.topic_creation import TopicCreation
from penstock.broker.upkeep.compaction_pacing import REAL_TIME, Stopwatch
from penstock.broker.upkeep.housekeeping import Housekeeping
from penstock.cluster.decisions.topics import Choices
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.interface import Store
from penstock.core.clock import Clock, SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.types import new_topic_id, new_uuid
from penstock.groups.coordinator import GroupCoordinator
from penstock.log.compaction.worker.process import CleanerProcess, find_command
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.formats import names
from penstock.log.formats.metadata_files import UNKNOWN_BROKER_EPOCH, decode_clean_shutdown
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from penstock.server.monitoring.gauges import register_cleaner_gauges, register_gauges
from penstock.server.monitoring.health import Health, examine
from penstock.server.net.listener import KERNEL_TUNING, ConnectionLimits, TcpListener
from penstock.transactions.coordinator import TransactionCoordinator

logger = logging.getLogger("penstock.server")

METADATA_FILE = "penstock-metadata.db"


class Surroundings(NamedTuple):
    """Time, disk and chance as the broker finds them. A test or the simulation hands over its own."""

    clock: Clock
    files: Files
    chance: random.Random
    stopwatch: Stopwatch = REAL_TIME
    cleaner: CleanerProcess | None = None  # it sees the real disk and the real time alone


class BrokerServer:
    """Start with `BrokerServer.start`, end with `stop`."""

    def __init__(
        self, broker: Broker, store: Store, listeners: Sequence[TcpListener], housekeeping: Housekeeping
    ) -> None:
        self.broker = broker
        self.dispatcher = Dispatcher(broker, APIS, broker.metrics.requests, broker.slices)
        self._store = store
        self._listeners = listeners
        self.housekeeping = housekeeping
        self.is_stopping = False

    # -------------------------------------------------------------------------------------------- starting

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        *,
        is_temporary: bool = False,
        clock: Clock | None = None,
        files: Files | None = None,
        store: Store | None = None,
    ) -> BrokerServer:
        """With `is_temporary` the metadata stays in memory, because nobody will open the data again. A `store` is used
        instead of the one that the configuration names, and closed with the broker.
        """
        cleaner = _find_cleaner() if files is None else None
        surroundings = Surroundings(clock or SystemClock(), files or Files(), random.SystemRandom(), cleaner=cleaner)
        for warning in config.warnings:
            logger.warning("%s", warning)
        metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
        listeners = await _bind(config, metrics, surroundings.clock)
        try:
            store = store or await _open_store(config, is_temporary)
            server = await cls.compose(config, store, surroundings, metrics, listeners)
        except BaseException:
            await _abandon(listeners, store)
            raise
        for listener in listeners:
            await listener.start()
        server.housekeeping.start()
        return server

    @classmethod
    async def compose(
        cls,
        config: BrokerConfig,
        store: Store,
        surroundings: Surroundings,
        metrics: BrokerMetrics,
        listeners: Sequence[TcpListener] = (),
    ) -> BrokerServer:
        """Everything but the sockets and the chores: logs loaded, coordinators loading."""
        choices = Choices(surroundings.chance, lambda: new_topic_id(surroundings.chance.randbytes))
        metadata = await Metadata.load(store, config, choices=choices)
        closed_at = _closed_at(config, surroundings.files)  # opening the logs takes the marks away
        directories = _open_logs(config, metadata, surroundings.clock, surroundings.files)
        try:
            await _join(metadata, listeners, closed_at, surroundings.clock)
        except BaseException:
            # Nothing was written to the logs: they are as clean as they were.
            directories.close(clean=closed_at is not None, epoch=closed_at or UNKNOWN_BROKER_EPOCH)
            raise
        try:
            broker = _assemble(metadata, directories, metrics, surroundings)
            housekeeping = Housekeeping(broker, surroundings.stopwatch, surroundings.cleaner)
            server = cls(broker, store, listeners, housekeeping)
            server._connect()
        except BaseException:
            directories.close(clean=False)
            raise
        return server

    def _connect(self) -> None:
        """Ties the parts that must know of each other: sockets to dispatch, gauges to parts, metadata to the broker."""
        broker = self.broker
        for listener in self._listeners:
            listener.handle_with(self.dispatcher.handle)
        register_gauges(broker, self._listeners)
        register_cleaner_gauges(broker, self.housekeeping.compaction)
        Following(broker, self._limit_connections).start()

    def _limit_connections(self, config: BrokerConfig) -> None:
        for listener in self._listeners:
            listener.limit(_connection_limits(config))

    # -------------------------------------------------------------------------------------------- running

    @property
    def port(self) -> int:
        return self._listeners[0].port

    @property
    def bootstrap_servers(self) -> str:
        registration = self.broker.metadata.image.brokers[self.broker.node_id]
        return ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in registration.endpoints)

    def health(self) -> Health:
        return examine(self.broker, is_stopping=self.is_stopping)

    # -------------------------------------------------------------------------------------------- stopping

    async def stop(self) -> None:
        """Shuts down cleanly: ends all connections, then writes to disk what the next start will trust."""
        if self.is_stopping:
            return
        self.is_stopping = True
        await self.housekeeping.stop()
        for listener in self._listeners:
            await listener.close()
        await self.broker.metadata.close()  # a change under way may still create or delete logs
        await self.broker.transactions.close()
        await self.broker.groups.close()
        await self.broker.flusher.close()
        # In a thread: who asks for health or metrics meanwhile gets an answer.
        await asyncio.to_thread(
            self.broker.directories.close,
            threads_per_directory=_closing_threads(self.broker.config.upkeep.num_recovery_threads_per_data_dir),
            epoch=self.broker.metadata.broker_epoch,
        )
        await self._store.close()


# An fsync waits for the disk, not for a core, and a file system writes its journal once for many that wait at once. So
# each thread that the setting allows is worth several here. A single thread stays single.
_SYNCS_PER_THREAD = 4


def _closing_threads(configured: int) -> int:
    return configured * _SYNCS_PER_THREAD if configured > 1 else 1


def _connection_limits(config: BrokerConfig) -> ConnectionLimits:
    network = config.network
    return ConnectionLimits(
        max_frame_size=network.socket_request_max_bytes,
        max_connections=network.max_connections,
        max_connections_per_address=network.max_connections_per_ip,
        max_idle_ms=network.connections_max_idle_ms,
        send_buffer_size=_if_given(config, "socket.send.buffer.bytes", network.socket_send_buffer_bytes),
        receive_buffer_size=_if_given(config, "socket.receive.buffer.bytes", network.socket_receive_buffer_bytes),
    )


def _find_cleaner() -> CleanerProcess | None:
    """Not started yet: that is for the first log that is worth cleaning."""
    command = find_command()
    if command is None:
        logger.info("compaction will run in a thread: %s is no Python interpreter", sys.executable or "sys.executable")
        return None
    return CleanerProcess(command)


async def _bind(config: BrokerConfig, metrics: BrokerMetrics, clock: Clock) -> list[TcpListener]:
    bounds = _connection_limits(config)
    listeners: list[TcpListener] = []
    for endpoint in config.endpoints:
        listener = TcpListener(endpoint.name, bounds, metrics.sockets, clock)
        try:
            await listener.bind(endpoint.host, endpoint.port)
        except OSError as error:
            await _abandon(listeners, None)
            raise OSError(error.errno, f"cannot listen on {endpoint}: {error.strerror or error}") from error
        listeners.append(listener)
    return listeners


def _if_given(config: BrokerConfig, name: str, size: int) -> int:
    """Kafka's default of 100 KB slows fast networks down. Unless the owner of the broker gave a size, the kernel's own
    tuning is used.
    """
    return size if name in config.static else KERNEL_TUNING


async def _open_store(config: BrokerConfig, is_temporary: bool) -> Store:
    if is_temporary:
        from penstock.cluster.store.memory import MemoryStore

        return MemoryStore()
    if config.zookeeper.zookeeper_connect:
        from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
        from penstock.cluster.store.zookeeper.store import ZooKeeperStore

        return await ZooKeeperStore.open(ZooKeeperSettings.of(config.zookeeper))
    from penstock.cluster.store.sqlite import SqliteStore

    return await SqliteStore.open(_metadata_path(config))


def _metadata_path(config: BrokerConfig) -> Path:
    directory = Path(config.log_directories[0])
    directory.mkdir(parents=True, exist_ok=True)
    return directory / METADATA_FILE


def _closed_at(config: BrokerConfig, files: Files) -> int | None:
    """The broker's epoch in the marks of a clean shutdown. None where a data directory has no mark, or another one."""
    epochs = set()
    for path in config.log_directories:
        try:
            epochs.add(decode_clean_shutdown(files.read_file(Path(path) / names.CLEAN_SHUTDOWN)))
        except OSError:
            return None
    return epochs.pop() if len(epochs) == 1 else None


async def _join(metadata: Metadata, listeners: Sequence[TcpListener], closed_at: int | None, clock: Clock) -> None:
    """The logs are open by now: a broker that has joined is asked to lead."""
    ports = {each.name: each.port for each in listeners}
    endpoints = metadata.config.advertised_endpoints(ports, socket.gethostname())
    await metadata.join(endpoints, clock, previous_epoch=closed_at, takeover_s=_takeover_s(metadata.config))


def _takeover_s(config: BrokerConfig) -> float:
    """A broker that was killed and starts again finds itself registered until ZooKeeper ends its old session. That
    takes the timeout and a tick, and a server may stretch short timeouts.
    """
    if not config.zookeeper.zookeeper_connect:
        return 0.0
    return 2 * config.zookeeper.zookeeper_session_timeout_ms / 1000 + _LONGEST_MIN_SESSION_S


# A server with ZooKeeper's own default of 3 s for a tick gives no session less than two ticks.
_LONGEST_MIN_SESSION_S = 6.0


def _open_logs(config: BrokerConfig, metadata: Metadata, clock: Clock, files: Files) -> LogDirectories:
    return LogDirectories.open(
        [Path(path) for path in config.log_directories],
        node_id=config.identity.node_id,
        cluster_id=metadata.image.cluster_id,
        settings_for=functools.cache(metadata.log_settings),  # the partitions of a topic share one object
        clock=clock,
        files=files,
    )


def _assemble(
    metadata: Metadata, directories: LogDirectories, metrics: BrokerMetrics, surroundings: Surroundings
) -> Broker:
    config, clock, chance = metadata.config, surroundings.clock, surroundings.chance
    partitions = Partitions(config.identity.node_id, directories, metadata.topic_settings, metrics.topics, clock)
    flusher = Flusher(metrics.logs, clock, surroundings.stopwatch.passed)
    producer_ids = ProducerIds(metadata.allocate_producer_id_block)
    slices = Slices(surroundings.stopwatch.passed)
    groups = GroupRuntime(
        GroupCoordinator(
            group_settings(config.groups),
            config.offsets_topic.offsets_topic_num_partitions,
            lambda: new_uuid(chance.randbytes),
        ),
        partitions,
        flusher,
        clock,
        metrics.groups,
        slices,
    )
    transactions = TransactionRuntime(
        TransactionCoordinator(
            transaction_settings(config.transactions),
            config.transaction_topic.transaction_state_log_num_partitions,
            producer_ids.take,
        ),
        partitions,
        MarkerWriter(
            partitions, lambda topic_partition: metadata.image.partition(*topic_partition) is not None, groups, clock
        ),
        flusher,
        clock,
        slices,
    )
    return Broker(
        node_id=config.identity.node_id,
        config=config,
        clock=clock,
        metrics=metrics,
        authorizer=AllowEverything(),
        served_versions=[api.served_versions for api in APIS.values()],
        slices=slices,
        metadata=metadata,
        directories=directories,
        partitions=partitions,
        flusher=flusher,
        fetch_sessions=FetchSessions(
            config.requests.max_incremental_fetch_session_cache_slots,
            _FETCH_SESSION_EVICTION_MS,
            metrics.purgatory,
            chance,
        ),
        producer_ids=producer_ids,
        groups=groups,
        transactions=transactions,
        topic_creation=TopicCreation(metadata),
    )


# A session nobody used for this long makes room for a new one. Kafka's number; not configurable there either.
_FETCH_SESSION_EVICTION_MS = 120_000


async def _abandon(listeners: Sequence[TcpListener], store: Store | None) -> None:
    for listener in listeners:
        await listener.close()
    if store is not None:
        await store.close()
