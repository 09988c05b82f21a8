"""The clocks of questions, as Spark's own plans have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.pipelines.tables.clocks import Clock, clock_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def views(spark: SparkSession) -> None:
    spark.range(1).selectExpr("timestamp_seconds(id) AS _timestamp", "id").createOrReplaceTempView("clocked")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW past AS SELECT * FROM clocked WHERE _timestamp < current_date()")


@pytest.mark.parametrize(
    ("question", "clock"),
    [
        ("SELECT * FROM clocked WHERE _timestamp < '2026-01-01'", Clock.NONE),
        ("SELECT now(), current_date() AS today FROM clocked WHERE _timestamp < '2026-01-01' LIMIT 1", Clock.NONE),
        ("SELECT * FROM clocked WHERE _timestamp > now() - INTERVAL 1 HOUR", Clock.STEADY),
        ("SELECT * FROM clocked WHERE id = 1 OR _timestamp < current_timestamp - INTERVAL '5' MINUTE", Clock.STEADY),
        ("SELECT * FROM clocked WHERE _timestamp BETWEEN now() - INTERVAL 2 HOURS AND now()", Clock.STEADY),
        ("SELECT * FROM clocked WHERE _timestamp > now() - INTERVAL 1 DAY", Clock.STEPPING),
        ("SELECT * FROM clocked WHERE _timestamp < current_date()", Clock.STEPPING),
        ("SELECT * FROM clocked WHERE _timestamp >= date_trunc('hour', now())", Clock.STEPPING),
        ("SELECT * FROM clocked WHERE _timestamp >= date_sub(current_date(), 1)", Clock.STEPPING),
        ("SELECT * FROM clocked WHERE _timestamp >= to_date(now())", Clock.STEPPING),
        ("SELECT count(*) FROM past", Clock.STEPPING),
        ("SELECT * FROM clocked WHERE id IN (SELECT id FROM past)", Clock.STEPPING),
        ("SELECT (SELECT max(id) FROM past) FROM clocked", Clock.STEPPING),
        ("SELECT * FROM clocked WHERE _timestamp > timestamp_seconds(9 - unix_timestamp())", Clock.WILD),
        ("SELECT * FROM clocked WHERE id < hour(now())", Clock.WILD),
        ("SELECT * FROM (SELECT id, now() AS at FROM clocked) WHERE at < '2026-01-01'", Clock.WILD),
    ],
)
def test_the_wildest_clock_is_found_when_a_question_or_its_views_have_some(
    spark: SparkSession, question: str, clock: Clock
) -> None:
    assert clock_of(str(spark.sql(question)._jdf.queryExecution().analyzed().toJSON())) is clock
