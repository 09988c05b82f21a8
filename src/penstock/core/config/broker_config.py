"""The broker's configuration: text in, checked and typed values out, in layers.

A value comes from the first layer that has it: dynamic for this broker, dynamic for all brokers, the broker's file
and command line, the table's default. A topic's own settings come before all of them. A `BrokerConfig` never
changes; a dynamic change makes a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from penstock.core.config.checks import CHECKS, check_compaction_lag, check_log_times
from penstock.core.config.sections import (
    AuditSection,
    AuthorizationSection,
    BalanceSection,
    CleanerSection,
    GroupSection,
    IdentitySection,
    MonitoringSection,
    NetworkSection,
    OffsetsTopicSection,
    ProcessSection,
    QuotaSection,
    ReplicationSection,
    RequestSection,
    SchemaRegistrySection,
    ShutdownSection,
    ThrottleSection,
    TopicSection,
    TransactionSection,
    TransactionTopicSection,
    UpkeepSection,
    ZooKeeperSection,
    read_section,
)
from penstock.core.config.table import (
    BROKER_KEYS,
    LISTENER_PREFIX,
    TOPIC_KEYS_BY_NAME,
    find_broker_key,
    reason_ignored,
)
from penstock.core.config.types import ConfigError, ConfigKey, ConfigValue
from penstock.core.limits import MAX_CONFIG_VALUE_LENGTH
from penstock.core.listeners import Endpoint, advertise, check_ports, parse_endpoints, parse_protocol_map
from penstock.core.log_settings import LogSettings

__all__ = ["BrokerConfig", "ConfigError", "log_settings"]

_EMPTY: Mapping[str, str] = MappingProxyType({})
# Broker keys that a partition's log needs beside the topic's own.
_OF_LOGS = ("producer.id.expiration.ms", "penstock.segment.least.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Typed values in sections, `config.topics.num_partitions`; any value by Kafka's name with `get`."""

    identity: IdentitySection
    process: ProcessSection
    network: NetworkSection
    shutdown: ShutdownSection
    requests: RequestSection
    topics: TopicSection
    balance: BalanceSection
    offsets_topic: OffsetsTopicSection
    transaction_topic: TransactionTopicSection
    groups: GroupSection
    transactions: TransactionSection
    upkeep: UpkeepSection
    replication: ReplicationSection
    throttles: ThrottleSection
    authorization: AuthorizationSection
    quotas: QuotaSection
    cleaner: CleanerSection
    audit: AuditSection
    # Passwords are among these: code that prints a configuration must leave them out.
    zookeeper: ZooKeeperSection = field(repr=False)
    monitoring: MonitoringSection = field(repr=False)
    schema_registry: SchemaRegistrySection = field(repr=False)
    static: Mapping[str, str] = field(repr=False)
    dynamic_default: Mapping[str, str] = field(repr=False)
    dynamic_broker: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...]
    values: Mapping[str, ConfigValue] = field(repr=False)
    topic_defaults: Mapping[str, ConfigValue] = field(repr=False)
    endpoints: tuple[Endpoint, ...]
    configured_advertised: tuple[Endpoint, ...] | None
    inter_broker_listener: str  # the name of the listener that brokers use among themselves

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Raises ConfigError for a bad value. Unknown keys, and those without effect here, become warnings."""
        return cls._build(properties, _EMPTY, _EMPTY)

    @classmethod
    def _build(
        cls, static: Mapping[str, str], dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
    ) -> BrokerConfig:
        values: dict[str, ConfigValue] = {name: key.default for name, key in BROKER_KEYS.items()}
        for layer in (static, dynamic_default, dynamic_broker):
            for name, text in layer.items():
                key = find_broker_key(name)
                if key is not None:
                    values[name] = parse_value(key, text)
        _unify_node_id(values, static)
        topic_defaults = _topic_defaults(values)
        for check in CHECKS:
            check(values)
        endpoints, advertised = _listeners(values)
        return cls(
            identity=read_section(IdentitySection, values),
            process=read_section(ProcessSection, values),
            network=read_section(NetworkSection, values),
            shutdown=read_section(ShutdownSection, values),
            requests=read_section(RequestSection, values),
            topics=read_section(TopicSection, values),
            balance=read_section(BalanceSection, values),
            offsets_topic=read_section(OffsetsTopicSection, values),
            transaction_topic=read_section(TransactionTopicSection, values),
            groups=read_section(GroupSection, values),
            transactions=read_section(TransactionSection, values),
            upkeep=read_section(UpkeepSection, values),
            replication=read_section(ReplicationSection, values),
            throttles=read_section(ThrottleSection, values),
            authorization=read_section(AuthorizationSection, values),
            quotas=read_section(QuotaSection, values),
            cleaner=read_section(CleanerSection, values),
            zookeeper=read_section(ZooKeeperSection, values),
            audit=read_section(AuditSection, values),
            monitoring=read_section(MonitoringSection, values),
            schema_registry=read_section(SchemaRegistrySection, values),
            static=MappingProxyType(dict(static)),
            dynamic_default=MappingProxyType(dict(dynamic_default)),
            dynamic_broker=MappingProxyType(dict(dynamic_broker)),
            warnings=_warnings(static),
            values=MappingProxyType(values),
            topic_defaults=MappingProxyType(topic_defaults),
            endpoints=endpoints,
            configured_advertised=advertised,
            inter_broker_listener=_inter_broker_listener(values, static, advertised or endpoints),
        )

    def with_dynamic(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> BrokerConfig:
        """This configuration with other dynamic layers. Raises ConfigError when a value or a combination is bad."""
        return self._build(self.static, dynamic_default, dynamic_broker)

    def get(self, name: str) -> ConfigValue:
        """The value in effect of a key of the table. A KeyError for any other name is a mistake of ours."""
        return self.values[name]

    def listener_value(self, listener: str, name: str, mechanism: str | None = None) -> ConfigValue:
        """The value in effect of a key on one listener: the value for the listener's mechanism comes before the value
        for the listener, and that before the key's own, whichever layer each is in.
        """
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        if mechanism is not None and f"{prefix}{mechanism.lower()}.{name}" in self.values:
            return self.values[f"{prefix}{mechanism.lower()}.{name}"]
        return self.values.get(f"{prefix}{name}", self.values[name])

    def topic_config(self, overrides: Mapping[str, str]) -> Mapping[str, ConfigValue]:
        """Every topic key's value in effect for a topic with these overrides. Raises ConfigError for a bad one."""
        if not overrides:
            return self.topic_defaults
        values = dict(self.topic_defaults)
        for name, text in overrides.items():
            values[name] = _parse_topic_value(name, text)
        check_compaction_lag(values)
        return values

    def stored_topic_config(self, overrides: Mapping[str, str]) -> Mapping[str, ConfigValue]:
        """As `topic_config`, for settings that were checked when they were stored.

        A later version, or a change of the broker's defaults, may refuse a stored value. The partition must open all
        the same, so the broker's default replaces a value that is not understood any more.
        """
        try:
            return self.topic_config(overrides)
        except ConfigError:
            values = dict(self.topic_defaults)
            for name, text in overrides.items():
                with contextlib.suppress(ConfigError):
                    values[name] = _parse_topic_value(name, text)
            return values

    @property
    def log_directories(self) -> tuple[str, ...]:
        directories = self.values["log.dirs"] or self.values["log.dir"]
        assert isinstance(directories, tuple)
        return directories

    def advertised_endpoints(self, bound_ports: Mapping[str, int], host_name: str) -> tuple[Endpoint, ...]:
        """The endpoints that clients connect to, once the listeners are bound (`bound_ports` by listener name)."""
        return advertise(self.endpoints, self.configured_advertised, bound_ports, host_name)


def _parse_topic_value(name: str, text: str) -> ConfigValue:
    key = TOPIC_KEYS_BY_NAME.get(name)
    if key is None:
        raise ConfigError(f"Unknown topic config name: {name}", key=name)
    return parse_value(key, text)


def parse_value(key: ConfigKey, text: str) -> ConfigValue:
    if len(text) > MAX_CONFIG_VALUE_LENGTH:
        raise ConfigError(f"the value of {key.name} is longer than {MAX_CONFIG_VALUE_LENGTH} characters", key=key.name)
    return key.parse(text)


def log_settings(topic_config: Mapping[str, ConfigValue]) -> LogSettings:
    """What a partition's log needs, from `BrokerConfig.topic_config`."""
    values: dict[str, Any] = {
        each.name: topic_config[each.name.replace("_", ".")] for each in fields(LogSettings) if each.init
    }
    values["cleanup_policy"] = frozenset(values["cleanup_policy"])
    return LogSettings(**values)


def _unify_node_id(values: dict[str, ConfigValue], static: Mapping[str, str]) -> None:
    if "broker.id" in static and "node.id" in static and values["broker.id"] != values["node.id"]:
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.", key="node.id")
    broker_id = values["broker.id"]
    assert isinstance(broker_id, int)
    if "broker.id" in static and "node.id" not in static and broker_id >= 0:
        values["node.id"] = broker_id
    values["broker.id"] = values["node.id"]


def _topic_defaults(values: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Per topic key: the first of its synonyms that the broker has a value for, converted; else the table's default."""
    defaults: dict[str, ConfigValue] = {}
    for name, key in TOPIC_KEYS_BY_NAME.items():
        defaults[name] = key.default
        for synonym in key.synonyms:
            value = values[synonym.name]
            if value is not None:
                defaults[name] = value * synonym.factor if synonym.factor != 1 else value
                break
    retention_ms = defaults["retention.ms"]
    assert isinstance(retention_ms, int)
    defaults["retention.ms"] = max(retention_ms, -1)
    defaults.update((name, values[name]) for name in _OF_LOGS)
    check_log_times(defaults)
    check_compaction_lag(defaults)
    return defaults


def _listeners(values: Mapping[str, Any]) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...] | None]:
    """The listeners without those reserved for KRaft controllers, and what `advertised.listeners` gives."""
    reserved = {name.upper() for name in values["controller.listener.names"]}
    protocols = parse_protocol_map(values["listener.security.protocol.map"])
    # Kafka lets a controller's listener be absent from the map when everything is PLAINTEXT.
    protocols = {**dict.fromkeys(reserved, "PLAINTEXT"), **protocols}
    every = parse_endpoints("listeners", values["listeners"], protocols)
    listening = tuple(endpoint for endpoint in every if endpoint.name not in reserved)
    if not listening:
        raise ConfigError("There must be at least one broker listener in `listeners`.", key="listeners")
    check_ports(listening)
    names = {endpoint.name for endpoint in listening}
    if not values["advertised.listeners"]:
        return listening, None
    given = parse_endpoints("advertised.listeners", values["advertised.listeners"], protocols)
    advertised = tuple(endpoint for endpoint in given if endpoint.name not in reserved)
    for endpoint in advertised:
        if endpoint.host == "0.0.0.0":  # noqa: S104  # refused here
            reason = "cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
            raise ConfigError.of_value("advertised.listeners", endpoint, reason)
        if endpoint.name not in names:
            reason = f"Expected names from `listeners`: {', '.join(sorted(names))}"
            raise ConfigError.of_value("advertised.listeners", endpoint, reason)
    return listening, advertised or None


def _inter_broker_listener(
    values: Mapping[str, Any], static: Mapping[str, str], advertised: tuple[Endpoint, ...]
) -> str:
    """Other brokers find this one by what it advertises, so a configured name must be that of an advertised listener.

    Without a configured name or protocol, and without a listener PLAINTEXT, the first listener is taken: a broker that
    is alone has no use for the name.
    """
    name_key, protocol_key = "inter.broker.listener.name", "security.inter.broker.protocol"
    named, protocol = values[name_key], values[protocol_key]
    if named is not None and protocol_key in static:
        raise ConfigError(f"Only one of {name_key} and {protocol_key} should be set.", key=name_key)
    names = [endpoint.name for endpoint in advertised]
    wanted: str = protocol if named is None else named.upper()
    if wanted in names:
        return wanted
    if named is None and protocol_key not in static:
        return names[0]
    key = protocol_key if named is None else name_key
    reason = f"Expected the name of an advertised listener: {', '.join(sorted(names))}"
    raise ConfigError.of_value(key, wanted if named is None else named, reason)


def _warnings(static: Mapping[str, str]) -> tuple[str, ...]:
    """One line per reason for the keys without effect, one line per unknown key."""
    without_effect: dict[str, list[str]] = {}
    unknown: list[str] = []
    for name in static:
        if find_broker_key(name) is not None:
            continue
        reason = reason_ignored(name)
        if reason is None:
            unknown.append(name)
        else:
            without_effect.setdefault(reason, []).append(name)
    lines = [f"ignored, as {reason}: {', '.join(names)}" for reason, names in without_effect.items()]
    lines += [f"unknown configuration key {name!r} is ignored{_suggestion(name)}" for name in unknown]
    return tuple(lines)


def _suggestion(name: str) -> str:
    import difflib  # only a mistaken key needs it

    close = difflib.get_close_matches(name, BROKER_KEYS, n=1, cutoff=0.8)
    return f"; did you mean {close[0]!r}?" if close else ""
