"""Options of a read: what is accepted, and what a mistake is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import from_json, to_json
from penstock.pipelines.options import OptionError, OptionScope, parse_options
from penstock.pipelines.source.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    Everywhere,
    OfGroup,
    PerPartition,
)
from penstock.pipelines.source.read_options import SourceOptions, parse_source_options

SERVERS = {"kafka.bootstrap.servers": "h:9092"}


def parse(place: OptionScope = OptionScope.STREAM_READ, **given: str) -> SourceOptions:
    named = {name.replace("__", "."): value for name, value in given.items()}
    subscription = {} if {"subscribe", "assign", "subscribePattern"} & named.keys() else {"subscribe": "a"}
    return parse_source_options(SERVERS | subscription | named, place)


def batch(**given: str) -> SourceOptions:
    return parse(OptionScope.BATCH_READ, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscrib": "t"}, "there is no option subscrib; did you mean subscribe?"),
        ({"maxoffsetpertrigger": "5"}, "did you mean maxOffsetsPerTrigger?"),
        ({"maxOffsetsPerTrigger": "many"}, "option maxOffsetsPerTrigger is 'many'; it accepts a whole number of"),
        ({"minPartitions": "0"}, "option minPartitions is '0'; it accepts a whole number of at least 1"),
        ({"maxRecordsPerPartition": "-1"}, "option maxRecordsPerPartition is '-1'"),
        ({"includeHeaders": "yes"}, "option includeHeaders is 'yes'; it accepts true or false"),
        ({"failOnDataLoss": ""}, "option failOnDataLoss is ''; it accepts true or false"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay is 'soon'; it accepts a duration such as"),
        ({"startingOffsets": "begin"}, "option startingOffsets is 'begin'; it accepts earliest, latest, group"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "option startingOffsets is"),
        ({"startingOffsets": '{"a":[0]}'}, "option startingOffsets is"),
        ({"startingOffsets": "{}"}, "option startingOffsets is"),
        ({"startingOffsets": "group"}, "the group must be given as startingGroup or kafka.group.id"),
        ({"startingGroup": "g", "startingOffsets": "latest"}, "option startingGroup cannot be given together with"),
        ({"startingTimestamp": "yesterday"}, "it accepts a time in milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": "5"}, "option startingOffsetsByTimestamp is '5'; it accepts milliseconds per"),
        ({"startingOffsetsByTimestampStrategy": "skip"}, "it accepts one of error, latest"),
        ({"endingOffsets": "latest"}, "option endingOffsets is not valid in a streaming read, only in a batch read"),
        ({"endingTimestamp": "5"}, "option endingTimestamp is not valid in a streaming read"),
        ({"subscribe": " , "}, "option subscribe is"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "exactly one of the options assign, subscribe, subscribePattern"),
        ({"subscribePattern": "("}, "option subscribePattern is '('; it accepts a regular expression"),
        ({"assign": '{"a":["x"]}'}, 'option assign is \'{"a":["x"]}\'; it accepts partitions per topic'),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "more than maxOffsetsPerTrigger=5"),
        ({"partition.metadata.cache.ttl.ms": "0"}, "at least 1, or -1 for no caching"),
        ({"kafka.auto.offset.reset": "x"}, "option kafka.auto.offset.reset is not supported: use the option"),
        ({"kafka.enable.auto.commit": "x"}, "option kafka.enable.auto.commit is not supported"),
        ({"kafka.key.deserializer": "x"}, "keys arrive as binary"),
        ({"kafka.value.deserializer": "x"}, "values arrive as binary"),
        ({"kafka.interceptor.classes": "x"}, "interceptors are Java classes"),
        ({"kafka.isolation.level": "dirty"}, "it accepts one of read_uncommitted, read_committed"),
        ({"kafka.max.partition.fetch.bytes": "big"}, "option kafka.max.partition.fetch.bytes is 'big'"),
        ({"kafka.bootstrap.servers": ""}, "option kafka.bootstrap.servers must be given"),
        ({"fetcher": "direct", "kafka.ssl.engine.id": "x"}, "ssl.engine.id is for librdkafka alone; use auto"),
        ({"kafka.sasl.jaas.config": "com.sun.Krb5LoginModule required;"}, "is not one of Kafka's own"),
        ({"kafka.ssl.truststore.location": "/t.jks"}, "names a JKS store, which only Java reads; it accepts PEM"),
    ],
)  # fmt: skip
def test_error_names_the_option_when_it_is_wrong(given: dict[str, str], message: str) -> None:
    subscription = {} if {"subscribe", "assign", "subscribePattern"} & given.keys() else {"subscribe": "a"}
    with pytest.raises(OptionError, match=re.escape(message)):
        parse_source_options(SERVERS | subscription | given, OptionScope.STREAM_READ)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "a batch does not accept latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "a batch does not accept latest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "a batch does not accept earliest"),
        (
            {"startingOffsets": '{"a":{"0":9}}', "endingOffsets": '{"a":{"0":5}}'},
            "is 9 for a-0, beyond endingOffsets=5",
        ),
        ({"startingOffsets": '{"a":{"0":9}}', "endingOffsets": '{"a":{"1":15}}'}, "must name the same partitions"),
        ({"startingTimestamp": "9", "endingTimestamp": "5"}, "later than endingTimestamp=5"),
    ],
)
def test_error_names_the_option_when_a_batch_cannot_use_it(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        batch(**given)


def test_positions_are_understood_when_given_in_any_way() -> None:
    zero, one = TopicPartition("a", 0), TopicPartition("a", 1)
    assert parse().starting == Everywhere(LATEST)
    assert batch().starting == Everywhere(EARLIEST)
    assert batch().ending == Everywhere(LATEST)
    assert parse(startingOffsets="Earliest").starting == Everywhere(EARLIEST)
    assert parse(startingOffsets='{"a":{"0":7,"1":-1}}').starting == PerPartition({zero: 7, one: LATEST})
    assert parse(startingTimestamp="77").starting == AtTimestamp(77)
    assert batch(endingOffsetsByTimestamp='{"a":{"0":5}}').ending == AtTimestamp(0, {zero: 5})
    assert parse(startingGroup="g").starting == OfGroup("g")
    assert parse(startingOffsets="group", kafka__group__id="mine").starting == OfGroup("mine")


def test_timestamp_wins_when_offsets_are_given_as_well() -> None:
    assert parse(startingOffsets="earliest", startingTimestamp="5").starting == AtTimestamp(5)


@pytest.mark.parametrize(
    ("given", "moves"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"a":{"0":3,"1":-1}}'}, True),
        ({"startingOffsets": '{"a":{"0":3,"1":-2}}'}, False),
        ({"startingTimestamp": "5"}, False),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}, True),
        ({"startingGroup": "g"}, False),
    ],
)
def test_start_moves_when_it_depends_on_the_latest_offset(given: dict[str, str], moves: bool) -> None:
    assert parse(OptionScope.STREAM_READ, **given).start_moves is moves


def test_group_id_is_the_same_after_a_restart_when_derived_from_a_prefix() -> None:
    first = parse(groupIdPrefix="lag", subscribe="b,a").group_id
    assert first.startswith("lag-")
    assert parse(groupIdPrefix="lag", subscribe="a,b").group_id == first
    assert parse(groupIdPrefix="lag", subscribe="a").group_id != first
    assert parse(groupIdPrefix="lag", kafka__group__id="given").group_id == "given"
    assert parse().group_id == ""


def test_limits_have_no_effect_when_the_read_is_a_batch() -> None:
    options = batch(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2", maxTriggerDelay="1s")
    assert options.limits.max_offsets is None


@pytest.mark.parametrize(("text", "milliseconds"), [("250", 250), ("2s", 2000), ("15m", 900_000), ("1h", 3_600_000)])
def test_durations_are_understood_when_they_have_a_unit(text: str, milliseconds: int) -> None:
    assert parse(maxTriggerDelay=text).limits.max_delay_ms == milliseconds


def test_client_settings_are_translated_when_java_names_them_otherwise() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"q";'
    options = parse(
        kafka__security__protocol="SASL_SSL",
        kafka__sasl__mechanism="PLAIN",
        kafka__sasl__jaas__config=jaas,
        kafka__ssl__truststore__location="/ca.pem",
        kafka__max__poll__records="7",
        kafka__fetch__max__wait__ms="50",
    ).fetch
    assert options.is_direct
    assert options.settings == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": 'p"q',
        "ssl.ca.location": "/ca.pem",
        "fetch.wait.max.ms": "50",
    }
    assert options.max_wait_ms == 50
    assert parse().fetch.is_direct
    assert parse(kafka__security__protocol="SSL").fetch.is_direct
    assert not parse(kafka__security__protocol="SSL", kafka__ssl__engine__id="x").fetch.is_direct
    assert not parse(fetcher="librdkafka").fetch.is_direct


def test_unused_options_of_the_other_direction_are_refused_when_writing() -> None:
    with pytest.raises(OptionError, match="option subscribe is not valid in a batch write"):
        parse_options(SERVERS | {"subscribe": "a"}, OptionScope.BATCH_WRITE)


def test_offsets_look_like_the_connectors_when_written_as_json() -> None:
    offsets = {TopicPartition("b", 10): 3, TopicPartition("b", 2): 1, TopicPartition("a", 0): 0}
    assert to_json(offsets) == {"a": {"0": 0}, "b": {"2": 1, "10": 3}}
    assert from_json(to_json(offsets)) == offsets


def test_options_beat_the_client_file_when_both_are_given(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=far:9093\nsecurity.protocol=SSL\nssl.truststore.location=/a.pem\n")
    parsed = parse_options({**SERVERS, "kafkaConfigFile": str(file), "subscribe": "a"}, OptionScope.BATCH_READ)
    assert parsed.kafka == {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SSL",
        "ssl.truststore.location": "/a.pem",
    }
    with pytest.raises(OptionError, match=r"kafkaConfigFile: .*nowhere"):
        parse_options({**SERVERS, "kafkaConfigFile": str(tmp_path / "nowhere")}, OptionScope.BATCH_WRITE)
