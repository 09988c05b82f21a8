"""Topics as tables: what columns they have, and their rows, with and without Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

import penstock
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.core.types import TopicPartition
from penstock.pipelines.errors import TableError
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.sql import Tables
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.connection import KafkaConnection
from penstock.pipelines.tables.scan import TableScan, frame
from penstock.pipelines.tables.source import table_options
from tests.pipelines.table_topics import ORDER, TableTopics, avro
from tests.shared_brokers import SHARED_BROKER

OURS = ["_key", "_headers", "_partition", "_offset", "_timestamp"]


@pytest.fixture(scope="module")
def topics() -> Iterator[TableTopics]:
    config = SHARED_BROKER | {"auto.create.topics.enable": "false"}
    with penstock.Broker(config=config) as broker, penstock.Registry(broker) as registry:
        yield TableTopics(broker.bootstrap_servers, registry.url)


def test_a_topic_has_the_columns_of_its_schema_and_ours(topics: TableTopics) -> None:
    topic = topics.create(partitions=2)
    schema_id = topics.orders(topic, 20, partitions=2)
    with Catalog(topics.connection) as catalog:
        table = catalog.table(topic)
        assert [each.name for each in table.columns] == ["id", "customer", "_offset_", *OURS]
        assert [each.sql_type for each in table.columns] == [
            "bigint", "string", "double", "string", "array<struct<key:string,value:binary>>", "int", "bigint",
            "timestamp",
        ]  # fmt: skip
        assert table.note == f"Avro schema {schema_id}, version 1 of subject {topic}-value"
        assert table.partitions == 2
        assert catalog.table(f"{topic}$latest").is_latest
        assert topic in catalog.topics()
        assert not any(each.startswith("_") for each in catalog.topics())
        assert "_schemas" in catalog.topics(is_internal_wanted=True)
    assert pickle.loads(pickle.dumps(table)) == table


def test_rows_are_what_was_written(topics: TableTopics) -> None:
    topic = topics.create(partitions=2)
    topics.orders(topic, 5, partitions=2)
    topics.write(topic, [{"key": "gone", "value": None, "partition": 1, "headers": [("h", b"1")], "timestamp": 1}])
    rows = sorted(topics.rows(topic), key=lambda row: row["_timestamp"])
    assert rows[0] == {
        "id": None, "customer": None, "_offset_": None, "_key": "gone", "_headers": [{"key": "h", "value": b"1"}],
        "_partition": 1, "_offset": 2, "_timestamp": datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
    }  # fmt: skip
    assert [(row["id"], row["customer"], row["_offset_"], row["_key"], row["_headers"]) for row in rows[1:]] == [
        (each, f"c{each}", each / 4, f"k{each}", None) for each in range(5)
    ]


def test_only_wanted_columns_come_and_none_is_decoded_when_rows_are_counted(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    topics.orders(topic, 30)
    topics.write(topic, [{"key": "k", "value": b"no Avro", "partition": 0}])
    assert topics.rows(topic, [])[-1] == {"_partition": 0}
    assert len(topics.rows(topic, [])) == 31
    assert [row["_offset"] for row in topics.rows(topic, ["_key", "_offset"])] == list(range(31))
    good = replace(topics.scan(topic, ["_offset_", "id"]), tasks=((OffsetRange(TopicPartition(topic, 0), 3, 5),),))
    assert [row for rows in good.read_task(0) for row in rows.to_pylist()] == [
        {"_offset_": 0.75, "id": 3},
        {"_offset_": 1.0, "id": 4},
    ]


def test_a_row_that_does_not_decode_fails_the_read_or_is_left_out_or_null(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    schema_id = topics.orders(topic, 3)
    broken = avro(ORDER, schema_id, {"id": 1, "customer": "x" * 50, "_offset": 0.0})[:-20]
    topics.write(
        topic, [{"key": "bad", "value": broken, "partition": 0}, {"key": "bad", "value": b"x", "partition": 0}]
    )
    topics.write(topic, [{"key": "n", "value": None, "partition": 0}])
    with pytest.raises(TableError) as refused:
        topics.rows(topic)
    assert refused.value.message.startswith(f"topic {topic}, partition 0, offset 3: schema {schema_id}: ")
    assert "skip" in refused.value.hint
    assert [row["id"] for row in topics.rows(topic, ["id", "customer"], bad_rows="skip")] == [0, 1, 2, None]
    assert [(row["id"], row["_key"]) for row in topics.rows(topic, bad_rows="null")][2:] == [
        (2, "k2"), (None, "bad"), (None, "bad"), (None, "n"),
    ]  # fmt: skip
    skipped: list[int] = []
    scan = topics.scan(topic, ["customer"], bad_rows="skip")
    list(scan.read_task(0, skipped.append))
    assert sum(skipped) == 2


def test_reading_ends_when_the_limit_is_reached_though_rows_are_skipped(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    schema_id = topics.register(f"{topic}-value", ORDER)
    good = [avro(ORDER, schema_id, {"id": each, "customer": "", "_offset": 0.0}) for each in range(10)]
    topics.write(topic, ({"value": value} for each in good for value in (b"bad", each)))
    assert [row["id"] for row in topics.rows(topic, ["id"], limit=3, bad_rows="skip")] == [0, 1, 2]
    assert len(topics.rows(topic, ["_offset"], limit=7)) == 7
    assert topics.rows(topic, ["id"], limit=0) == []


def test_rows_of_other_keys_are_left_out_before_they_are_decoded(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    topics.orders(topic, 30)
    topics.write(topic, [{"key": "other", "value": b"no Avro"}, {"value": b"no Avro"}])
    rows = topics.rows(topic, ["id"], keys=frozenset({b"k3", b"k5"}))
    assert [row["id"] for row in rows] == [3, 5, 13, 15, 23, 25]
    assert len(topics.rows(topic, [], keys=frozenset({b"k3"}))) == 3


def test_columns_are_inferred_when_values_are_json_objects_without_a_schema(topics: TableTopics) -> None:
    topic = topics.create(partitions=2)
    values: list[dict[str, Any]] = [
        {"id": 1, "price": 2, "tags": ["a"], "at": {"city": "Berlin", "zip": 1}, "any": 1, "_key": "theirs"},
        {"id": 2, "price": 2.5, "tags": [], "at": {"city": None, "country": "DE"}, "any": "text"},
        {"id": 3, "price": None, "any": {"x": [1, 2]}},
    ]
    topics.write(topic, ({"value": json.dumps(each), "partition": 0} for each in values))
    with Catalog(topics.connection) as catalog:
        table = catalog.table(topic)
    assert table.note == "inferred from 3 records"
    assert [(each.name, each.sql_type) for each in table.columns[:6]] == [
        ("id", "bigint"), ("price", "double"), ("tags", "array<string>"),
        ("at", "struct<city:string,zip:bigint,country:string>"), ("any", "string"), ("_key_", "string"),
    ]  # fmt: skip
    rows = topics.rows(topic, ["id", "price", "tags", "at", "any", "_key_"])
    assert rows[0] == {
        "id": 1, "price": 2.0, "tags": ["a"], "at": {"city": "Berlin", "zip": 1, "country": None}, "any": "1",
        "_key_": "theirs",
    }  # fmt: skip
    assert rows[1]["any"] == "text"
    assert json.loads(rows[2]["any"]) == {"x": [1, 2]}


def test_a_topic_of_json_stays_one_when_a_few_values_are_odd(topics: TableTopics) -> None:
    """One such value in the sample made bytes of the whole topic."""
    odd = [b'{"id": NaN}', b'\xef\xbb\xbf{"id": 1}', b'{"id": 1} end', b'{"id": "\xff"}', b'{"id":' + b"[" * 3_000]
    topic, other = topics.create(partitions=1), topics.create(partitions=1)
    values = [json.dumps({"id": each}).encode() for each in range(50)]
    topics.write(topic, ({"value": each} for each in [*values[:25], *odd, *values[25:]]))
    topics.write(other, ({"value": each} for each in [*values[:20], *odd]))
    with Catalog(topics.connection) as catalog:
        table = catalog.table(topic)
        note = catalog.table(other).note
    assert table.note == "inferred from 50 records; 5 of 55 are no JSON objects, as partition 0 offset 25"
    assert [row["id"] for row in topics.rows(topic, ["id"], bad_rows="skip")] == list(range(50))
    with pytest.raises(TableError, match="offset 25"):
        topics.rows(topic, ["id"])
    assert note == "bytes: partition 0 offset 20 is no JSON object, nor are 4 more of 25"


def test_a_column_is_null_when_a_later_value_does_not_fit_what_was_inferred(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    values = [{"id": 1, "n": "a"}, *({"id": each, "n": each} for each in range(2, 6))]
    topics.write(topic, ({"value": json.dumps(each)} for each in values))
    rows = topics.rows(topic, ["id", "n"], connection={"sample_records": 4})
    assert [(row["id"], row["n"]) for row in rows] == [(1, None), (2, 2), (3, 3), (4, 4), (5, 5)]


def test_the_schema_that_records_name_is_taken_when_there_is_no_subject_of_the_topic(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    schema_id = topics.register("Order-by-its-own-name", ORDER)
    key = topics.register("Key-by-its-own-name", {"type": "long"})
    value = avro(ORDER, schema_id, {"id": 4, "customer": "c", "_offset": 1.0})
    topics.write(topic, [{"key": avro({"type": "long"}, key, 77), "value": value}])
    with Catalog(topics.connection) as catalog:
        assert catalog.table(topic).note == f"schema {schema_id}, which records name"
    assert [(row["id"], row["_key"]) for row in topics.rows(topic)] == [(4, 77)]


def test_a_subject_that_is_named_counts_more_than_the_topic_s_own(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    topics.orders(topic, 2)
    fields = [{"name": "id", "type": "long"}]
    topics.register("slim", {"type": "record", "name": "Order", "fields": fields})
    rows = topics.rows(topic, connection={"subjects": {topic: "slim"}})
    assert [list(row) for row in rows] == [["id", *OURS]] * 2
    with pytest.raises(TableError, match="has no subject other"):
        topics.rows(topic, connection={"subjects": {topic: "other"}})


def test_values_are_bytes_when_nothing_says_what_they_are(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    with Catalog(topics.connection) as catalog:
        assert catalog.table(topic).note == "bytes, because the topic is empty"
    assert topics.rows(topic) == []
    topics.write(topic, [{"key": b"\xff\x00", "value": b"\x01\x02"}])
    assert [(row["value"], row["_key"]) for row in topics.rows(topic)] == [(b"\x01\x02", b"\xff\x00")]


def test_records_that_a_transaction_took_back_are_seen_only_when_asked_for(topics: TableTopics) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [{"value": b"1"}])
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"2")
    producer.flush(30)
    producer.abort_transaction(30)
    topics.write(topic, [{"value": b"3"}])
    assert [row["value"] for row in topics.rows(topic)] == [b"1", b"3"]
    assert len(topics.rows(topic, [])) == 2
    assert len(topics.rows(topic, connection={"is_read_committed": False})) == 3


def test_a_topic_that_is_not_there_is_told_with_the_nearest_name(topics: TableTopics) -> None:
    topic = topics.create(name="Invoices-of-2026")
    with Catalog(topics.connection) as catalog:
        with pytest.raises(TableError) as refused:
            catalog.table("Invoice-of-2026")
        assert "there is no topic Invoice-of-2026" in refused.value.message
        assert refused.value.hint == f"Did you mean {topic}?"
        assert catalog.table("invoices-OF-2026").topic == topic
        for wrong in ("$latest", "no/such", ""):
            with pytest.raises(TableError):
                catalog.table(wrong)


def test_it_is_said_when_no_broker_or_no_registry_answers(topics: TableTopics) -> None:
    with (
        Catalog(KafkaConnection("127.0.0.1:9")) as catalog,
        pytest.raises(TableError, match="no broker answers at 127"),
    ):
        catalog.table("orders")
    away = replace(topics.connection, registry=RegistryAddress.of({"schema.registry.url": "http://127.0.0.1:9"}))
    topic = topics.create()
    with Catalog(away) as catalog, pytest.raises(TableError, match=r"registry at http://127\.0\.0\.1:9"):
        catalog.table(topic)


def test_no_secret_is_shown_when_a_connection_is() -> None:
    registry = RegistryAddress.of({"schema.registry.url": "http://u:secret@h:1", "basic.auth.user.info": "u:secret"})
    connection = KafkaConnection("h:1", {"sasl.password": "secret"}, registry)
    assert "secret" not in repr(connection)
    assert pickle.loads(pickle.dumps(connection)) == connection


PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b" '
    'user_broker="b" user_admin="admin-secret" user_alice="alice-secret";'
)
GUARDED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
}


def test_the_missing_right_is_named_when_a_topic_may_not_be_read() -> None:
    def connection(user: str, password: str) -> KafkaConnection:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
        return KafkaConnection(broker.bootstrap_servers, {"security.protocol": "SASL_PLAINTEXT", **login})

    def refusal(of: KafkaConnection) -> str:
        with Catalog(of) as catalog, pytest.raises(TableError) as refused:
            catalog.table("guarded")
        return refused.value.message

    with penstock.Broker(config=GUARDED) as broker:
        admin = AdminClient(dict(connection("admin", "admin-secret").fetch_options().settings))
        admin.create_topics([NewTopic("guarded", 1)])["guarded"].result(30)
        assert refusal(connection("alice", "alice-secret")) == "the right Describe on topic guarded is missing"
        place = (ResourceType.TOPIC, "guarded", ResourcePatternType.LITERAL, "User:alice", "*")
        rule = AclBinding(*place, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
        admin.create_acls([rule])[rule].result(30)
        wrong = refusal(connection("alice", "wrong"))
        assert "refuse the login" in wrong
        assert "wrong" not in wrong
        admin_producer = Producer(dict(connection("admin", "admin-secret").fetch_options().settings))
        admin_producer.produce("guarded", b"v")
        admin_producer.flush(30)
        assert refusal(connection("alice", "alice-secret")) == "the right Read on topic guarded is missing"


def split_by(ranges: list[OffsetRange], size: int) -> tuple[tuple[OffsetRange, ...], ...]:
    return tuple(
        (part._replace(start=start, end=min(start + size, part.end)),)
        for part in ranges
        for start in range(part.start, part.end, size)
    )


def test_the_latest_row_of_each_key_is_found_by_one_task_and_by_many(topics: TableTopics, spark: SparkSession) -> None:
    topic = topics.create(partitions=2)
    schema_id = topics.orders(topic, 40, partitions=2)

    def order(number: int) -> bytes:
        return avro(ORDER, schema_id, {"id": number, "customer": "late", "_offset": 0.0})

    at = 1_700_000_100_000
    topics.write(
        topic,
        [
            {"key": "k1", "value": b"bad, and not the latest", "partition": 1, "timestamp": at},
            {"key": "k1", "value": order(101), "partition": 1, "timestamp": at + 1},
            {"key": "k2", "value": None, "partition": 0, "timestamp": at},
            {"key": "k3", "value": order(103), "partition": 0, "timestamp": at},  # its partition was 1
            {"value": order(104), "partition": 0},
        ],
    )
    expected = {"k0": 30, "k1": 101, "k3": 103} | {f"k{each}": 30 + each for each in range(4, 10)}
    rows = topics.rows(f"{topic}$latest")
    assert {row["_key"]: row["id"] for row in rows} == expected
    assert len(topics.rows(f"{topic}$latest", [])) == len(expected)
    one = topics.scan(f"{topic}$latest")
    many = replace(one, tasks=split_by(list(one.tasks[0]), 7))
    assert len(many.tasks) > 5
    found = frame(spark, many).collect()
    assert {row["_key"]: row["id"] for row in found} == expected
    assert len(found) == len(expected)
    assert frame(spark, replace(many, columns=())).count() == len(expected)
    with pytest.raises(ValueError, match="frame"):
        many.read_task(0)


def test_a_frame_has_the_rows_of_the_table_and_its_plan_the_topic(topics: TableTopics, spark: SparkSession) -> None:
    topic = topics.create(partitions=2)
    topics.orders(topic, 200, partitions=2)
    topics.write(topic, [{"key": "k", "value": b"bad", "partition": 0}])
    scan = topics.scan(topic, bad_rows="skip")
    scan = replace(scan, tasks=split_by(list(scan.tasks[0]), 60))
    skipped = spark.sparkContext.accumulator(0)
    rows = frame(spark, scan, skipped)
    assert rows.columns == ["id", "customer", "_offset_", *OURS]
    assert sorted(row["id"] for row in rows.select("id", "_timestamp").collect()) == list(range(200))
    assert skipped.value == 1
    assert f"topic:{topic}" in rows._jdf.queryExecution().toString()
    assert rows.where("_key = 'k3'").selectExpr("max(id)").collect()[0][0] == 193
    assert frame(spark, replace(scan, tasks=())).collect() == []
    with pytest.raises(Exception, match=rf"topic {topic}, partition 0, offset 100: "):
        frame(spark, replace(scan, bad_rows="fail")).collect()


def test_every_batch_has_the_scan_s_schema_when_spark_checks_it(topics: TableTopics, spark: SparkSession) -> None:
    topic = topics.create(partitions=1)
    value = {"a": 1, "b": [1.5], "c": {"d": True, "e": [{"f": "g"}]}, "h": None}
    topics.write(topic, [{"value": json.dumps(value)}])
    scan: TableScan = topics.scan(topic)
    (row,) = frame(spark, scan).collect()
    assert row["c"].asDict(recursive=True) == value["c"]
    assert isinstance(scan.schema, pa.Schema)


def test_times_of_day_are_text_by_every_way_when_a_schema_has_some(topics: TableTopics, spark: SparkSession) -> None:
    """Not even a count could be asked for: "The data type TIME is not supported"."""
    topic = topics.create(partitions=1)
    times = [
        {"name": "ms", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "time-micros"}]},
    ]
    schema = {"type": "record", "name": "Times", "fields": times}
    schema_id = topics.register(f"{topic}-value", schema)
    value = {"ms": time(1, 2, 3, 4000), "us": time(23, 59, 59, 999_999)}
    values = [value, {**value, "us": None}]
    topics.write(topic, ({"value": avro(schema, schema_id, each)} for each in values))
    expected = [("01:02:03.004000", "23:59:59.999999"), ("01:02:03.004000", None)]
    with Tables(spark, Catalog(topics.connection)) as tables:
        assert [
            tuple(row) for row in tables.sql(f"SELECT ms, us FROM `{topic}` ORDER BY _offset").collect()
        ] == expected
        assert tables.sql(f"SELECT count(*) FROM `{topic}`").collect()[0][0] == 2
        assert tables.sql(f"SELECT count(us) FROM `{topic}` WHERE ms < '02'").collect()[0][0] == 1
        options = table_options(tables.catalog.connection, tables.catalog.table(topic))
    rows = spark.read.format("penstock").options(**options).load().orderBy("_offset").select("ms", "us")
    assert [tuple(row) for row in rows.collect()] == expected
