"""Spark is the judge of what we are certain of: nothing that it takes is refused, and a table is one to Spark, too."""

from __future__ import annotations

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.preflight.certainty import refuse_open, tables_of
from penstock.pipelines.sql.refusals import silenced
from penstock.pipelines.sql.sessions import OwnSession
from tests.written_sql import statements_of_code, statements_of_guides

# Of Spark's grammar what is most like something else.
ODD = [
    "SELECT from FROM t",
    "SELECT from x FROM t",
    "SELECT a from FROM t",
    "SELECT a AS from, b FROM t",
    "SELECT t.from x FROM t WHERE from IS NULL OR NOT from ORDER BY from DESC NULLS LAST",
    "SELECT 2 * from x, 1 + from y, -from z FROM t",
    "SELECT CASE WHEN from THEN from ELSE from END FROM t",
    "SELECT a IS NOT DISTINCT FROM b FROM t",
    "SELECT EXTRACT(YEAR FROM at), TRIM(LEADING FROM a), OVERLAY(a PLACING 'x' FROM 2), POSITION('a' IN b) FROM t",
    "SELECT join FROM t",
    "SELECT a join FROM t",
    "SELECT * FROM t join JOIN u",
    "SELECT * FROM t TABLESAMPLE (10 PERCENT) JOIN u",
    "SELECT * FROM (t JOIN u)",
    "SELECT * FROM (t)",
    "SELECT * FROM LATERAL (SELECT 1)",
    "SELECT * FROM t, LATERAL (SELECT t.a)",
    "SELECT * FROM t PIVOT (sum(a) FOR b IN ('x', 'y'))",
    "SELECT * FROM IDENTIFIER('t')",
    "SELECT * FROM t VERSION AS OF 1",
    "SELECT * FROM t |> WHERE a > 1 |> JOIN u USING (id)",
    "FROM t |> SELECT a",
    "TABLE t",
    "FROM t SELECT a UNION ALL FROM u SELECT b",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t",
    "WITH t AS (WITH u AS (SELECT 1) SELECT * FROM u) SELECT * FROM t",
    "SELECT TRANSFORM(a) USING 'cat' AS (b) FROM t",
    "SELECT /*+ BROADCAST(t) */ * FROM t",
    "SELECT $$it's$$ FROM t",
    r"SELECT r'\', 'it\'s', 'it''s' 'so' FROM t",
    "SELECT X'1F', 1.5BD, DATE'2020-01-01', INTERVAL '1' DAY FROM t",
    "SELECT a[0], map('x', 1)['x'], named_struct('a', 1).a FROM t",
    "SELECT 1 -- it's\nFROM t /* it's */",
    "SELECT 1 -- a \\\n it's",
    "SELECT 1 /* a /* b */ it's */ FROM t",
    "SELECT aggregate(a, 0, (x, y) -> x + y) FROM t",
    "SELECT * EXCEPT (a) FROM t",
    "SELECT count(*) FILTER (WHERE a > 1) OVER (PARTITION BY b ORDER BY c) FROM t WINDOW w AS (ORDER BY a)",
]


def is_refused(text: str) -> bool:
    try:
        refuse_open(text)
    except SqlError:
        return True
    return False


def test_nothing_that_spark_takes_is_refused_and_what_we_call_a_table_spark_does_too(spark: SparkSession) -> None:
    session = OwnSession(spark)
    written = [*ODD, *statements_of_guides(), *(each for found in statements_of_code().values() for each in found)]
    taken = 0
    for text in dict.fromkeys(written):
        tables = {name.lower() for name in tables_of(text)}
        if not tables and not is_refused(text):
            continue  # nothing is said of it
        try:
            with silenced():
                names = session.parse(text).names
        except ParseException:
            continue
        taken += 1
        assert not is_refused(text), text
        unknown = tables - {name.lower() for name in names}
        assert not unknown, f"{text}: Spark knows no table {unknown}"
    assert taken > 200, "the walk has lost its way"


def test_spark_refuses_it_too_when_something_stays_open(spark: SparkSession) -> None:
    session = OwnSession(spark)
    for text in ("SELECT 'a FROM t", "SELECT (1 FROM t", "SELECT 1) FROM t", "SELECT 1 /* FROM t", "SELECT `a FROM t"):
        assert is_refused(text), text
        with silenced(), pytest.raises(ParseException):
            session.parse(text)
