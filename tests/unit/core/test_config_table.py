"""The table against what Kafka 4.3.1 says of itself (recorded from its ConfigDef), and 3.9.1 of ZooKeeper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.group import group_config
from penstock.core.config.table import (
    BROKER_KEYS,
    BROKER_SECTIONS,
    GROUP_KEYS_BY_NAME,
    IGNORED,
    TOPIC_KEYS_BY_NAME,
    reason_ignored,
)
from penstock.core.config.types import ConfigError, ConfigKey, NeutralOnly, Range, RangeOr, format_value

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "kafka_config_facts.json").read_text())

# From ZkConfigs of Kafka 3.9, the last that knows ZooKeeper: kind, importance, default, range.
ZOOKEEPER_FACTS: dict[str, tuple[str, str, str | None, str | None]] = {
    "zookeeper.connect": ("STRING", "high", None, None),
    "zookeeper.session.timeout.ms": ("INT", "high", "18000", None),
    "zookeeper.connection.timeout.ms": ("INT", "high", None, None),
    "zookeeper.max.in.flight.requests": ("INT", "high", "10", "[1,...]"),
    "zookeeper.set.acl": ("BOOLEAN", "high", "false", None),
    "zookeeper.ssl.client.enable": ("BOOLEAN", "medium", "false", None),
    "zookeeper.ssl.keystore.location": ("STRING", "medium", None, None),
    "zookeeper.ssl.keystore.password": ("PASSWORD", "medium", None, None),
    "zookeeper.ssl.keystore.type": ("STRING", "medium", None, None),
    "zookeeper.ssl.truststore.location": ("STRING", "medium", None, None),
    "zookeeper.ssl.truststore.type": ("STRING", "medium", None, None),
    "zookeeper.ssl.endpoint.identification.algorithm": ("STRING", "low", "HTTPS", None),
}
FACTS["broker"] |= {
    name: {"kind": kind, "importance": importance, "default": default, "range": limits, "mode": "read-only"}
    for name, (kind, importance, default, limits) in ZOOKEEPER_FACTS.items()
}

# From QuotaConfig of Kafka 4.3, which its broker has beside its ConfigDef because they are dynamic alone. All three are
# alike.
FACTS["broker"] |= {
    name: {
        "kind": "LONG",
        "importance": "medium",
        "default": str(2**63 - 1),
        "range": "[0,...]",
        "mode": "cluster-wide",
    }
    for name in (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}

# Where we differ, and why.
DIFFERENT_RANGE = {
    "zookeeper.session.timeout.ms": "Kafka takes 0, which means nothing",
    "zookeeper.connection.timeout.ms": "Kafka takes 0, which means nothing",
    "zookeeper.max.in.flight.requests": "kazoo's queue holds so many",
}
DIFFERENT_DEFAULT = {
    "zookeeper.max.in.flight.requests": "10 are slow where there are many partitions",
    "zookeeper.ssl.keystore.type": "there is no other",
    "zookeeper.ssl.truststore.type": "there is no other",
    "node.id": "Kafka has none and demands it",
    "log.dir": "/tmp does not survive a reboot",
    "controller.listener.names": "Kafka has none and demands it",
    "offsets.topic.segment.bytes": "a new coordinator reads all of it",
    "transaction.state.log.segment.bytes": "the same",
}
DIFFERENT_MODE = {
    "listeners": "we listen at start only",
    "listener.security.protocol.map": "we listen at start only",
}
# Kafka's own tests alone use it, and DescribeConfigs does not list it.
HIDDEN_TOPIC_KEYS = {"internal.segment.bytes"}
TIERING_KEYS = [name for name, key in TOPIC_KEYS_BY_NAME.items() if isinstance(key.rule, NeutralOnly)]

# Kafka 4 lost them with ZooKeeper; the facts are those of Kafka 3.9, which are not recorded.
OLDER_KEYS = {"controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms"}
# Kafka's authorizer reads them, and its table of keys does not have them.
OLDER_KEYS |= {"super.users", "allow.everyone.if.no.acl.found"}

# Ours, and Confluent's.
NOT_KAFKAS = ("penstock.", "confluent.")

OURS = [
    ("broker", key)
    for key in BROKER_KEYS.values()
    if not key.name.startswith(NOT_KAFKAS) and key.name not in OLDER_KEYS
]
OURS += [("topic", key) for key in TOPIC_KEYS_BY_NAME.values() if not key.name.startswith(NOT_KAFKAS)]


@pytest.mark.parametrize(("scope", "key"), OURS, ids=lambda each: each if isinstance(each, str) else each.name)
def test_key_agrees_with_kafka_when_kafka_has_it(scope: str, key: ConfigKey) -> None:
    fact = FACTS[scope][key.name]
    assert key.kind.name == fact["kind"]
    assert key.importance == fact["importance"]
    if key.name not in DIFFERENT_MODE:
        assert key.mode == fact["mode"]
    if key.name not in DIFFERENT_DEFAULT:
        assert format_value(key.default) == fact["default"]
    if key.name not in DIFFERENT_RANGE:
        assert _range_text(key) == fact["range"]


def _range_text(key: ConfigKey) -> str | None:
    match key.rule:
        case Range(low, None):
            return f"[{low},...]"
        case Range(low, high):
            return f"[{low},...,{high}]"
        case RangeOr(low, high, other):
            return f"[{low},...,{high}] or {other}"
        case NeutralOnly(_, _, int(low)):
            return f"[{low},...]"
        case _:
            return None


def test_every_topic_key_of_kafka_is_there_when_kafka_lists_it() -> None:
    assert FACTS["topic"].keys() - TOPIC_KEYS_BY_NAME.keys() == HIDDEN_TOPIC_KEYS
    assert len(TOPIC_KEYS_BY_NAME) == 33 + 1 + 4  # and our tags, and Confluent's check of schemas


@pytest.mark.parametrize("name", TIERING_KEYS)
def test_neutral_value_alone_is_accepted_when_a_key_is_about_tiers(name: str) -> None:
    """Tools that copy a topic's settings write the defaults of these keys out, and were refused."""
    config = BrokerConfig.parse({})
    neutral = str(FACTS["topic"][name]["default"])
    assert config.topic_config({name: neutral})[name] == TOPIC_KEYS_BY_NAME[name].default
    other = {"false": "true", "-2": "1000"}[neutral]
    with pytest.raises(ConfigError) as caught:
        config.topic_config({name: other})
    reason = f"tiered storage is not served, so it must be {neutral}"
    assert caught.value.message == f"Invalid value {other} for configuration {name}: {reason}"


@pytest.mark.parametrize("name", ["local.retention.ms", "local.retention.bytes"])
def test_value_is_refused_with_kafkas_words_when_kafka_refuses_it_too(name: str) -> None:
    with pytest.raises(ConfigError, match="Value must be at least -2"):
        BrokerConfig.parse({}).topic_config({name: "-3"})


def test_every_broker_key_of_kafka_is_known_when_it_has_no_effect() -> None:
    unexplained = [name for name in FACTS["broker"] if name not in BROKER_KEYS and reason_ignored(name) is None]
    assert unexplained == []


def test_synonyms_are_kafkas_when_a_topic_key_has_a_broker_default() -> None:
    ours = {name: [each.name for each in key.synonyms] for name, key in TOPIC_KEYS_BY_NAME.items() if key.synonyms}
    # Those of the tiering keys are ignored with a warning, so that a server.properties that sets them is accepted.
    shown = TOPIC_KEYS_BY_NAME.keys() - set(TIERING_KEYS)
    theirs = {name: names for name, names in FACTS["synonyms"].items() if name in shown}
    assert ours == theirs


def test_every_synonym_is_a_broker_key_when_looked_up() -> None:
    missing = [
        each.name
        for key in (*TOPIC_KEYS_BY_NAME.values(), *GROUP_KEYS_BY_NAME.values())
        for each in key.synonyms
        if each.name not in BROKER_KEYS
    ]
    assert missing == []


def test_group_defaults_are_those_of_the_group_table_when_nothing_is_configured() -> None:
    assert group_config(BrokerConfig.parse({}), {}) == {name: key.default for name, key in GROUP_KEYS_BY_NAME.items()}


def test_topic_defaults_are_those_of_the_topic_table_when_nothing_is_configured() -> None:
    defaults = BrokerConfig.parse({}).topic_config({})
    assert {name: defaults[name] for name in TOPIC_KEYS_BY_NAME} == {
        name: key.default for name, key in TOPIC_KEYS_BY_NAME.items()
    }


@pytest.mark.parametrize("key", [key for _, key in OURS], ids=lambda key: key.name)
def test_default_is_accepted_when_written_out(key: ConfigKey) -> None:
    text = format_value(key.default)
    if text is not None:
        assert key.parse(text) == key.default


def test_documentation_is_a_sentence_when_shown_to_a_user() -> None:
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS_BY_NAME.values(), *GROUP_KEYS_BY_NAME.values()):
        assert key.documentation.endswith("."), key.name
        assert key.documentation[0].isupper() or key.documentation[0] == "`", key.name


def test_no_key_is_both_served_and_ignored_when_named_in_full() -> None:
    ignored = {name for reason in IGNORED for name in reason.names}
    assert ignored & BROKER_KEYS.keys() == set()
    assert sum(len(keys) for _, keys in BROKER_SECTIONS) == len(BROKER_KEYS)
