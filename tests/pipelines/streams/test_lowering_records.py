"""Records to rows, and rows to records: before and after."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, isnan, nan
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipelines.source.columns import DDL
from penstock.streams import Streams, json, raw, text
from penstock.streams.lowering.context import Context
from penstock.streams.lowering.internal_json import check_types, from_records, to_records
from penstock.streams.lowering.queries import output_records, root_rows
from penstock.streams.lowering.sources import judged_rows, source_rows
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import Source

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def context_of(app: Streams, spark: SparkSession) -> Context:
    return Context(spark, app.plan(), app.settings, is_streaming=False)


def source_of(app: Streams, spark: SparkSession) -> tuple[Source, Context]:
    context = context_of(app, spark)
    source = context.plan.topology.nodes[0]
    assert isinstance(source, Source)
    return source, context


def records(spark: SparkSession, pairs: list[tuple[bytes | None, bytes | None]]) -> DataFrame:
    rows = [(key, value, "clicks", 0, offset, EPOCH, 0) for offset, (key, value) in enumerate(pairs)]
    return spark.createDataFrame(rows, DDL)


VALUES: list[tuple[bytes | None, str]] = [
    (b'{"user": "a", "n": 1, "a.b": "x"}', "a 1 x"),
    (b'{"user": 5}', "5 - -"),
    (b"{}", "- - -"),
    (None, "no value"),
    (b" null ", "no value"),
    (b"42", "error"),
    (b'"text"', "error"),
    (b'[{"n": 1}]', "error"),
    (b"", "error"),
    (b'{"n": "x"}', "error"),
    (b'{"n": 1.5}', "error"),
    (b'{"user": "a"', "error"),
    (b'{"user": "a}', "error"),
    (b'{"user": "}"}', "} - -"),
    (b'{"user": "a"}\n', "a - -"),
    (b'{"user": "a"} }', "error"),
    (b'{"user": "\xe2"} j}', "error"),
    (b'{"user": "a"}{"user": "b"}', "error"),
    (b"\xff", "error"),
]


def test_a_row_says_what_is_wrong_when_a_value_is_not_the_declared_object(spark: SparkSession) -> None:
    app = Streams("records")
    app.stream("clicks", value=json("user string, n int, `a.b` string")).to("out")
    source, context = source_of(app, spark)
    judged = judged_rows(source, records(spark, [(b"k", value) for value, _ in VALUES]), context)
    found = []
    for row in judged.orderBy("_offset").collect():
        shown = " ".join("-" if row[name] is None else str(row[name]) for name in ("user", "n", "a.b"))
        found.append("error" if row["error"] else "no value" if row["_null"] else shown)
    assert found == [expected for _, expected in VALUES]


def test_a_value_is_read_once_however_often_its_columns_are_asked_for(spark: SparkSession) -> None:
    app = Streams("records")
    app.stream("clicks", value=json("user string, n int")).to("out")
    source, context = source_of(app, spark)
    rows = source_rows(source, records(spark, [(b"k", b'{"user": "b", "n": 2}')]), context).where(
        "n > 1 AND user > 'a'"
    )
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert plan.count("from_json") == 1
    assert rows.count() == 1


def test_a_row_is_refused_when_its_value_says_no_time_or_one_before_1970(spark: SparkSession) -> None:
    app = Streams("records")
    app.stream("clicks", value=json("n int"), time="timestamp_millis(n)").to("out")
    source, context = source_of(app, spark)
    given = records(spark, [(b"k", value) for value in (b'{"n": 0}', b'{"n": -1}', b"{}", None)])
    errors = [row["error"] for row in judged_rows(source, given, context).orderBy("_offset").collect()]
    assert [None if each is None else each.split(":")[0] for each in errors] == [
        None,
        "the record's time is before 1970",
        "the record has no time",
        None,
    ]


def test_a_value_of_one_column_and_a_key_of_any_kind_are_written_when_the_sink_says_how(spark: SparkSession) -> None:
    app = Streams("records")
    lines = app.stream("lines", key=json("bigint"), value=text(), headers=False)
    lines.to("as-it-is", value=text())
    lines.select_key("named_struct('a', _key, 'b', date'2026-01-02')").to("json")
    lines.select_key("unhex('ff')").to("bytes", value=raw())
    lines.map(more="1").to("refused", value=text())
    context = context_of(app, spark)
    (query,) = context.plan.queries
    given = records(spark, [(b"7", b"caf\xc3\xa9"), (b"8", None), (None, b"\xff")])
    rows = root_rows(context, query, lambda _: given)
    *written, refused = query.outputs
    found = {}
    for output in written:
        made = output_records(context, query, output, rows).collect()
        found[output.topic] = sorted(((row["key"], row["value"]) for row in made), key=str)
    assert found == {
        "as-it-is": [("7", "café"), ("8", None), (None, "\ufffd")],
        "json": [
            ('{"a":7,"b":"2026-01-02"}', '{"value":"café"}'),
            ('{"a":8,"b":"2026-01-02"}', None),
            ('{"a":null,"b":"2026-01-02"}', '{"value":"\ufffd"}'),
        ],
        "bytes": [(b"\xff", None), (b"\xff", "\ufffd".encode()), (b"\xff", b"caf\xc3\xa9")],
    }
    with pytest.raises(StreamsError, match="one column, and there are 2"):
        output_records(context, query, refused, rows)


KINDS = (
    "`a.b` string, `t``k` timestamp, n timestamp_ntz, d date, i int, l bigint, f double, g float, b boolean, x binary,"
    " m decimal(38,18), a array<struct<p: bigint, q: string>>, o map<string, array<double>>"
)
FULL: tuple[Any, ...] = (
    'quote " and \u2028', datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), datetime(1969, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001
    date(1, 1, 1), -(2**31), 2**63 - 1, 0.1, -0.5, True, b"\x00\xff",
    Decimal("12345678901234567890.123456789012345678"),
    [{"p": 1, "q": None}, None], {"k.": [1.5, inf, None]},
)  # fmt: skip


def test_rows_are_the_same_again_when_a_topic_between_queries_has_carried_them(spark: SparkSession) -> None:
    ours = "_key struct<key: string, start: bigint, end: bigint>, _timestamp timestamp, _null boolean, _partition int"
    key, at = ("k", 0, 60_000), datetime(2026, 1, 1, 0, 0, 0, 5000, tzinfo=UTC)
    nothing = (None,) * len(FULL)
    given = spark.createDataFrame(
        [(*FULL, key, at, False, 0, 0), (*nothing, key, at, False, 0, 1), (*nothing, None, at, True, 0, 2)],
        f"{KINDS}, {ours}, _offset bigint",
    )
    written = to_records(given.withColumn("f", F.when(F.col("f").isNotNull(), F.lit(nan)).otherwise(F.col("f"))))
    place = "CASE WHEN value IS NULL THEN 2 WHEN value LIKE '%quote%' THEN 0 ELSE 1 END AS offset"
    carried = ("CAST(key AS BINARY)", "CAST(value AS BINARY)", "timestamp", "0 AS partition", place)
    carrying = written.selectExpr(*carried).withColumn("offset", F.col("offset").cast("bigint"))
    back = from_records(carrying, given.schema)
    assert [(each.name, each.dataType) for each in back.schema] == [(each.name, each.dataType) for each in given.schema]
    first, *others = back.orderBy("_offset").collect()
    plain = first.asDict(recursive=True)
    assert isnan(plain.pop("f"))
    expected = given.orderBy("_offset").collect()
    assert plain == {name: value for name, value in expected[0].asDict(recursive=True).items() if name != "f"}
    assert others == expected[1:]


def test_a_map_with_numbers_for_keys_is_refused_when_json_cannot_give_it_back(spark: SparkSession) -> None:
    with pytest.raises(StreamsError, match="'m' has the type map<int,string>"):
        check_types(spark.createDataFrame([], "m array<map<int, string>>"))
