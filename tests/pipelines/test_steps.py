"""Building blocks as before/after tables."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest
import sqlalchemy
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from redis import Redis

from penstock.pipelines.dead_letters import to_dead_letters
from penstock.pipelines.steps import (
    deduplicate,
    enrich,
    filter_rows,
    parse_access_log,
    parse_avro,
    parse_csv,
    parse_json,
    select,
    session,
    sliding,
    tumbling,
    validate,
)
from penstock.pipelines.steps.address_ranges import AddressRanges
from penstock.pipelines.steps.tables import FileLookup, RedisLookup, SqlLookup
from tests.pipelines.database_servers import redis

RECORD = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def records(spark: SparkSession, *values: str | bytes | None) -> DataFrame:
    rows = [
        (b"k", value.encode() if isinstance(value, str) else value, "in", 0, offset, AT, 0)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, RECORD)


def table(rows: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """In the order the records were read, where they still know it."""
    ordered = rows.orderBy("source.offset") if "source" in rows.columns else rows
    return [tuple(row) for row in ordered.select(*columns).collect()]


def test_fields_or_an_error_come_out_when_json_is_parsed(spark: SparkSession) -> None:
    given = records(spark, '{"id": 1, "name": "a"}', '{"id": 2}', '{"id": "x"}', "{", "", None, "[1]", '{"other": 1}')
    parsed = parse_json("id bigint, name string")(given)
    assert parsed.columns == ["source", "error", "id", "name"]
    wrong = "not the expected JSON"
    assert table(parsed, "id", "name", "error") == [
        (1, "a", None),
        (2, None, None),
        (None, None, wrong),
        (None, None, wrong),
        (None, None, wrong),
        (None, None, "the record has no value"),
        (None, None, wrong),
        (None, None, None),
    ]


def test_fields_or_an_error_come_out_when_csv_is_parsed(spark: SparkSession) -> None:
    parsed = parse_csv("id int, name string", separator=";")(records(spark, "1;a", "x;b", '2;"c;d"', "3"))
    wrong = "not the expected CSV"
    assert table(parsed, "id", "name", "error") == [
        (1, "a", None),
        (None, "b", wrong),
        (2, "c;d", None),
        (3, None, wrong),
    ]


LINES = (
    '10.1.2.3 - frank [10/Oct/2025:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 200 2326',
    '::1 - - [01/Jan/2026:00:00:00 +0000] "POST /x HTTP/1.1" 404 - "http://r/" "Agent \\"quoted\\""',
    '1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] "-" 408 0',
    '1.2.3.4 - - [99/Foo/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5',
    "nonsense",
    "\x1f".join(("10.1.2.3", "-", "-", "01/Jan/2026:00:00:00 +0000", "GET", "/", "HTTP/1.1", "200", "5", "", "")),
)


def test_fields_or_an_error_come_out_when_a_line_of_a_web_server_is_parsed(spark: SparkSession) -> None:
    parsed = parse_access_log()(records(spark, *LINES, None))
    columns = ("address", "user", "method", "path", "protocol", "status", "size", "referrer", "agent", "error")
    nothing = (None,) * 9
    assert table(parsed, *columns) == [
        ("10.1.2.3", "frank", "GET", "/a?b=c", "HTTP/1.0", 200, 2326, None, None, None),
        ("::1", None, "POST", "/x", "HTTP/1.1", 404, None, "http://r/", 'Agent \\"quoted\\"', None),
        ("1.2.3.4", None, None, None, None, 408, 0, None, None, None),
        ("1.2.3.4", None, "GET", "/", "HTTP/1.1", 200, 5, None, None, "the time of the line cannot be read"),
        (*nothing, "not a line of an access log"),
        (*nothing, "not a line of an access log"),
        (*nothing, "the record has no value"),
    ]
    times = table(parsed.selectExpr("source", "unix_seconds(event_time) as at"), "at")
    assert times[0] == (int(datetime(2025, 10, 10, 20, 55, 36, tzinfo=UTC).timestamp()),)


def test_fields_or_an_error_come_out_when_avro_is_parsed(spark: SparkSession) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
    }
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), {"id": 7, "name": "seven"})
    good = written.getvalue()
    parsed = parse_avro(json.dumps(schema), "id bigint, name string")(
        records(spark, good, good[:-2], good + b"\0", None)
    )
    found = table(parsed, "id", "name", "error")
    assert found[0] == (7, "seven", None)
    assert [(row[0], str(row[2]).startswith("not the expected Avro")) for row in found[1:3]] == [(None, True)] * 2
    assert found[3] == (None, None, "the record has no value")


def test_the_first_broken_rule_is_the_error_when_rows_are_validated(spark: SparkSession) -> None:
    given = parse_json("n int")(records(spark, '{"n": 5}', '{"n": -1}', '{"n": 200}', "{}", "x"))
    judged = validate({"negative": "n >= 0", "too large": "n < 100"})(given)
    assert table(judged, "n", "error") == [
        (5, None),
        (-1, "negative"),
        (200, "too large"),
        (None, "negative"),
        (None, "not the expected JSON"),
    ]


def test_a_dead_letter_has_the_bytes_and_says_why_and_whence_when_a_row_failed(spark: SparkSession) -> None:
    letters = to_dead_letters(parse_json("n int")(records(spark, '{"n": 5}', "x")), "p").collect()
    assert [(bytes(letter.key), bytes(letter.value)) for letter in letters] == [(b"k", b"x")]
    assert {header.key: bytes(header.value).decode() for header in letters[0].headers} == {
        "penstock.error": "not the expected JSON",
        "penstock.pipeline": "p",
        "penstock.source.topic": "in",
        "penstock.source.partition": "0",
        "penstock.source.offset": "1",
        "penstock.source.timestamp": "2026-01-01 00:00:00",
    }


def test_columns_are_chosen_and_the_origin_stays_when_rows_are_selected(spark: SparkSession) -> None:
    parsed = parse_json("n int")(records(spark, '{"n": 5}', '{"n": 6}'))
    chosen = select("n * 2 as double")(filter_rows("n > 5 -- a comment")(parsed))
    assert chosen.columns == ["source", "error", "double"]
    assert table(chosen, "double") == [(12,)]


def test_addresses_in_a_range_are_marked_when_looked_up(spark: SparkSession, tmp_path: Path) -> None:
    ranges = tmp_path / "ranges"
    ranges.write_text("91  # an octet\n\n10.0.0.0/30\n10.0.0.4/30\n255.255.255.255/32\n")
    addresses = [
        "91.1.2.3",
        "92.0.0.0",
        "10.0.0.7",
        "10.0.0.8",
        "255.255.255.255",
        "90.255.255.255",
        "x",
        None,
        "1.2.3.999",
        "::1",
    ]
    given = spark.createDataFrame([(address,) for address in addresses], "address string")
    marked = enrich(AddressRanges.from_file(ranges), "address", into="fraud")(given)
    assert [row.fraud for row in marked.collect()] == [
        True,
        False,
        True,
        False,
        True,
        False,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("name", ["names.csv", "names.jsonl"])
def test_a_line_of_a_file_is_found_when_looked_up(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    csv_text = "code,name,risk\nde,Germany,1\nfr,France,\n"
    json_text = '{"code": "de", "name": "Germany", "risk": 1}\n{"code": "fr", "name": "France"}\n'
    path.write_text(csv_text if name.endswith("csv") else json_text)
    given = spark.createDataFrame([("de",), ("xx",), (None,), ("fr",)], "code string")
    found = enrich(FileLookup(str(path), "code", "name string, risk int"), "code", into="country")(given)
    assert table(found.select("code", "country.*"), "code", "name", "risk") == [
        ("de", "Germany", 1),
        ("xx", None, None),
        (None, None, None),
        ("fr", "France", None),
    ]


def test_a_row_of_a_database_is_found_when_looked_up(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lookup.db'}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("create table users (id integer primary key, name text)")
        connection.exec_driver_sql("insert into users values (1, 'one'), (2, null)")
    engine.dispose()
    given = spark.createDataFrame([(1,), (2,), (3,), (None,)], "id bigint")
    found = enrich(SqlLookup(url, "users", "id", "name string"), "id", into="user")(given)
    assert [(row.user and row.user.name) for row in found.collect()] == ["one", None, None, None]
    assert [row.user is None for row in found.collect()] == [False, False, True, True]


def test_rows_are_enriched_or_the_server_is_named_when_the_lookup_is_redis(spark: SparkSession) -> None:
    with redis() as (server, url):
        with Redis.from_url(url) as client:
            client.mset({"user:1": "Ada", "user:2": "Grüße"})
        given = spark.createDataFrame([("1",), ("2",), ("3",), (None,), ("1",)], "id string")
        enriched = enrich(RedisLookup(url, prefix="user:"), "id", into="user")(given)
        assert [row.user for row in enriched.collect()] == ["Ada", "Grüße", None, None, "Ada"]
        server.kill()
        with pytest.raises(PySparkException, match=rf"127\.0\.0\.1:{server.port}.*refused"):
            enriched.collect()


def events(spark: SparkSession, *times: str) -> DataFrame:
    rows = [("a", datetime.fromisoformat(f"2026-01-01T{time}+00:00")) for time in times]
    return spark.createDataFrame(rows, "key string, at timestamp")


def test_rows_are_counted_per_window_when_windows_follow_each_other(spark: SparkSession) -> None:
    counted = tumbling("at", "1 minute", ("key",), n="count(*)")(events(spark, "00:00:00", "00:00:59", "00:01:00"))
    assert counted.columns == ["window_start", "window_end", "key", "n"]
    assert table(counted.orderBy("window_start"), "n") == [(2,), (1,)]


def test_a_row_counts_more_than_once_when_windows_overlap(spark: SparkSession) -> None:
    counted = sliding("at", "2 minutes", "1 minute", ("key",), n="count(*)")(events(spark, "00:01:30", "00:02:30"))
    assert table(counted.orderBy("window_start"), "n") == [(1,), (2,), (1,)]


def test_a_window_lasts_until_nothing_comes_when_it_is_a_session(spark: SparkSession) -> None:
    counted = session("at", "1 minute", ("key",), n="count(*)")(
        events(spark, "00:00:00", "00:00:50", "00:01:40", "00:05:00")
    )
    assert table(counted.orderBy("window_start"), "n") == [(3,), (1,)]


def test_copies_are_dropped_when_events_come_twice(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, lines in enumerate((("a", "a", "b"), ("a", "c"))):
        text = "".join(json.dumps({"id": name, "at": "2026-01-01 00:00:00"}) + "\n" for name in lines)
        (tmp_path / "in" / f"{number}.json").write_text(text)
    reader = spark.readStream.schema("id string, at timestamp").option("maxFilesPerTrigger", "1")
    stream = reader.json(str(tmp_path / "in")).withWatermark("at", "1 minute")
    query = (
        deduplicate("id")(stream)
        .writeStream.format("memory")
        .queryName("copies")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sorted(row.id for row in spark.table("copies").collect()) == ["a", "b", "c"]
