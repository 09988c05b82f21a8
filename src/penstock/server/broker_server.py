"""The composition root: from a configuration to a broker that answers, and back to closed files."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import random
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.apis import APIS
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Dispatcher
from penstock.broker.following import Following
from penstock.broker.metadata_answers import MetadataAnswers
from penstock.broker.peers.asking import Ask
from penstock.broker.slices import Slices
from penstock.broker.upkeep.housekeeping import Housekeeping
from penstock.cluster.decisions.topics import Choices
from penstock.cluster.levels import SUPPORTED, LevelRange
from penstock.cluster.metadata import Disks, Metadata
from penstock.cluster.store.interface import Store
from penstock.core.clock import Clock, SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.types import new_topic_id
from penstock.log.compaction.worker.process import CleanerProcess, find_command
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.formats.metadata_files import UNKNOWN_BROKER_EPOCH
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from penstock.server.assembling import Surroundings, assemble, introduce
from penstock.server.disks import examine_disks, read_clean_epoch
from penstock.server.monitoring.gauges import register_cleaner_gauges, register_gauges
from penstock.server.monitoring.health import Health, examine
from penstock.server.net.listener import KERNEL_TUNING, ConnectionLimits, TcpListener
from penstock.server.stores import open_store

if TYPE_CHECKING:  # a broker that is alone does without
    from penstock.broker.neighbours import Neighbours, Wires

logger = logging.getLogger("penstock.server")


class BrokerServer:
    """Start with `BrokerServer.start`, end with `stop`."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        listeners: Sequence[TcpListener],
        housekeeping: Housekeeping,
        neighbours: Neighbours | None,
    ) -> None:
        self.broker = broker
        self.dispatcher = Dispatcher(broker, APIS, broker.metrics.requests, broker.slices)
        self._neighbours = neighbours
        broker.handle_forwarded = self.dispatcher.handle_forwarded
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
        levels: LevelRange = SUPPORTED,
    ) -> BrokerServer:
        """With `is_temporary` the metadata stays in memory, because nobody will open the data again. A `store` is used
        instead of the one that the configuration names, and closed with the broker.
        """
        cleaner = _find_cleaner() if files is None else None
        is_alone = store is None and not config.zookeeper.zookeeper_connect
        surroundings = Surroundings(
            clock or SystemClock(),
            files or Files(),
            random.SystemRandom(),
            cleaner=cleaner,
            wires=None if is_alone else _wires(),
            levels=levels,
        )
        for warning in config.warnings:
            logger.warning("%s", warning)
        metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
        listeners = await _bind(config, metrics, surroundings.clock)
        try:
            store = store or await open_store(config, is_temporary, metrics.store)
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
        ask: Ask | None = None,
    ) -> BrokerServer:
        """Everything but the sockets and the chores: logs loaded, coordinators loading. `ask` is how coordinators reach
        other brokers, where not by the wires.
        """
        choices = Choices(surroundings.chance, lambda: new_topic_id(surroundings.chance.randbytes))
        metadata = await Metadata.load(
            store, config, choices=choices, levels=surroundings.levels, metrics=metrics.controller
        )
        # Opening the logs takes the marks away.
        closed_at = read_clean_epoch(config.log_directories, surroundings.files)
        directories = _open_logs(config, metadata, surroundings.clock, surroundings.files)
        found = examine_disks(directories, metadata.image, config.identity.node_id)
        try:
            await _join(metadata, store, listeners, closed_at, found.disks, surroundings.clock)
        except BaseException:
            # Nothing was written to the logs: they are as clean as they were.
            for directory in directories.directories.values():
                directory.give_back()
            directories.close(clean=closed_at is not None, epoch=closed_at or UNKNOWN_BROKER_EPOCH)
            raise
        try:
            slices = Slices(surroundings.stopwatch.passed)
            wires = surroundings.wires
            answers = MetadataAnswers()
            neighbours = None
            if wires is not None:
                from penstock.broker.neighbours import Neighbours

                neighbours = Neighbours(metadata, wires, surroundings.chance, slices, suspected=answers.forget)
                ask = ask or neighbours.peers.ask
            broker = assemble(metadata, directories, metrics, surroundings, slices, ask)
            broker.metadata_answers = answers
            broker.partitions.has_lost_directory = found.has_lost_directory
            if neighbours is not None:
                introduce(broker, neighbours)
            housekeeping = Housekeeping(broker, surroundings.stopwatch, surroundings.cleaner)
            server = cls(broker, store, listeners, housekeeping, neighbours)
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
        if self._neighbours is not None:
            from penstock.server.monitoring.cluster_gauges import register_cluster_gauges

            register_cluster_gauges(broker, self._neighbours, self._store)
        register_cleaner_gauges(broker, self.housekeeping.compaction)
        Following(broker, self._limit_connections, self._neighbours).start()
        broker.moves.resume()

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
        await self._hand_over()
        await self.housekeeping.stop()
        await self.broker.moves.close()
        for listener in self._listeners:
            await listener.close()
        await self.broker.topic_creation.close()
        if self._neighbours is not None:
            await self._neighbours.close()
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

    async def _hand_over(self) -> None:
        """What this broker leads moves to others while it still serves, so that no client meets a closed port."""
        settings = self.broker.config.shutdown
        if self._neighbours is None or not settings.controlled_shutdown_enable:
            return
        tries = settings.controlled_shutdown_max_retries
        if not await self._neighbours.request_shutdown(tries * settings.controlled_shutdown_retry_backoff_ms / 1000):
            logger.warning("stopping although not everything that this broker leads could move to others")
        await self.broker.metadata.leave()


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


def _wires() -> Wires:
    """Loaded where there may be others: a broker that is alone starts some 20 ms sooner without."""
    from penstock.broker.neighbours import Wires
    from penstock.broker.peers.connecting import connect_by_tcp
    from penstock.broker.peers.failure_detection import probe_by_tcp

    return Wires(connect_by_tcp, probe_by_tcp)


# ZooKeeper rounds the end of a session up to its next tick, which is 3 s where nobody chose another.
_SESSION_ENDS_LATE_S = 3.0


async def _join(
    metadata: Metadata,
    store: Store,
    listeners: Sequence[TcpListener],
    closed_at: int | None,
    disks: Disks,
    clock: Clock,
) -> None:
    """The logs are open by now: a broker that has joined is asked to lead."""
    ports = {each.name: each.port for each in listeners}
    endpoints = metadata.config.advertised_endpoints(ports, socket.gethostname())
    takeover_s = store.session_timeout_s + _SESSION_ENDS_LATE_S if math.isfinite(store.session_timeout_s) else 0.0
    await metadata.join(endpoints, clock, previous_epoch=closed_at, takeover_s=takeover_s, disks=disks)


def _open_logs(config: BrokerConfig, metadata: Metadata, clock: Clock, files: Files) -> LogDirectories:
    return LogDirectories.open(
        [Path(path) for path in config.log_directories],
        node_id=config.identity.node_id,
        cluster_id=metadata.image.cluster_id,
        settings_for=functools.cache(metadata.log_settings),  # the partitions of a topic share one object
        clock=clock,
        files=files,
    )


async def _abandon(listeners: Sequence[TcpListener], store: Store | None) -> None:
    for listener in listeners:
        await listener.close()
    if store is not None:
        await store.close()
