"""The one table of configuration keys.

Broker defaults, topic overrides, DescribeConfigs, the command line's help and the docs page are read from it.

A key is here when the broker honours it. Keys of Kafka that have no meaning here, or none yet, are in `IGNORED`
with the reason: the broker accepts a server.properties of Kafka and warns about the keys that it ignores.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.config.keys.audit import AUDIT_KEYS
from penstock.core.config.keys.authorization import AUTHORIZATION_KEYS
from penstock.core.config.keys.coordination import GROUP_KEYS, REPLICATION_KEYS, THROTTLE_KEYS, TRANSACTION_KEYS
from penstock.core.config.keys.group import GROUP_RESOURCE_KEYS
from penstock.core.config.keys.monitoring import MONITORING_KEYS
from penstock.core.config.keys.network import CONNECTION_KEYS, IDENTITY_KEYS, LISTENER_KEYS, REQUEST_KEYS
from penstock.core.config.keys.quotas import QUOTA_KEYS
from penstock.core.config.keys.sasl import SASL_KEYS
from penstock.core.config.keys.schemas import SCHEMA_REGISTRY_KEYS
from penstock.core.config.keys.storage import CLEANER_KEYS, DIRECTORY_KEYS, LOG_DEFAULT_KEYS
from penstock.core.config.keys.tls import TLS_KEYS
from penstock.core.config.keys.topic import TOPIC_KEYS
from penstock.core.config.keys.zookeeper import ZOOKEEPER_KEYS
from penstock.core.config.types import ConfigKey, by_name

BROKER_SECTIONS: tuple[tuple[str, tuple[ConfigKey, ...]], ...] = (
    ("Identity", IDENTITY_KEYS),
    ("Listeners", LISTENER_KEYS),
    ("Connections", CONNECTION_KEYS),
    ("TLS", TLS_KEYS),
    ("Logins", SASL_KEYS),
    ("Requests and topics", REQUEST_KEYS),
    ("Data directories", DIRECTORY_KEYS),
    ("Compaction", CLEANER_KEYS),
    ("Defaults of topic keys", LOG_DEFAULT_KEYS),
    ("Groups and offsets", GROUP_KEYS),
    ("Transactions", TRANSACTION_KEYS),
    ("Replication", REPLICATION_KEYS),
    ("Throttles", THROTTLE_KEYS),
    ("Authorization", AUTHORIZATION_KEYS),
    ("Quotas of clients", QUOTA_KEYS),
    ("Schema registry", SCHEMA_REGISTRY_KEYS),
    ("ZooKeeper", ZOOKEEPER_KEYS),
    ("Audit", AUDIT_KEYS),
    ("Monitoring", MONITORING_KEYS),
)

BROKER_KEYS: dict[str, ConfigKey] = by_name(key for _, keys in BROKER_SECTIONS for key in keys)
TOPIC_KEYS_BY_NAME: dict[str, ConfigKey] = by_name(TOPIC_KEYS)
GROUP_KEYS_BY_NAME: dict[str, ConfigKey] = by_name(GROUP_RESOURCE_KEYS)

# Broker keys that are several names of one setting, the strongest first.
_BROKER_SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {name: names for names in _BROKER_SYNONYMS for name in names}
# One way only: the scheduler's interval is the default of the other, not the other way round.
BROKER_SYNONYMS["log.flush.interval.ms"] = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")


class Ignored(NamedTuple):
    """Keys of Kafka without effect here. An entry that ends with a dot is a prefix."""

    reason: str
    names: tuple[str, ...]


IGNORED: tuple[Ignored, ...] = (
    Ignored(
        "these belong to KRaft, and the metadata lives in Penstock's own store",
        (
            "process.roles",
            "controller.",
            "metadata.log.",
            "metadata.max.",
            "initial.broker.registration.timeout.ms",
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            "early.start.listeners",
            "sasl.mechanism.controller.protocol",
            "server.max.startup.time.ms",
            "unstable.",
        ),
    ),
    Ignored("these are about Java's client of ZooKeeper, and ours is another", ("zookeeper.",)),
    Ignored(
        "one event loop serves a broker, so there are no thread pools to size",
        (
            "num.network.threads",
            "num.io.threads",
            "background.threads",
            "log.cleaner.threads",
            "num.replica.alter.log.dirs.threads",
            "group.coordinator.threads",
            "group.coordinator.background.threads",
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
            "delete.records.purgatory.purge.interval.requests",
            "share.fetch.purgatory.purge.interval.requests",
            "offsets.load.buffer.size",
            "transaction.state.log.load.buffer.size",
        ),
    ),
    Ignored(
        "a transaction is aborted when its timeout is over, not when somebody looks for such transactions",
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms",),
    ),
    Ignored(
        "these choose among Java's own ways to do TLS, and OpenSSL does it here",
        (
            "ssl.protocol",
            "ssl.provider",
            "ssl.engine.factory.class",
            "ssl.keymanager.algorithm",
            "ssl.trustmanager.algorithm",
            "ssl.secure.random.implementation",
        ),
    ),
    Ignored(
        "SECURITY: classes of Java are not loaded, and principals are made as Kafka makes them by default",
        (
            "principal.builder.class",
            "security.providers",
        ),
    ),
    Ignored(
        "these are classes and timers of Java's logins, and ours need none",
        ("sasl.",),
    ),
    Ignored(
        "these are not served yet",
        (
            "remote.",
            "log.local.",
            "log.dir.failure.timeout.ms",
            "log.initial.task.delay.ms",
            "log.message.format.version",
            "log.message.downconversion.enable",
            "log.message.timestamp.difference.max.ms",
            "inter.broker.protocol.version",
            "cordoned.log.dirs",
            "group.consumer.assignor.offload.enable",
            "group.share.",
            "group.streams.",
            "group.coordinator.rebalance.protocols",
            "group.coordinator.new.enable",
            "share.coordinator.",
            "offsets.topic.compression.codec",
            "producer.id.expiration.check.interval.ms",
            "transaction.two.phase.commit.enable",
            "leader.imbalance.per.",
            "unclean.leader.election.interval.ms",
            "follower.fetch.last.tiered.offset.enable",
            "quota.producer.default",
            "quota.consumer.default",
            "client.quota.callback.class",
            "create.topic.policy.class.name",
            "alter.config.policy.class.name",
            "config.providers",
            "metric.reporters",
            "metrics.",
            "kafka.metrics.",
            "telemetry.max.bytes",
            "auto.include.jmx.reporter",
            "request.timeout.ms",
            "socket.connection.setup.timeout.",
            "reserved.broker.max.id",
            "broker.id.generation.enable",
            "internal.",
        ),
    ),
)


LISTENER_PREFIX = "listener.name."


def find_broker_key(name: str) -> ConfigKey | None:
    """The row of a broker key, also of one for a single listener or for a mechanism of it:
    `listener.name.<listener>.<key>`, `listener.name.<listener>.<mechanism>.<key>`.
    """
    key = BROKER_KEYS.get(name)
    if key is not None or not name.startswith(LISTENER_PREFIX):
        return key
    _, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    return BROKER_KEYS.get(rest) or BROKER_KEYS.get(rest.partition(".")[2])


def reason_ignored(name: str) -> str | None:
    """Why a key of Kafka has no effect here; None for an unknown key."""
    for reason, names in IGNORED:
        if any(name == entry or (entry.endswith(".") and name.startswith(entry)) for entry in names):
            return reason
    return None
