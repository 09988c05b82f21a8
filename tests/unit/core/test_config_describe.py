"""What DescribeConfigs shows, compared with the answers of a running Kafka 4.3.1."""

from __future__ import annotations

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_default_broker,
    describe_topic,
)
from penstock.core.config.resources import ConfigSource
from penstock.core.config.table import BROKER_KEYS, TOPIC_KEYS_BY_NAME
from penstock.core.config.types import ConfigKind

STATIC = BrokerConfig.parse({"log.retention.hours": "168", "offsets.topic.replication.factor": "1"})
CONFIG = STATIC.with_dynamic({"log.retention.ms": "7", "min.insync.replicas": "1"}, {"log.retention.ms": "5000000"})


def synonyms(entry: ConfigEntry) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, int(each.source)) for each in entry.synonyms]


def one(entries: list[ConfigEntry]) -> ConfigEntry:
    (entry,) = entries
    return entry


def test_topic_override_comes_first_when_every_layer_has_a_value() -> None:
    entry = one(describe_topic(CONFIG, {"retention.ms": "77"}, ["retention.ms", "no.such.key"]))
    assert (entry.value, entry.source, entry.read_only, entry.is_sensitive) == ("77", 1, False, False)
    assert entry.kind is ConfigKind.LONG
    assert synonyms(entry) == [
        ("retention.ms", "77", 1),
        ("log.retention.ms", "5000000", 2),
        ("log.retention.ms", "7", 3),
        ("log.retention.hours", "168", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_synonyms_are_empty_when_only_the_other_name_of_the_key_is_set() -> None:
    entry = one(describe_topic(STATIC, {}, ["segment.ms"]))
    assert (entry.value, entry.source, synonyms(entry)) == ("604800000", ConfigSource.DEFAULT_CONFIG, [])
    hourly = BrokerConfig.parse({"log.retention.hours": "1"})
    entry = one(describe_topic(hourly, {}, ["retention.ms"]))
    assert (entry.value, entry.source, synonyms(entry)) == ("3600000", ConfigSource.DEFAULT_CONFIG, [])


def test_broker_default_is_the_source_when_the_topic_has_no_override() -> None:
    entry = one(describe_topic(CONFIG, {}, ["min.insync.replicas"]))
    assert (entry.value, int(entry.source)) == ("1", 3)
    assert synonyms(entry) == [("min.insync.replicas", "1", 3), ("min.insync.replicas", "1", 5)]
    entry = one(describe_topic(CONFIG, {}, ["leader.replication.throttled.replicas"]))
    assert (entry.value, int(entry.source), synonyms(entry)) == ("", 5, [])


def test_nobody_has_set_the_minimum_of_replicas_when_a_broker_is_new() -> None:
    """Kafka 4.3 stores it for all brokers at the first start, for the sake of eligible leader replicas."""
    new = BrokerConfig.parse({})
    for entry in (*describe_topic(new, {}, ["min.insync.replicas"]), *describe_broker(new, ["min.insync.replicas"])):
        assert (entry.value, entry.source) == ("1", ConfigSource.DEFAULT_CONFIG)
        assert synonyms(entry) == [("min.insync.replicas", "1", 5)]
    assert describe_default_broker(new) == []
    given = BrokerConfig.parse({"min.insync.replicas": "2"})
    entry = one(describe_topic(given, {}, ["min.insync.replicas"]))
    assert (entry.value, entry.source) == ("2", ConfigSource.STATIC_BROKER_CONFIG)


def test_override_is_shown_as_parsed_when_it_has_blanks() -> None:
    entry = one(describe_topic(CONFIG, {"cleanup.policy": "delete , compact"}, ["cleanup.policy"]))
    assert entry.value == "delete,compact"


def test_topic_is_described_when_a_stored_override_is_no_longer_valid() -> None:
    entries = describe_topic(CONFIG, {"segment.bytes": "1", "key.of.tomorrow": "x"})
    assert {entry.name: entry.value for entry in entries}["segment.bytes"] == "1073741824"


def test_every_key_is_there_with_documentation_when_no_names_are_given() -> None:
    no_names: tuple[list[str] | None, ...] = (None, [])
    for names in no_names:
        entries = describe_topic(CONFIG, {}, names)
        assert [entry.name for entry in entries] == list(TOPIC_KEYS_BY_NAME)
        assert all(entry.documentation for entry in entries)
    assert [entry.name for entry in describe_broker(CONFIG)] == list(BROKER_KEYS)


def test_broker_key_shows_its_layers_when_described() -> None:
    entries = {entry.name: entry for entry in describe_broker(CONFIG)}
    retention = entries["log.retention.ms"]
    assert (retention.value, int(retention.source), retention.read_only) == ("5000000", 2, False)
    assert [source for _, _, source in synonyms(retention)] == [2, 3, 4, 5]
    hours = entries["log.retention.hours"]
    assert (hours.value, int(hours.source), hours.read_only) == ("168", 4, True)
    assert synonyms(hours) == [("log.retention.hours", "168", 4), ("log.retention.hours", "168", 5)]
    factor = entries["offsets.topic.replication.factor"]
    assert factor.kind is ConfigKind.SHORT
    assert synonyms(factor) == [
        ("offsets.topic.replication.factor", "1", 4),
        ("offsets.topic.replication.factor", "3", 5),
    ]
    flush = entries["log.flush.interval.ms"]
    assert (flush.value, int(flush.source), synonyms(flush)) == (None, 5, [])


def test_unknown_key_is_hidden_when_it_might_be_a_misspelt_password() -> None:
    config = BrokerConfig.parse({"ssl.keystore.pasword": "secret"})
    entry = one(describe_broker(config, ["ssl.keystore.pasword"]))
    assert (entry.value, entry.is_sensitive, entry.kind, int(entry.source)) == (None, True, ConfigKind.UNKNOWN, 4)
    assert "secret" not in repr(entry)


def test_only_cluster_wide_settings_are_shown_when_the_default_broker_is_described() -> None:
    entries = describe_default_broker(CONFIG)
    assert [(entry.name, entry.value, int(entry.source)) for entry in entries] == [
        ("log.retention.ms", "7", 3),
        ("min.insync.replicas", "1", 3),
    ]
    assert all(synonyms(entry) == [(entry.name, entry.value, 3)] for entry in entries)
    assert describe_default_broker(CONFIG, ["log.retention.ms"]) == entries[:1]
