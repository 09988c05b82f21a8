from __future__ import annotations

import pytest

from penstock.pipelines.options import OptionError, OptionScope
from penstock.pipelines.topic_writing.write_options import SinkOptions, parse_sink_options

SERVERS = {"kafka.bootstrap.servers": "b:9092"}
NAMED = {"queryId": "q", "batchId": "3", "sinkName": "s"}


def parse(place: OptionScope = OptionScope.BATCH_WRITE, /, **given: str) -> SinkOptions:
    return parse_sink_options(SERVERS | {name.replace("__", "."): value for name, value in given.items()}, place)


def test_streams_promise_more_than_batches_when_nothing_is_said() -> None:
    assert parse(OptionScope.STREAM_WRITE).guarantee == "exactly-once"
    assert parse(OptionScope.BATCH_WRITE).guarantee == "at-least-once"
    assert parse(OptionScope.STREAM_WRITE, guarantee="at-least-once").guarantee == "at-least-once"


def test_a_batch_must_be_named_when_it_is_to_be_written_exactly_once() -> None:
    with pytest.raises(OptionError, match="also needs queryId, sinkName"):
        parse(guarantee="exactly-once", batchId="0")
    parsed = parse(guarantee="exactly-once", **NAMED)
    assert (parsed.query_id, parsed.batch_id, parsed.sink_name) == ("q", 3, "s")


def test_keys_go_where_java_puts_them_and_nothing_is_lost_when_nothing_is_said() -> None:
    settings = parse().settings
    assert settings["partitioner"] == "murmur2_random"
    assert settings["enable.idempotence"] == "true"
    assert parse(kafka__acks="1").settings["enable.idempotence"] == "false"
    assert parse(kafka__acks="all").settings["enable.idempotence"] == "true"


def test_java_names_are_translated_when_they_are_a_producers() -> None:
    settings = parse(
        **{
            "kafka.delivery.timeout.ms": "5000",
            "kafka.max.request.size": "2000000",
            "kafka.buffer.memory": "33554432",
            "kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "kafka.compression.type": "zstd",
            "kafka.max.block.ms": "1",
        }
    ).settings
    expected = {
        "message.timeout.ms": "5000",
        "message.max.bytes": "2000000",
        "queue.buffering.max.kbytes": "32768",
        "partitioner": "random",
        "compression.type": "zstd",
    }
    assert {name: settings[name] for name in expected} == expected
    assert "max.block.ms" not in settings


def test_records_do_not_outlive_their_transaction_when_its_timeout_is_short() -> None:
    settings = parse(OptionScope.STREAM_WRITE, **{"kafka.transaction.timeout.ms": "20000"}).settings
    assert settings["transaction.timeout.ms"] == settings["message.timeout.ms"] == "20000"
    assert parse(OptionScope.STREAM_WRITE).settings["transaction.timeout.ms"] == "300000"


def test_only_what_reaches_brokers_is_shared_when_markers_are_read_by_another_client() -> None:
    given = {"kafka.linger.ms": "5", "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    assert parse(**given).client_settings == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"guarantee": "twice"}, "option guarantee is 'twice'; it accepts one of exactly-once, at-least-once"),
        ({"batchId": "-1"}, "option batchId is '-1'; it accepts a whole number of at least 0"),
        ({"topic": ""}, "option topic is ''"),
        ({"subscribe": "t"}, "option subscribe is not valid in"),
        ({"kafka.key.serializer": "x"}, "option kafka.key.serializer is not supported"),
        ({"kafka.value.serializer": "x"}, "option kafka.value.serializer is not supported"),
        (
            {"kafka.transactional.id": "x"},
            "option kafka.transactional.id is not supported: .* use the option guarantee",
        ),
        (
            {"kafka.partitioner.class": "com.example.Mine"},
            "option kafka.partitioner.class is 'com.example.Mine'; it accepts",
        ),
        ({"kafka.buffer.memory": "much"}, "option kafka.buffer.memory is 'much'; it accepts a number of bytes"),
        ({"kafka.delivery.timeout.ms": "soon"}, "option kafka.delivery.timeout.ms is 'soon'; it accepts milliseconds"),
        ({"guarantee": "exactly-once", **NAMED, "kafka.acks": "1"}, "option kafka.acks is '1'; it accepts all"),
        (
            {"guarantee": "exactly-once", **NAMED, "kafka.enable.idempotence": "false"},
            "option kafka.enable.idempotence is 'false'; it accepts true",
        ),
        (
            {"guarantee": "exactly-once", **NAMED, "kafka.transaction.timeout.ms": "1"},
            "option kafka.transaction.timeout.ms is '1'; it accepts milliseconds, from 1000",
        ),
    ],
)
def test_an_option_is_refused_by_name_when_it_cannot_be_used(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(**given)
