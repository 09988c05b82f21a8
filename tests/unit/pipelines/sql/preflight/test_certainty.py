"""What is certain about a text of SQL. That Spark agrees is seen in tests/pipelines/tables/test_sql_certainty.py."""

from __future__ import annotations

import pytest

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.preflight.certainty import refuse_open, tables_of
from tests.written_sql import statements_of_code, statements_of_guides

# Their statements are broken on purpose.
BROKEN = frozenset(
    {"test_certainty.py", "test_mistakes.py", "test_sql_certainty.py", "test_sql_shell.py", "test_statements.py"}
)

OPEN = [
    ("SELECT 'a FROM orders", "the quote ' in line 1, column 8 is not closed"),
    ('SELECT 1,\n  "a FROM orders', 'the quote " in line 2, column 3 is not closed'),
    ("SELECT * FROM `orders", "the quote ` in line 1, column 15 is not closed"),
    ("SELECT it's FROM orders WHERE name = 'a'", "the quote ' in line 1, column 40 is not closed"),
    (r"SELECT 'a\' FROM orders", "the quote ' in line 1, column 8 is not closed"),
    ("SELECT 'a\\", "the quote ' in line 1, column 8 is not closed"),
    ("SELECT 1 /* one", "the comment in line 1, column 10 is not closed"),
    ("SELECT count(* FROM orders", "the ( in line 1, column 13 is not closed"),
    ("SELECT count(*)) FROM orders", "there is no ( for the ) in line 1, column 16"),
]
CLOSED = [
    r"SELECT 'it\'s', 'it''s', r'\', \"a'b\" FROM t".replace(r"\"", '"'),
    "SELECT 1 -- it's\nFROM t",
    "SELECT 1 /* it's ( */ FROM t",
    "SELECT `it's (` FROM t",
    "SELECT ')' FROM t",
    "SELECT ${it's} FROM t",
    "SELECT $$it's$$ FROM t",
    "SELECT /*+ BROADCAST(a) */ * FROM a",
    "SELECT 1 -- a \\\n it's",
    "SELECT 1 /* a /* b */",
]
TABLES = [
    ("SELECT * FROM orders", ["orders"]),
    ("SELECT * FROM `orders$latest` o", ["orders$latest"]),
    ("SELECT * FROM a JOIN b USING (id) LEFT JOIN `c-d` ON true", ["a", "b", "c-d"]),
    ("SELECT (SELECT max(id) FROM inner_one) FROM outer_one", ["inner_one", "outer_one"]),
    ("FROM orders SELECT id", ["orders"]),
    ("WITH a AS (SELECT 1), b(x) AS (SELECT 2) SELECT * FROM a JOIN b JOIN c", ["c"]),
    ("SELECT EXTRACT(YEAR FROM at), trim(BOTH 'x' FROM name), substring(name FROM 2) FROM t", ["t"]),
    ("SELECT a IS DISTINCT FROM b FROM t", ["t"]),
    ("SELECT * FROM range(3)", []),
    ("SELECT * FROM parquet.`/tmp/x`", []),
    ("SELECT * FROM default.orders", []),
    ("SELECT * FROM VALUES (1)", []),
    ("SELECT * FROM order-lines", []),
    ("SELECT from x FROM t", ["t"]),
    ("SELECT t.from x, from y FROM t WHERE from IS NULL ORDER BY from DESC", ["t"]),
    ("SELECT 2 * from x FROM t", ["t"]),
    ("SELECT * FROM t LATERAL VIEW explode(items) e AS item", ["t"]),
    ("SELECT * FROM a, b", ["a"]),
    ("SELECT 1", []),
]


@pytest.mark.parametrize(("text", "told"), OPEN)
def test_a_text_is_refused_with_its_place_when_something_stays_open(text: str, told: str) -> None:
    with pytest.raises(SqlError) as refused:
        refuse_open(text)
    assert refused.value.message == told


@pytest.mark.parametrize("text", CLOSED)
def test_a_text_is_taken_when_all_is_closed_or_in_doubt(text: str) -> None:
    refuse_open(text)


@pytest.mark.parametrize(("text", "tables"), TABLES)
def test_only_names_that_can_be_nothing_else_are_tables(text: str, tables: list[str]) -> None:
    assert tables_of(text) == tables


def test_every_statement_that_we_have_written_is_taken() -> None:
    written = [*statements_of_guides()]
    for name, statements in statements_of_code().items():
        written += () if name in BROKEN else statements
    assert len(written) > 250, "the walk has lost its way"
    for statement in written:
        refuse_open(statement)
