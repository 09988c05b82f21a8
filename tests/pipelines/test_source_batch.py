"""Batch reads: `spark.read.format("penstock")`."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.pipelines.topics import Topics

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture(scope="module")
def hundred(topics: Topics) -> str:
    """Numbers 0 to 99 in two partitions: even ones and odd ones."""
    topic = topics.create()
    topics.produce(topic, range(100))
    return topic


def read(spark: SparkSession, topics: Topics, **options: Any) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", topics.bootstrap)
    return reader.options(**{name.replace("__", "."): value for name, value in options.items()}).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


@pytest.mark.parametrize("fetcher", ["direct", "librdkafka"])
def test_rows_are_complete_when_everything_is_read(
    spark: SparkSession, topics: Topics, hundred: str, fetcher: str
) -> None:
    frame = read(spark, topics, subscribe=hundred, includeHeaders="true", fetcher=fetcher, minPartitions=5)
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint"),
        ("timestamp", "timestamp"), ("timestampType", "int"), ("headers", "array<struct<key:string,value:binary>>"),
    ]  # fmt: skip
    assert 5 <= frame.rdd.getNumPartitions() <= 6
    rows = {int(row.value): row for row in frame.collect()}
    assert sorted(rows) == list(range(100))
    for number, row in rows.items():
        assert row.key == (None if number % 3 == 0 else f"key {number}".encode())
        assert (row.topic, row.partition, row.offset) == (hundred, number % 2, number // 2)
        assert row.timestamp == datetime.datetime.fromtimestamp((START + number) / 1000, datetime.UTC).replace(
            tzinfo=None
        )
        assert row.timestampType == 0
        headers = None if row.headers is None else [(header.key, header.value) for header in row.headers]
        assert headers == ([("number", str(number).encode()), ("nothing", None)] if number % 5 == 0 else None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"TOPIC":{"0":10,"1":-2}}', "endingOffsets": '{"TOPIC":{"0":12,"1":2}}'}, [1, 3, 20, 22]),
        ({"startingTimestamp": START + 97, "endingTimestamp": START + 99}, [97, 98]),
        (
            {
                "startingOffsetsByTimestamp": f'{{"TOPIC":{{"0":{START + 95},"1":{START + 999}}}}}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            [96, 98],
        ),
        (
            {"endingOffsetsByTimestamp": f'{{"TOPIC":{{"0":{START + 3},"1":{START}}}}}', "maxRecordsPerPartition": 1},
            [0, 2],
        ),
        ({"startingGroup": "nobody", "endingOffsets": '{"TOPIC":{"0":1,"1":1}}'}, [0, 1]),
    ],
)
def test_part_of_a_topic_is_read_when_bounds_are_given(
    spark: SparkSession, topics: Topics, hundred: str, options: dict[str, Any], expected: list[int]
) -> None:
    named = {name: str(value).replace("TOPIC", hundred) for name, value in options.items()}
    assert numbers(read(spark, topics, subscribe=hundred, **named)) == expected


def test_topics_are_found_when_assigned_or_matched(spark: SparkSession, topics: Topics, hundred: str) -> None:
    assert numbers(read(spark, topics, assign=f'{{"{hundred}":[1]}}')) == list(range(1, 100, 2))
    assert read(spark, topics, subscribePattern=f"{hundred[:-2]}.*").count() == 100
    topics.commit("readers", hundred, {0: 49, 1: 50})
    frame = read(spark, topics, subscribe=hundred, startingOffsets="group", kafka__group__id="readers")
    assert numbers(frame) == [98]


def test_there_are_no_rows_when_the_topic_is_empty(spark: SparkSession, topics: Topics) -> None:
    assert numbers(read(spark, topics, subscribe=topics.create(2))) == []


def test_aborted_records_are_hidden_when_reading_committed(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(1)
    topics.produce_transactions(topic, (True, [1, 2]), (False, [3, 4]), (True, [5]), (False, [6]))
    for fetcher in ("direct", "librdkafka"):
        chosen = {"subscribe": topic, "fetcher": fetcher}
        assert numbers(read(spark, topics, **chosen, kafka__isolation__level="read_committed")) == [1, 2, 5]
        assert numbers(read(spark, topics, **chosen)) == [1, 2, 3, 4, 5, 6]
        # Every task's range ends among markers or aborted records at times; it must end all the same.
        assert numbers(read(spark, topics, **chosen, maxRecordsPerPartition=1)) == [1, 2, 3, 4, 5, 6]


def test_every_codec_and_stamp_is_read_when_topics_differ(spark: SparkSession, topics: Topics) -> None:
    made = [topics.create(1, message_timestamp_type="LogAppendTime") for _ in range(4)]
    for topic, codec in zip(made, ("gzip", "snappy", "lz4", "zstd"), strict=True):
        producer = topics.producer(**{"compression.type": codec})
        for number in range(500):
            producer.produce(topic, f"{number} of many alike".encode(), partition=0)
        producer.flush()
    frame = read(spark, topics, subscribe=",".join(made), kafka__max__partition__fetch__bytes=3000)
    assert frame.select("value").distinct().count() == 500
    assert frame.where("timestampType = 1 and timestamp > timestamp'2024-06-01'").count() == 2000


@pytest.mark.parametrize("fetcher", ["direct", "librdkafka"])
def test_loss_is_an_error_or_a_warning_when_records_expired(spark: SparkSession, topics: Topics, fetcher: str) -> None:
    topic = topics.create(1)
    topics.produce(topic, range(20), 1)
    topics.delete_records(topic, 0, 15)
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":3}}}}', "fetcher": fetcher}
    with pytest.raises(PySparkException, match=f"topic {topic} partition 0: offsets 3 to 14 are no longer there"):
        read(spark, topics, **options).collect()
    assert numbers(read(spark, topics, **options, failOnDataLoss="false")) == [15, 16, 17, 18, 19]
    assert numbers(read(spark, topics, subscribe=topic, fetcher=fetcher)) == [15, 16, 17, 18, 19]


def test_errors_name_what_is_wrong_when_a_read_cannot_be(spark: SparkSession, topics: Topics, hundred: str) -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"subscrib": hundred}, "there is no option subscrib; did you mean subscribe?"),
        ({"subscribe": "no-such-topic"}, "no-such-topic: no such topic or partition"),
        ({"assign": f'{{"{hundred}":[7]}}'}, f"{hundred}-7: no such topic or partition"),
        ({"subscribe": hundred, "kafka__frobnicate": "1"}, "option kafka.frobnicate is not a setting"),
        ({"subscribe": hundred, "startingTimestamp": START + 10**6}, "is as late as the starting timestamp"),
        ({"subscribe": hundred, "endingOffsets": f'{{"{hundred}":{{"0":1,"1":999}}}}'}, "before endingOffsets=999"),
        ({"subscribe": hundred, "startingOffsets": f'{{"{hundred}":{{"0":1}}}}'}, f"missing are {hundred}-1"),
    ]
    for options, message in mistakes:
        with pytest.raises(PySparkException) as caught:
            read(spark, topics, **options).collect()
        assert message in str(caught.value)
