"""From the parts of a broker to a broker, as handlers see it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.acl_authorizer import make_authorizer
from penstock.broker.apis import APIS
from penstock.broker.broker import Broker
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.moves import Moves, Pace, throttled
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.peers.peer_requests import Ask
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.transaction_admission import TransactionAdmission
from penstock.broker.runtimes.transaction_markers import Leaders, MarkerWriter
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.schema_checks.checks import SchemaChecks
from penstock.broker.settings import group_settings, transaction_settings
from penstock.broker.slices import Slices
from penstock.broker.topic_creation import TopicCreation
from penstock.broker.upkeep.compaction_pacing import REAL_TIME, Stopwatch
from penstock.cluster.levels import SUPPORTED, LevelRange
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.interface import Store
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.types import new_uuid
from penstock.groups.coordinator import GroupCoordinator
from penstock.log.compaction.worker.process import CleanerProcess
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.storage.files import Files
from penstock.security.audit.events import NO_AUDIT, Auditor
from penstock.transactions.coordinator import TransactionCoordinator

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.cluster_links import ClusterLinks, Wires
    from penstock.broker.login.logins import Logins

# A session nobody used for this long makes room for a new one. Kafka's number; not configurable there either.
_FETCH_SESSION_EVICTION_MS = 120_000


class Surroundings(NamedTuple):
    """Time, disk and chance as the broker finds them. A test or the simulation hands over its own."""

    clock: Clock
    files: Files
    chance: random.Random
    stopwatch: Stopwatch = REAL_TIME
    cleaner: CleanerProcess | None = None  # it sees the real disk and the real time alone
    wires: Wires | None = None  # to other brokers; None for a broker that is alone
    levels: LevelRange = SUPPORTED  # of the metadata; a test plays another version of Penstock with them


def assemble(
    metadata: Metadata,
    directories: LogDirectories,
    metrics: BrokerMetrics,
    surroundings: Surroundings,
    slices: Slices,
    ask: Ask,
) -> Broker:
    """A broker that is alone; see `introduce`. `ask` is how its coordinators ask others."""
    config, clock, chance = metadata.config, surroundings.clock, surroundings.chance
    partitions = Partitions(
        config.identity.node_id,
        directories,
        metadata.topic_settings,
        metrics.topics,
        clock,
        config.replication.replica_lag_time_max_ms,
    )
    flusher = Flusher(metrics.logs, clock, surroundings.stopwatch.passed)
    producer_ids = ProducerIds(metadata.allocate_producer_id_block)
    groups = GroupRuntime(_group_coordinator(config, chance), partitions, flusher, clock, metrics.groups, slices)
    transactions = TransactionRuntime(
        _transaction_coordinator(metadata, producer_ids),
        partitions,
        _marker_writer(metadata, partitions, groups, surroundings),
        flusher,
        clock,
        slices,
        ask,
    )
    auditor = _auditor(config, clock, metrics)
    return Broker(
        node_id=config.identity.node_id,
        config=config,
        clock=clock,
        metrics=metrics,
        authorizer=make_authorizer(metadata.publisher, config.authorization, clock, auditor),
        quotas=ClientQuotas(clock, config.quotas, metrics.quotas),
        served_versions=[api.served_versions for api in APIS.values()],
        slices=slices,
        metadata=metadata,
        directories=directories,
        partitions=partitions,
        flusher=flusher,
        fetch_sessions=_fetch_sessions(config, metrics, chance),
        producer_ids=producer_ids,
        groups=groups,
        transactions=transactions,
        admission=TransactionAdmission(config.identity.node_id, partitions, transactions, metadata, ask),
        topic_creation=TopicCreation(metadata),
        schema_checks=SchemaChecks(config.schema_registry, clock, metrics.schemas),
        moves=Moves(directories, partitions, surroundings.files, clock, _pace_of_moves(metadata, clock)),
        ask=ask,
        auditor=auditor,
        chance=chance,
    )


def _auditor(config: BrokerConfig, clock: Clock, metrics: BrokerMetrics) -> Auditor:
    """Loaded where there is a trail to write. It takes events at once; the broker's start gives it its sinks."""
    if not (config.audit.penstock_audit_file or config.audit.penstock_audit_topic_enable):
        return NO_AUDIT
    from penstock.broker.auditing.trail import AuditTrail

    return AuditTrail(config.audit, clock, metrics.audit)


def _fetch_sessions(config: BrokerConfig, metrics: BrokerMetrics, chance: random.Random) -> FetchSessions:
    slots = config.requests.max_incremental_fetch_session_cache_slots
    return FetchSessions(slots, _FETCH_SESSION_EVICTION_MS, metrics.purgatory, chance)


async def make_logins(
    metadata: Metadata, store: Store, metrics: BrokerMetrics, surroundings: Surroundings
) -> Logins | None:
    """None where no listener has SASL. Raises ConfigError or StoreError."""
    config = metadata.config
    if not any(endpoint.has_login for endpoint in config.endpoints):
        return None
    from penstock.broker.login.logins import Logins
    from penstock.broker.login.mechanisms import Sources
    from penstock.broker.login.users import StoredUsers
    from penstock.cluster.login_secret import read_login_secret

    users = StoredUsers(lambda: metadata.image.security, config)
    random_bytes = surroundings.chance.randbytes
    sources = Sources(users.as_scram_users(), random_bytes, await read_login_secret(store, random_bytes))
    return Logins(config, sources, surroundings.clock, metrics.logins)


def _marker_writer(
    metadata: Metadata, partitions: Partitions, groups: GroupRuntime, surroundings: Surroundings
) -> MarkerWriter:
    leaders = Leaders(metadata.config.identity.node_id, metadata.find_leader)
    return MarkerWriter(partitions, leaders, groups, surroundings.clock, surroundings.chance.random)


def _pace_of_moves(metadata: Metadata, clock: Clock) -> Pace:
    return throttled(lambda: metadata.config.throttles, clock)


def _group_coordinator(config: BrokerConfig, chance: random.Random) -> GroupCoordinator:
    return GroupCoordinator(
        group_settings(config.groups),
        config.offsets_topic.offsets_topic_num_partitions,
        lambda: new_uuid(chance.randbytes),
    )


def _transaction_coordinator(metadata: Metadata, producer_ids: ProducerIds) -> TransactionCoordinator:
    config = metadata.config
    return TransactionCoordinator(
        transaction_settings(config.transactions),
        config.transaction_topic.transaction_state_log_num_partitions,
        producer_ids.take,
    )


def introduce(broker: Broker, cluster_links: ClusterLinks) -> None:
    """Makes the broker one of several. Raises ConfigError."""
    from penstock.broker.login.own import own_users

    broker.own_users = own_users(broker.config)
    broker.has_peers = True
    broker.controller_api = broker.metadata.controller_api
    broker.shutdowns = cluster_links.shutdowns
    broker.forwarding = cluster_links.forwarding
    broker.presence = cluster_links.presence
    broker.topic_creation = TopicCreation(broker.metadata, cluster_links.controller)
