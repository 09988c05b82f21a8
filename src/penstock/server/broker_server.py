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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.apis import APIS
from penstock.broker.broker import Broker
from penstock.broker.dispatch import ApiTable, Dispatcher
from penstock.broker.image_applier import ImageApplier
from penstock.broker.metadata_answers import MetadataAnswers
from penstock.broker.peers.peer_requests import Ask, no_peers
from penstock.broker.slices import Slices
from penstock.broker.upkeep.housekeeping import Housekeeping
from penstock.client.security import ClientSecurity
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
from penstock.log.storage.open_files import MAX_OPEN_FILES
from penstock.protocol.errors import ErrorCode
from penstock.security.audit.events import NO_AUDIT
from penstock.server.assembly import Surroundings, assemble, introduce, make_logins
from penstock.server.descriptors import own_shares
from penstock.server.disks import examine_disks, read_clean_epoch
from penstock.server.encryption import Encryption
from penstock.server.limits import Limiting, backlog_bounds, connection_bounds, connection_limits
from penstock.server.monitoring.gauges import register_cleaner_gauges, register_gauges
from penstock.server.monitoring.health import Health, examine
from penstock.server.net.admission import Admission
from penstock.server.net.backlog import Backlog
from penstock.server.net.listener import TcpListener
from penstock.server.stores import open_store, read_owner

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.auditing.trail import AuditTrail
    from penstock.broker.cluster_links import ClusterLinks, Wires
    from penstock.broker.login.gate import LoginGate

logger = logging.getLogger("penstock.server")


class BrokerServer:
    """Start with `BrokerServer.start`, end with `stop`."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        listeners: Sequence[TcpListener],
        housekeeping: Housekeeping,
        cluster_links: ClusterLinks | None,
    ) -> None:
        self.broker = broker
        self.dispatcher = Dispatcher(broker, _served(broker), broker.metrics.requests, broker.slices)
        self._cluster_links = cluster_links
        broker.handle_forwarded = self.dispatcher.handle_forwarded
        self._store = store
        self._listeners = listeners
        self.limiting = Limiting(broker, self.dispatcher, listeners)
        self.housekeeping = housekeeping
        self.encryption = Encryption(())
        self.is_stopping = False
        self._trail: AuditTrail | None = None

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
        encryption = await Encryption.load(config, is_alone=is_alone)
        surroundings = Surroundings(
            clock or SystemClock(),
            files or Files(),
            random.SystemRandom(),
            cleaner=cleaner,
            wires=None if is_alone else _wires(config, encryption),
            levels=levels,
        )
        for warning in config.warnings:
            logger.warning("%s", warning)
        metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
        listeners = await _bind(config, metrics, surroundings.clock, encryption)
        try:
            store = store or await open_store(config, is_temporary, metrics.store)
            server = await cls.compose(config, store, surroundings, metrics, listeners)
        except BaseException:
            await _abandon(listeners, store)
            raise
        server.encryption = encryption
        encryption.start(lambda: server.broker.config, metrics, surroundings.clock, server.broker.auditor)
        server.broker.check_settings = encryption.check
        for listener in reversed(listeners):  # whoever reaches the first one finds the others
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
        owner = read_owner(config.log_directories, surroundings.files)
        metadata = await Metadata.load(
            store, config, choices=choices, levels=surroundings.levels, metrics=metrics.controller, owner=owner
        )
        logins = await make_logins(metadata, store, metrics, surroundings)
        # Opening the logs takes the marks away.
        closed_at = read_clean_epoch(config.log_directories, surroundings.files)
        directories = _open_logs(config, metadata, surroundings.clock, surroundings.files)
        found = examine_disks(directories, metadata.image, config.identity.node_id, metadata.restoration_id)
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
            cluster_links = None
            if wires is not None:
                from penstock.broker.cluster_links import ClusterLinks

                cluster_links = ClusterLinks(
                    metadata, wires, surroundings.chance.random, slices, suspected=answers.forget
                )
                ask = ask or cluster_links.peers.ask
            broker = assemble(metadata, directories, metrics, surroundings, slices, ask or no_peers)
            broker.metadata_answers = answers
            if logins is not None:
                broker.logins, logins.auditor = logins, broker.auditor
            broker.partitions.has_lost_directory = found.has_lost_directory
            if cluster_links is not None:
                introduce(broker, cluster_links)
            housekeeping = Housekeeping(broker, surroundings.stopwatch, surroundings.cleaner)
            server = cls(broker, store, listeners, housekeeping, cluster_links)
            server._connect()
            await server._begin_trail(surroundings.files)
        except BaseException:
            directories.close(clean=False)
            raise
        return server

    def _connect(self) -> None:
        """Ties the parts that must know of each other: sockets to dispatch, gauges to parts, metadata to the broker."""
        broker = self.broker
        register_gauges(broker, self._listeners)
        if self._cluster_links is not None:
            from penstock.server.monitoring.cluster_gauges import register_cluster_gauges

            register_cluster_gauges(broker, self._cluster_links, self._store)
        register_cleaner_gauges(broker, self.housekeeping.compaction)
        ImageApplier(broker, self._follow_config, self._cluster_links).start()
        self.limiting.start(self._gates())
        broker.moves.resume()

    async def _begin_trail(self, files: Files) -> None:
        if self.broker.auditor is not NO_AUDIT:
            from penstock.broker.auditing.audit_trail import start_trail
            from penstock.broker.auditing.trail import AuditTrail

            assert isinstance(self.broker.auditor, AuditTrail)
            await start_trail(self.broker.auditor, self.broker, files)
            self._trail = self.broker.auditor

    def _gates(self) -> dict[str, LoginGate]:
        """By the names of the listeners where clients log in."""
        broker, gates = self.broker, {}
        for listener in self._listeners:
            if broker.logins is not None and broker.logins.mechanisms(listener.name):
                from penstock.broker.login.gate import LoginGate

                gates[listener.name] = LoginGate(
                    self.dispatcher.handle, broker.logins, broker.clock, broker.metrics.logins
                )
                max_receive_size = broker.config.listener_value(listener.name, "sasl.server.max.receive.size")
                assert isinstance(max_receive_size, int)
                listener.first_frame_size = max_receive_size
                timeout_ms = broker.config.get("penstock.sasl.login.timeout.ms")
                assert isinstance(timeout_ms, int)
                listener.limit_logins(timeout_ms, broker.logins.expire)
        return gates

    def _follow_config(self, config: BrokerConfig) -> None:
        self.limiting.change_config(config)
        self.encryption.settings_changed()
        if self.broker.logins is not None:
            self.broker.logins.follow(config)

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
        await self.encryption.close()
        await self.broker.moves.close()
        for listener in self._listeners:
            await listener.close()
        if self.broker.logins is not None:
            self.broker.logins.close()
        self.broker.schema_checks.close()
        if self._trail is not None:  # nothing happens any more that it should know of, and its sinks still work
            await self._trail.stop()
        await self.broker.topic_creation.close()
        if self._cluster_links is not None:
            await self._cluster_links.close()
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
        if self._cluster_links is None or not settings.controlled_shutdown_enable:
            return
        tries = settings.controlled_shutdown_max_retries
        if not await self._cluster_links.request_shutdown(tries * settings.controlled_shutdown_retry_backoff_ms / 1000):
            logger.warning("stopping although not everything that this broker leads could move to others")
        await self.broker.metadata.leave()


def _served(broker: Broker) -> ApiTable:
    if broker.auditor is NO_AUDIT:
        return APIS
    from penstock.broker.auditing.auditing import audited

    return audited(APIS, broker.auditor.kinds)


# An fsync waits for the disk, not for a core, and a file system writes its journal once for many that wait at once. So
# each thread that the setting allows is worth several here. A single thread stays single.
_SYNCS_PER_THREAD = 4


def _closing_threads(configured: int) -> int:
    return configured * _SYNCS_PER_THREAD if configured > 1 else 1


def _find_cleaner() -> CleanerProcess | None:
    """Not started yet: that is for the first log that is worth cleaning."""
    command = find_command()
    if command is None:
        logger.info("compaction will run in a thread: %s is no Python interpreter", sys.executable or "sys.executable")
        return None
    return CleanerProcess(command)


async def _bind(
    config: BrokerConfig, metrics: BrokerMetrics, clock: Clock, encryption: Encryption
) -> list[TcpListener]:
    bounds = connection_limits(config)
    admission, backlog = Admission(connection_bounds(config)), Backlog(*backlog_bounds(config), metrics.sockets)
    listeners: list[TcpListener] = []
    for endpoint in config.endpoints:
        listener = encryption.listener(endpoint, bounds, metrics, clock)
        listener.share(admission, backlog)
        try:
            await listener.bind(endpoint.host, endpoint.port)
        except OSError as error:
            await _abandon(listeners, None)
            raise OSError(error.errno, f"cannot listen on {endpoint}: {error.strerror or error}") from error
        listeners.append(listener)
    return listeners


def _wires(config: BrokerConfig, encryption: Encryption) -> Wires:
    """Loaded where there may be others: a broker that is alone starts some 20 ms sooner without."""
    from penstock.broker.cluster_links import Wires
    from penstock.broker.login.own import own_credentials
    from penstock.broker.peers.failure_detection import probe_by_tcp
    from penstock.broker.peers.tcp_connect import connect_by_tcp

    credentials = own_credentials(config)

    def security() -> ClientSecurity:
        return replace(encryption.towards_brokers(), credentials=credentials)

    return Wires(connect_by_tcp(security), probe_by_tcp)


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
    shares = own_shares()
    return LogDirectories.open(
        [Path(path) for path in config.log_directories],
        node_id=config.identity.node_id,
        cluster_id=metadata.image.cluster_id,
        settings_for=functools.cache(metadata.log_settings),  # the partitions of a topic share one object
        clock=clock,
        files=files,
        max_open_files=MAX_OPEN_FILES if shares is None else shares.log_files,
    )


async def _abandon(listeners: Sequence[TcpListener], store: Store | None) -> None:
    for listener in listeners:
        await listener.close()
    if store is not None:
        await store.close()
