"""What single keys cannot check: values that must fit together. The texts are Kafka's, because users search for them.

Every check raises ConfigError, which names the key to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.core.config.keys.group import BOUNDS, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from penstock.core.config.types import ConfigError, ConfigValue

# ---------------------------------------------------------------------------------- a topic's values


def check_log_times(topic: Mapping[str, Any]) -> None:
    if topic["retention.ms"] == 0:
        raise ConfigError(
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1", key="log.retention.ms"
        )
    if topic["segment.ms"] < 1:
        raise ConfigError("log.roll.ms must be greater than or equal to 1", key="log.roll.ms")
    if topic["segment.jitter.ms"] < 0:
        raise ConfigError("log.roll.jitter.ms must be greater than or equal to 0", key="log.roll.jitter.ms")
    if topic["flush.ms"] < 0:
        raise ConfigError("log.flush.interval.ms must be greater than or equal to 0", key="log.flush.interval.ms")


def check_compaction_lag(topic: Mapping[str, Any]) -> None:
    low, high = topic["min.compaction.lag.ms"], topic["max.compaction.lag.ms"]
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


# ---------------------------------------------------------------------------------- the broker's values


def _check_directories(values: Mapping[str, ConfigValue]) -> None:
    if not (values["log.dirs"] or values["log.dir"]):
        raise ConfigError("At least one log directory must be defined via log.dirs or log.dir.", key="log.dirs")


def _check_queue(values: Mapping[str, Any]) -> None:
    if 0 < values["queued.max.request.bytes"] < values["socket.request.max.bytes"]:
        message = "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
        raise ConfigError(message, key="queued.max.request.bytes")


def _check_connections(values: Mapping[str, Any]) -> None:
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        message = "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
        raise ConfigError(message, key="max.connections.per.ip")


def _check_replica_times(values: Mapping[str, Any]) -> None:
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if values["replica.fetch.wait.max.ms"] > values[name]:
            raise ConfigError(
                f"replica.fetch.wait.max.ms must not be more than {name}", key="replica.fetch.wait.max.ms"
            )


def _check_session_timeouts(values: Mapping[str, Any]) -> None:
    if values["group.min.session.timeout.ms"] > values["group.max.session.timeout.ms"]:
        message = "group.min.session.timeout.ms must not be more than group.max.session.timeout.ms"
        raise ConfigError(message, key="group.min.session.timeout.ms")


def _check_consumer_groups(values: Mapping[str, Any]) -> None:
    for _, default, low, high in BOUNDS:
        for name, limit in ((high, low), (default, low)):
            if values[name] < values[limit]:
                raise ConfigError(f"{name} must be greater than or equal to {limit}", key=name)
        if values[default] > values[high]:
            raise ConfigError(f"{default} must be less than or equal to {high}", key=default)
    heartbeat, session = HEARTBEAT_INTERVAL.default, SESSION_TIMEOUT.default
    if values[heartbeat] >= values[session]:
        raise ConfigError(f"{heartbeat} must be less than {session}", key=heartbeat)


def _check_replication_factor(values: Mapping[str, Any]) -> None:
    if values["default.replication.factor"] < 1:
        value = values["default.replication.factor"]
        raise ConfigError.of_value("default.replication.factor", value, "Value must be at least 1")


def _check_zookeeper(values: Mapping[str, Any]) -> None:
    users = ("penstock.zookeeper.digest", "penstock.zookeeper.sasl.mechanism", "zookeeper.ssl.keystore.location")
    if values["zookeeper.set.acl"] and not any(values[name] for name in users):
        message = f"zookeeper.set.acl needs a user that ZooKeeper knows, by one of {', '.join(users)}"
        raise ConfigError(message, key="zookeeper.set.acl")
    if values["penstock.zookeeper.sasl.mechanism"] == "DIGEST-MD5" and not (
        values["penstock.zookeeper.sasl.username"] and values["penstock.zookeeper.sasl.password"]
    ):
        message = "penstock.zookeeper.sasl.username and .password must be given for DIGEST-MD5"
        raise ConfigError(message, key="penstock.zookeeper.sasl.username")


CHECKS: tuple[Callable[[Mapping[str, Any]], None], ...] = (
    _check_directories,
    _check_queue,
    _check_connections,
    _check_replica_times,
    _check_session_timeouts,
    _check_consumer_groups,
    _check_replication_factor,
    _check_zookeeper,
)
