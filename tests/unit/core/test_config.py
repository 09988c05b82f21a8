from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

import pytest

from penstock.core.config.broker_config import BrokerConfig, ConfigError, log_settings
from penstock.core.config.sections import SECTIONS, misfits, read_section
from penstock.core.config.table import BROKER_KEYS
from penstock.core.limits import MAX_CONFIG_VALUE_LENGTH
from penstock.core.log_settings import LogSettings

KRAFT_SERVER_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


def test_kafkas_own_server_properties_is_accepted_when_given_unchanged() -> None:
    config = BrokerConfig.parse(KRAFT_SERVER_PROPERTIES)
    assert [str(endpoint) for endpoint in config.endpoints] == ["PLAINTEXT://:9092"]
    assert [str(endpoint) for endpoint in config.advertised_endpoints({}, "ignored")] == ["PLAINTEXT://localhost:9092"]
    assert config.log_directories == ("/tmp/kraft-combined-logs",)
    assert config.identity.node_id == 1
    assert len(config.warnings) == 3  # KRaft, threads, share groups: one line each
    assert not any("unknown" in line for line in config.warnings)


def test_attributes_and_get_agree_when_a_key_is_read() -> None:
    config = BrokerConfig.parse({"num.partitions": "7", "auto.create.topics.enable": "FALSE"})
    assert config.topics.num_partitions == config.get("num.partitions") == 7
    assert config.topics.auto_create_topics_enable is False
    assert config.groups.group_initial_rebalance_delay_ms == 3000


def test_attribute_error_names_the_field_when_no_section_has_it() -> None:
    with pytest.raises(AttributeError, match="num_partitionz"):
        _ = BrokerConfig.parse({}).topics.num_partitionz  # type: ignore[attr-defined]


def test_config_is_frozen_when_somebody_assigns() -> None:
    config = BrokerConfig.parse({})
    with pytest.raises(AttributeError):
        config.warnings = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.values["num.partitions"] = 3  # type: ignore[index]


def test_unknown_key_becomes_a_warning_with_a_suggestion_when_it_is_misspelt() -> None:
    config = BrokerConfig.parse({"log.retension.hours": "3", "entirely.else": "x"})
    assert config.warnings == (
        "unknown configuration key 'log.retension.hours' is ignored; did you mean 'log.retention.hours'?",
        "unknown configuration key 'entirely.else' is ignored",
    )


def test_security_settings_are_warned_of_loudly_when_they_have_no_effect() -> None:
    (line,) = BrokerConfig.parse({"security.providers": "x", "principal.builder.class": "x"}).warnings
    assert "SECURITY" in line
    assert "security.providers, principal.builder.class" in line


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"num.partitions": "many"}, "Invalid value many for configuration num.partitions: Not a number of type INT"),
        ({"num.partitions": "3000000000"}, "Invalid value 3000000000 .* Not a number of type INT"),
        ({"offsets.topic.replication.factor": "40000"}, "Not a number of type SHORT"),
        ({"auto.create.topics.enable": "yes"}, "Expected value to be either true or false"),
        ({"compression.type": "brotli"}, "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ({"log.cleanup.policy": "delete,shred"}, "Invalid value shred for configuration log.cleanup.policy"),
        ({"node.id": "1", "broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited"),
        ({"log.retention.hours": "0"}, "log.retention.ms must be unlimited"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater"),
        ({"log.flush.interval.ms": "-1"}, "log.flush.interval.ms must be greater"),
        ({"log.dirs": "", "log.dir": ""}, "At least one log directory"),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes must be larger"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "host"}, "Expected HOST:COUNT"),
        ({"replica.fetch.wait.max.ms": "90000"}, "replica.fetch.wait.max.ms must not be more"),
        ({"group.min.session.timeout.ms": "9000000"}, "group.min.session.timeout.ms must not be more"),
        ({"default.replication.factor": "0"}, "default.replication.factor: Value must be at least 1"),
        ({"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "5"}, "conflict topic config"),
        ({"listeners": "localhost:9092"}, "Expected NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://:99999"}, "there is no port 99999, ports end at 65535"),
        ({"listeners": "EXTERNAL://:9092"}, "No security protocol is defined for listener EXTERNAL"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "Each listener must have a different name"),
        ({"listeners": "CONTROLLER://:1", "controller.listener.names": "CONTROLLER"}, "at least one broker listener"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address"),
        ({"advertised.listeners": "SSL://host:9092"}, "Expected names from `listeners`: PLAINTEXT"),
        ({"inter.broker.listener.name": "X"}, "Expected the name of an advertised listener: PLAINTEXT"),
        ({"security.inter.broker.protocol": "SSL"}, "Expected the name of an advertised listener: PLAINTEXT"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set",
        ),
        ({"listener.security.protocol.map": "A:TELEPATHY"}, "Expected NAME:PROTOCOL pairs"),
        ({"penstock.log.format": "xml"}, "String must be one of: text, json"),
        ({"penstock.metrics.listen": "9644"}, "Expected HOST:PORT"),
        ({"penstock.cluster.id": "a b"}, "Expected letters"),
        ({"broker.rack": "x" * (MAX_CONFIG_VALUE_LENGTH + 1)}, "longer than"),
    ],
)
def test_start_is_refused_with_what_is_accepted_when_a_value_is_bad(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BrokerConfig.parse(properties)


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"inter.broker.listener.name": "inside"}, "INSIDE"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT"),
        ({"advertised.listeners": "INSIDE://a:2"}, "INSIDE"),
    ],
)
def test_brokers_use_the_named_listener_or_the_plain_one_or_the_first(properties: dict[str, str], name: str) -> None:
    listeners = {
        "listeners": "INSIDE://:9093,PLAINTEXT://:9092",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    assert BrokerConfig.parse({**listeners, **properties}).inter_broker_listener == name


def test_broker_id_gives_the_node_id_when_only_the_older_name_is_set() -> None:
    config = BrokerConfig.parse({"broker.id": "5"})
    assert (config.identity.node_id, config.get("broker.id")) == (5, 5)
    assert BrokerConfig.parse({"broker.id": "-1"}).identity.node_id == 1


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_finest_unit_wins_when_retention_is_set_in_several(properties: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig.parse(properties).topic_config({})["retention.ms"] == retention_ms


def test_layers_override_each_other_in_order_when_all_are_set() -> None:
    static = BrokerConfig.parse({"log.retention.ms": "1000", "message.max.bytes": "10"})
    config = static.with_dynamic(
        {"log.retention.ms": "2000", "log.segment.bytes": "2000000"}, {"log.retention.ms": "3000"}
    )
    topic = config.topic_config({})
    assert (topic["retention.ms"], topic["segment.bytes"], topic["max.message.bytes"]) == (3000, 2_000_000, 10)
    assert config.topic_config({"retention.ms": "4000"})["retention.ms"] == 4000
    assert config.with_dynamic({}, {}).topic_config({})["retention.ms"] == 1000
    assert static.topic_config({})["retention.ms"] == 1000


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"no.such.key": "1"}, "Unknown topic config name: no.such.key"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"segment.bytes": "1048575"}, "Value must be at least 1048576"),
        ({"min.cleanable.dirty.ratio": "2"}, "Invalid value 2.0 for .* Value must be no more than 1"),
        ({"compression.gzip.level": "0"}, "Value must be between 1 and 9 or equal to -1"),
        ({"cleanup.policy": "delete,,compact"}, "Configuration 'cleanup.policy' values must not be empty."),
        ({"leader.replication.throttled.replicas": "a"}, r"Invalid value \[a\] .* must be the literal '\*'"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, r"conflict .* \(10\) > .* \(5\)"),
    ],
)
def test_topic_override_is_refused_with_kafkas_text_when_bad(overrides: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BrokerConfig.parse({}).topic_config(overrides)


def test_partition_still_opens_when_a_stored_override_is_no_longer_valid() -> None:
    config = BrokerConfig.parse({})
    stored = {"retention.ms": "5", "segment.bytes": "1", "key.of.tomorrow": "x"}
    topic = config.stored_topic_config(stored)
    assert (topic["retention.ms"], topic["segment.bytes"]) == (5, 1_073_741_824)
    conflict = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    assert config.stored_topic_config(conflict)["min.compaction.lag.ms"] == 10


def test_log_settings_are_kafkas_defaults_when_nothing_is_configured() -> None:
    assert log_settings(BrokerConfig.parse({}).topic_config({})) == LogSettings()


def test_log_settings_carry_topic_and_broker_keys_when_both_are_set() -> None:
    config = BrokerConfig.parse({"producer.id.expiration.ms": "7", "log.segment.bytes": "1048576"})
    settings = log_settings(config.topic_config({"cleanup.policy": " compact , delete "}))
    assert settings.producer_id_expiration_ms == 7
    assert settings.segment_bytes == 1_048_576
    assert settings.cleanup_policy == {"compact", "delete"}
    assert log_settings(config.topic_config({"cleanup.policy": ""})).cleanup_policy == frozenset()


def test_section_is_filled_by_field_names_when_a_component_asks_for_one() -> None:
    class Sessions(NamedTuple):
        group_min_session_timeout_ms: int
        group_max_size: int

    config = BrokerConfig.parse({"group.max.size": "3"})
    assert read_section(Sessions, config.values) == Sessions(6000, 3)


def test_section_is_refused_when_a_field_is_not_a_key_or_has_another_type() -> None:
    class Mistaken(NamedTuple):
        group_max_sise: int
        num_partitions: str
        broker_rack: str
        node_id: int

    assert misfits(Mistaken) == [
        "Mistaken.group_max_sise: there is no key group.max.sise",
        "Mistaken.num_partitions: num.partitions is int, not str",
        "Mistaken.broker_rack: broker.rack is str | None, not str",
    ]


def test_every_section_fits_the_table_when_the_configuration_is_parsed() -> None:
    sections = {type(getattr(BrokerConfig.parse({}), each.name)) for each in fields(BrokerConfig)} & set(SECTIONS)
    assert sections == set(SECTIONS)
    assert [line for section in SECTIONS for line in misfits(section)] == []


def test_advertised_address_is_complete_when_host_and_port_are_left_open() -> None:
    config = BrokerConfig.parse({"listeners": "PLAINTEXT://0.0.0.0:0,LOCAL://[::1]:0", **_map("LOCAL")})
    endpoints = config.advertised_endpoints({"PLAINTEXT": 4711, "LOCAL": 4712}, "box")
    assert [str(endpoint) for endpoint in endpoints] == ["PLAINTEXT://box:4711", "LOCAL://[::1]:4712"]


@pytest.mark.parametrize("name", [name for name, key in BROKER_KEYS.items() if key.is_sensitive])
def test_secret_is_not_shown_when_a_configuration_is_printed(name: str) -> None:
    secret = "geheim"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    text = f'{module} required password="{secret}";' if name.endswith("jaas.config") else f"alice:{secret}"
    config = BrokerConfig.parse({"log.dirs": "/data", name: text})
    assert secret in str(config.get(name))
    assert secret not in repr(config)


def test_same_port_is_fine_when_the_addresses_differ() -> None:
    properties = {"listeners": "PLAINTEXT://127.0.0.1:9092,OTHER://127.0.0.2:9092", **_map("OTHER")}
    assert len(BrokerConfig.parse(properties).endpoints) == 2
    properties["listeners"] = "PLAINTEXT://:9092,OTHER://0.0.0.0:9092"
    with pytest.raises(ConfigError, match="Port 9092 is used by"):
        BrokerConfig.parse(properties)


def _map(name: str) -> dict[str, str]:
    return {"listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{name}:PLAINTEXT"}


@pytest.mark.parametrize(
    "settings",
    [
        {"zookeeper.connect": "a b"},
        {"zookeeper.connect": "a:1,"},
        {"zookeeper.session.timeout.ms": "0"},
        {"zookeeper.set.acl": "true"},
        {"zookeeper.ssl.keystore.type": "JKS"},
        {"penstock.zookeeper.digest": "alice"},
        {"penstock.zookeeper.sasl.mechanism": "PLAIN"},
        {"penstock.zookeeper.sasl.mechanism": "DIGEST-MD5", "penstock.zookeeper.sasl.username": "alice"},
    ],
)
def test_setting_is_refused_when_zookeeper_could_not_be_reached_with_it(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig.parse(settings)
    assert error.value.key in settings
