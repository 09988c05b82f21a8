"""Ten standard questions about topics that Confluent's serializers wrote, answered by DuckDB from the same data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from penstock.pipelines.sql import Tables, register
from penstock.testing.processes import RegistryProcess
from tests.pipelines.duckdb_answers import ask_duckdb

_ORDERS, _CHANGES = 2_400, 400
_DAY = datetime(2026, 3, 14, tzinfo=UTC)
_OLD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "address",
            "type": {"type": "record", "name": "Address", "fields": [{"name": "country", "type": "string"}]},
        },
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
                },
            },
        },
    ],
}
_NEW = {**_OLD, "fields": [*_OLD["fields"], {"name": "channel", "type": ["null", "string"], "default": None}]}
_CUSTOMER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Customer",
    "type": "object",
    "properties": {"name": {"type": "string"}, "level": {"type": "integer"}},
}
_COUNTRIES = {"country": ["de", "fr", "it", "pl"], "region": ["west", "west", "south", "east"]}

# What Spark and DuckDB say in other words.
_SPARK = {
    "hour": "window(at, '1 hour').start",
    "latest": '"customers$latest"',
    "countries": "parquet.`{path}`",
    "each": "explode",
}
_DUCKDB = {
    "hour": "date_trunc('hour', \"at\")",
    "latest": "customers_latest",
    "countries": "'{path}'",
    "each": "unnest",
}
QUESTIONS = {
    "counts": "SELECT count(*), count(DISTINCT customer), sum(amount), min(id), max(id) FROM orders",
    "group by": "SELECT address.country, count(*), sum(amount) FROM orders WHERE amount > 20 GROUP BY ALL",
    "window": "SELECT {hour}, count(*) FROM orders GROUP BY ALL",
    "join of two topics": """SELECT level, count(*), sum(amount)
        FROM orders JOIN {latest} AS known ON customer = known._key GROUP BY ALL""",
    "join with Parquet": """SELECT region, count(*)
        FROM orders LEFT JOIN {countries} AS known ON address.country = known.country GROUP BY ALL""",
    "latest per key": "SELECT _key, name, level FROM {latest}",
    "last hour": "SELECT id, amount FROM orders WHERE _timestamp >= TIMESTAMP '2026-03-14 23:00:00'",
    "one key": "SELECT id, amount FROM orders WHERE _key = 'c7' AND amount > 3",
    "schema evolution in the middle": "SELECT channel, count(*), min(id), max(id) FROM orders GROUP BY channel",
    "nested types": "SELECT item.sku, sum(item.n) FROM (SELECT {each}(items) AS item FROM orders) GROUP BY ALL",
    "ranks": """SELECT id, row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS place
        FROM orders QUALIFY place <= 2""",
}


@dataclass(frozen=True)
class Asked:
    tables: Tables
    countries: str
    expected: dict[str, list[tuple[Any, ...]]]  # by question


def _orders() -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "customer": f"c{number * 7 % 50}",
            "amount": number % 173 / 4,
            "at": _DAY + timedelta(days=1) * (number / _ORDERS),
            "address": {"country": _COUNTRIES["country"][number % 3] if number % 11 else "xx"},
            "items": [{"sku": f"s{(number + each) % 9}", "n": each + 1} for each in range(number % 4)],
            **({"channel": ("web", "shop", None)[number % 3]} if number >= _ORDERS // 2 else {}),
        }
        for number in range(_ORDERS)
    ]


def _changes() -> list[tuple[str, dict[str, Any] | None]]:
    """Of customers: each is written several times, and some are removed, a few of them to come again."""
    return [
        (f"c{number * 13 % 60}", None if number % 9 == 4 else {"name": f"n{number}", "level": number % 5})
        for number in range(_CHANGES)
    ]


@pytest.fixture(scope="module")
def asked(spark: SparkSession, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    directory = tmp_path_factory.mktemp("files")
    countries = str(directory / "countries.parquet")
    pq.write_table(pa.table(_COUNTRIES), countries)
    with RegistryProcess(
        bootstrap, directory / "registry.log", config={"kafkastore.topic": "_schemas_asked"}
    ) as registry:
        _write_topics(bootstrap, registry.url)
        spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
        try:
            with register(spark, bootstrap, registry=registry.url, has_views=False) as tables:
                yield Asked(tables, countries, _answers(countries))
        finally:
            spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def _write_topics(bootstrap_servers: str, registry: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [
        NewTopic("orders", 3, 1, config={"retention.ms": "-1"}),  # they are from a day that is long gone
        NewTopic("customers", 2, 1, config={"cleanup.policy": "compact"}),
    ]
    for created in admin.create_topics(topics).values():
        created.result(30)
    client = SchemaRegistryClient({"url": registry})
    older, newer = (_serializer(client, schema) for schema in (_OLD, _NEW))
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20})
    for order in _orders():
        write = newer if "channel" in order else older
        at = round(order["at"].timestamp() * 1000)
        producer.produce("orders", write(order, _field("orders")), order["customer"], timestamp=at)
    customer = JSONSerializer(json.dumps(_CUSTOMER), client)
    for number, (key, value) in enumerate(_changes()):
        payload = None if value is None else customer(value, _field("customers"))
        producer.produce("customers", payload, key, timestamp=1_773_400_000_000 + number)
    assert producer.flush(30) == 0


def _serializer(client: SchemaRegistryClient, schema: dict[str, Any]) -> Callable[[Any, SerializationContext], bytes]:
    written: Callable[[Any, SerializationContext], bytes] = AvroSerializer(client, Schema(json.dumps(schema), "AVRO"))
    return written


def _field(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def _answers(countries: str) -> dict[str, list[tuple[Any, ...]]]:
    rows = [{"channel": None, **each, "_key": each["customer"], "_timestamp": each["at"]} for each in _orders()]
    changes = [
        {"_key": key, "number": number, "is_gone": value is None, **(value or {"name": None, "level": None})}
        for number, (key, value) in enumerate(_changes())
    ]
    latest = (
        "CREATE VIEW customers_latest AS SELECT _key, name, level FROM changes"
        " QUALIFY row_number() OVER (PARTITION BY _key ORDER BY number DESC) = 1 AND NOT is_gone"
    )
    return ask_duckdb(
        {"orders": pa.Table.from_pylist(rows), "changes": pa.Table.from_pylist(changes)},
        ["SET TimeZone = 'UTC'", latest],
        {about: _in_words_of(_DUCKDB, about, countries) for about in QUESTIONS},
    )


def _in_words_of(words: dict[str, str], about: str, countries: str) -> str:
    return QUESTIONS[about].format(**words).replace("{path}", countries)


@pytest.mark.parametrize("about", QUESTIONS)
def test_the_answer_is_the_one_of_another_engine(asked: Asked, about: str) -> None:
    found = [tuple(row) for row in asked.tables.sql(_in_words_of(_SPARK, about, asked.countries)).collect()]
    expected = asked.expected[about]
    assert expected
    assert sorted(map(_comparable, found)) == sorted(map(_comparable, expected))


def test_the_last_hour_reads_the_last_hour(asked: Asked) -> None:
    question = asked.tables.ask(QUESTIONS["last hour"])
    (read,) = question.reads
    assert (read.offsets, read.held_offsets) == (_ORDERS // 24, _ORDERS)


def _comparable(row: tuple[Any, ...]) -> str:
    return repr([each.replace(tzinfo=None) if isinstance(each, datetime) else each for each in row])
