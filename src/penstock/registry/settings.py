"""The registry's settings: Confluent's names where Confluent has one, so that a schema-registry.properties will do.

`kafkastore.*` that is not in the table are settings of the client towards the brokers (`kafkastore.security.protocol`,
`kafkastore.ssl.*`, `kafkastore.sasl.*`). Keys of Confluent's registry that have no meaning here are in `IGNORED`, with
the reason. Any other key is refused.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.client.addresses import Address, parse_servers
from penstock.client.membership import MemberTimes
from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind, Importance, OneOf, Range
from penstock.http.service_process import Listener, parse_listener
from penstock.http.settings import HTTP_KEYS, Settings
from penstock.registry.node.election import Identity
from penstock.registry.node.node import NodeSettings
from penstock.registry.node.topic import TopicSettings
from penstock.schemas.compatibility import Level

CLIENT_PREFIX: Final = "kafkastore."
_DEFAULT_BOOTSTRAP = "localhost:9092"
_HIGH, _LOW = Importance.HIGH, Importance.LOW
_LEVELS = tuple(level.value for level in Level)
_EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104  # what an operator may write

STORE_KEYS: Final = (
    ConfigKey(
        "kafkastore.bootstrap.servers",
        ConfigKind.LIST,
        (),
        "Brokers to begin with, as HOST:PORT or as PROTOCOL://HOST:PORT; `--bootstrap-server` wins.",
        importance=_HIGH,
    ),
    ConfigKey(
        "kafkastore.topic",
        ConfigKind.STRING,
        "_schemas",
        "The topic that keeps everything. It is created with one partition and compaction where it is missing; a topic "
        "that has more partitions or deletes records is refused.",
        importance=_HIGH,
    ),
    ConfigKey(
        "kafkastore.topic.replication.factor",
        ConfigKind.INT,
        0,
        "Replicas of the topic when it is created. 0: as many as there are brokers, up to three.",
        rule=Range(0, 32_767),
        importance=_HIGH,
    ),
    ConfigKey(
        "kafkastore.timeout.ms",
        ConfigKind.INT,
        30_000,
        "How long a write may take until it is committed and read back. A caller that waited longer gets 50002.",
        rule=Range(100),
    ),
)

GROUP_KEYS: Final = (
    ConfigKey(
        "schema.registry.group.id",
        ConfigKind.STRING,
        "schema-registry",
        "The group in which instances elect their leader. Instances of one registry have the same; the transactional "
        "id of the leader is this name with `-leader` behind it.",
    ),
    ConfigKey(
        "leader.eligibility",
        ConfigKind.BOOLEAN,
        True,
        "Whether this instance may become the leader.",
    ),
    ConfigKey(
        "host.name",
        ConfigKind.STRING,
        "",
        "The name by which the other instances reach this one. Empty: the host it listens on, or the machine's name "
        "where it listens on every address.",
        importance=_HIGH,
    ),
    ConfigKey(
        "kafkagroup.session.timeout.ms",
        ConfigKind.INT,
        6_000,  # the least that Apache Kafka's brokers take (group.min.session.timeout.ms)
        "How long an instance that does not answer stays the leader.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "kafkagroup.heartbeat.interval.ms",
        ConfigKind.INT,
        1_000,
        "How often an instance asks whether another leader is to be elected, at most a third of the session.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "kafkagroup.rebalance.timeout.ms",
        ConfigKind.INT,
        60_000,
        "How long an election waits for instances that do not join again.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.leader.wait.ms",
        ConfigKind.INT,
        10_000,
        "How long a write waits for a leader to be elected, and for the leader to have read everything. Longer than a "
        "session and an election, so that a write outlives a leader that is killed.",
        rule=Range(0),
        importance=_LOW,
    ),
)

SERVICE_KEYS: Final = (
    ConfigKey(
        "schema.compatibility.level",
        ConfigKind.STRING,
        "backward",
        "The compatibility level where no config says otherwise.",
        rule=OneOf((*(level.lower() for level in _LEVELS), *_LEVELS)),
        importance=_HIGH,
    ),
    ConfigKey(
        "penstock.rights.file",
        ConfigKind.STRING,
        "",
        "A file with rules about who may do what to which subject, read again when it changes. Empty: everybody who "
        "gets in may do everything.",
    ),
)

REGISTRY_SECTIONS: Final = (
    ("Topic and brokers", STORE_KEYS),
    ("Election", GROUP_KEYS),
    ("Schemas", SERVICE_KEYS),
    ("Listener, logins and TLS", HTTP_KEYS),
)
REGISTRY_KEYS: Final = tuple(key for _, keys in REGISTRY_SECTIONS for key in keys)

# Confluent's keys that are ignored, by the reason; one that ends with a dot stands for all that begin with it.
IGNORED: Final = (
    ("the topic is read without a group", ("kafkastore.group.id",)),
    (
        "brokers are found and retried without it",
        ("kafkastore.init.timeout.ms", "kafkastore.write.max.retries", "kafkastore.checkpoint.", "kafkastore.zk."),
    ),
    ("the leader always stays the leader", ("leader.election.sticky", "leader.election.delay")),
    (
        "it is about Confluent's server",
        (
            "avro.compatibility.level",
            "debug",
            "inter.instance.",
            "metric.reporters",
            "metrics.",
            "metadata.encoder.",
            "mode.mutability",
            "request.logger.name",
            "resource.extension.class",
            "response.",
            "schema.cache.",
            "schema.providers",
            "schema.registry.resource.extension.class",
            "shutdown.graceful.ms",
            "thread.pool.",
        ),
    ),
)

_OLD_NAMES: Final = {"master.eligibility": "leader.eligibility", "advertised.host.name": "host.name"}


class RegistrySettings(NamedTuple):
    """The settings of a registry, by its parts."""

    all: Settings
    bootstrap: tuple[Address, ...]
    client: Mapping[str, str]  # Kafka's client properties
    listener: Listener
    node: NodeSettings
    is_eligible: bool
    level: Level
    leader_wait_s: float
    ignored: tuple[tuple[str, str], ...] = ()  # keys, each with the reason; logged when the log has its form

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> RegistrySettings:
        """Raises ConfigError."""
        reasons = {name: _reason_ignored(name) for name in given}
        kept = {_OLD_NAMES.get(name, name): text for name, text in given.items() if reasons[name] is None}
        settings = Settings.parse(REGISTRY_KEYS, kept, [CLIENT_PREFIX])
        names = {key.name.removeprefix(CLIENT_PREFIX) for key in STORE_KEYS}
        client = {name: text for name, text in settings.under(CLIENT_PREFIX).items() if name not in names}
        topic = TopicSettings(settings["kafkastore.topic"], settings["kafkastore.topic.replication.factor"])
        times = MemberTimes(
            session_timeout_ms=settings["kafkagroup.session.timeout.ms"],
            rebalance_timeout_ms=settings["kafkagroup.rebalance.timeout.ms"],
            heartbeat_interval_ms=settings["kafkagroup.heartbeat.interval.ms"],
        )
        return cls(
            all=settings,
            bootstrap=_bootstrap(settings["kafkastore.bootstrap.servers"]),
            client=client,
            listener=parse_listener("registry", settings["listeners"]),
            node=NodeSettings(
                topic, settings["schema.registry.group.id"], times, settings["kafkastore.timeout.ms"] / 1000
            ),
            is_eligible=settings["leader.eligibility"],
            level=Level(settings["schema.compatibility.level"].upper()),
            leader_wait_s=settings["penstock.leader.wait.ms"] / 1000,
            ignored=tuple((name, reason) for name, reason in reasons.items() if reason is not None),
        )

    def identity(self, port: int) -> Identity:
        """The metadata that this instance sends to the others; `port` is the one that the system gave."""
        host = self.all["host.name"] or self.listener.host
        if host in _EVERY_ADDRESS:
            host = socket.gethostname()
        return Identity(host, port, self.is_eligible, self.listener.scheme)


def _reason_ignored(name: str) -> str | None:
    for reason, names in IGNORED:
        for each in names:
            if name == each or (each.endswith(".") and name.startswith(each)):
                return reason
    return None


def _bootstrap(servers: tuple[str, ...]) -> tuple[Address, ...]:
    """Ignores a security protocol in front of an address: `kafkastore.security.protocol` sets it."""
    addresses = ",".join(servers) or _DEFAULT_BOOTSTRAP
    try:
        return tuple(parse_servers(addresses))
    except ValueError as error:
        raise ConfigError.of_value("kafkastore.bootstrap.servers", addresses, str(error)) from None
