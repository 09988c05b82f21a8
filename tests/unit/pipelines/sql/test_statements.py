"""What a text of SQL asks for."""

from __future__ import annotations

import pytest

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.statements import (
    ChangeTable,
    Command,
    CreateView,
    Describe,
    DropView,
    Explain,
    Insert,
    Query,
    ShowTables,
    ShowViews,
    Statement,
    is_complete,
    parse_statement,
    split_statements,
)
from penstock.pipelines.sql.tokens import tokens_of

SCRIPTS: list[tuple[str, list[str]]] = [
    ("", []),
    (" ;; -- nothing\n ; /* nor ; here */ ;", []),
    ("SELECT 1", ["SELECT 1"]),
    ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
    ("SELECT ';' ; SELECT \";\"", ["SELECT ';'", 'SELECT ";"']),
    (r"SELECT 'it\'s; so' ; SELECT 'it''s; so'", [r"SELECT 'it\'s; so'", "SELECT 'it''s; so'"]),
    (r"SELECT r'\'; SELECT 2", [r"SELECT r'\'", "SELECT 2"]),
    ("SELECT `a;``b` ; SELECT 2", ["SELECT `a;``b`", "SELECT 2"]),
    ("SELECT 1 -- one; two\n, 2; SELECT 3", ["SELECT 1 -- one; two\n, 2", "SELECT 3"]),
    ("SELECT /* a; /* b; */ c; */ 1; SELECT 2", ["SELECT /* a; /* b; */ c; */ 1", "SELECT 2"]),
    ("-- first\nSELECT 1; -- last", ["SELECT 1"]),
    ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
    ("SELECT 2 - -1; SELECT 1", ["SELECT 2 - -1", "SELECT 1"]),
]


@pytest.mark.parametrize(("script", "statements"), SCRIPTS)
def test_a_script_is_split_at_semicolons_when_they_stand_outside_of_quotes_and_comments(
    script: str, statements: list[str]
) -> None:
    assert split_statements(script) == statements


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; /* so", False),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("", False),
        (";", True),
    ],
)
def test_what_was_typed_is_complete_when_it_ends_in_a_semicolon(typed: str, expected: bool) -> None:
    assert is_complete(typed) is expected


STATEMENTS: list[tuple[str, Statement]] = [
    ("SELECT * FROM orders;", Query("SELECT * FROM orders")),
    ("-- why\n(SELECT 1) UNION (SELECT 2)", Query("(SELECT 1) UNION (SELECT 2)")),
    ("with x as (select 1) select * from x", Query("with x as (select 1) select * from x")),
    ("VALUES (1)", Query("VALUES (1)")),
    ("FROM orders |> WHERE a = 1", Query("FROM orders |> WHERE a = 1")),
    ("SET spark.sql.ansi.enabled=true", Command("SET spark.sql.ansi.enabled=true")),
    ("EXPLAIN SELECT 1", Explain("SELECT 1")),
    ("explain formatted SELECT 1", Explain("SELECT 1", is_extended=True)),
    ("DESCRIBE orders", Describe("orders")),
    ("DESC TABLE EXTENDED `a.b-c$latest`", Describe("a.b-c$latest")),
    ("DESCRIBE my-topic.v1$latest", Describe("my-topic.v1$latest")),
    ('DESCRIBE "orders$latest"', Describe("orders$latest")),
    ("DESCRIBE FUNCTION abs", Command("DESCRIBE FUNCTION abs")),
    ("DESCRIBE SELECT 1", Command("DESCRIBE SELECT 1")),
    ("SHOW TABLES", ShowTables()),
    ("show tables like 'ord*|x'", ShowTables("ord*|x")),
    ("SHOW VIEWS", ShowViews()),
    ("SHOW TABLES IN warehouse", Command("SHOW TABLES IN warehouse")),
    ("SHOW FUNCTIONS", Command("SHOW FUNCTIONS")),
    ("CREATE VIEW big AS SELECT * FROM orders", CreateView("big", "SELECT * FROM orders")),
    ("create or replace view big as select 1 a", CreateView("big", "select 1 a", is_replacing=True)),
    ("CREATE VIEW IF NOT EXISTS big AS SELECT 1", CreateView("big", "SELECT 1", if_not_exists=True)),
    ("CREATE VIEW v (a, `b c`) AS SELECT 1, 2", CreateView("v", "SELECT * FROM (SELECT 1, 2) AS `v`(`a`, `b c`)")),
    ("CREATE TEMP VIEW v AS SELECT 1", Command("CREATE TEMP VIEW v AS SELECT 1")),
    ("CREATE TABLE t (a INT)", Command("CREATE TABLE t (a INT)")),
    ("DROP VIEW big", DropView("big")),
    ("DROP VIEW IF EXISTS big", DropView("big", if_exists=True)),
    ("DROP TABLE t", ChangeTable("DROP TABLE", "t")),
    ("drop table if exists `my-topic`", ChangeTable("DROP TABLE", "my-topic")),
    ("DELETE FROM t WHERE a = 1", ChangeTable("DELETE FROM", "t")),
    ("TRUNCATE TABLE t", ChangeTable("TRUNCATE TABLE", "t")),
    ("UPDATE t SET a = 1", ChangeTable("UPDATE", "t")),
    ("DROP DATABASE d", Command("DROP DATABASE d")),
    ("INSERT INTO t SELECT 1", Insert("t", "SELECT 1")),
    ("insert into table my-topic.v1 values (1)", Insert("my-topic.v1", "values (1)")),
    ("INSERT INTO `a b` (x, `y z`) SELECT 1, 2", Insert("a b", "SELECT 1, 2", ("x", "y z"))),
    ("INSERT INTO t (SELECT 1)", Insert("t", "(SELECT 1)")),
    ("INSERT INTO t (a) (SELECT 1)", Insert("t", "(SELECT 1)", ("a",))),
    ("INSERT INTO t BY NAME SELECT 1 AS a", Insert("t", "SELECT 1 AS a")),
    (
        "WITH x AS (SELECT 1 AS insert) INSERT INTO t SELECT * FROM x",
        Insert("t", "WITH x AS (SELECT 1 AS insert) SELECT * FROM x"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), STATEMENTS)
def test_a_statement_is_taken_apart_when_it_is_one_of_ours(text: str, expected: Statement) -> None:
    assert parse_statement(text) == expected


def test_the_whole_text_is_kept_when_a_statement_is_an_insert() -> None:
    statement = parse_statement("-- copies\nINSERT INTO t SELECT 1;")
    assert isinstance(statement, Insert)
    assert statement.text == "INSERT INTO t SELECT 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no statement"),
        ("-- only this", "there is no statement"),
        ("INSERT OVERWRITE t SELECT 1", "no INSERT OVERWRITE"),
        ("INSERT t SELECT 1", "'t' stands in line 1 where INTO is expected"),
        ("INSERT INTO", "the statement ends where a topic is expected"),
        ("INSERT INTO t", "INSERT INTO t ends where a question"),
        ("INSERT INTO t (a, b)", "INSERT INTO t ends where a question"),
        ("INSERT INTO t\nPARTITION (a) SELECT 1", "'PARTITION' stands in line 2 where a question"),
        ("CREATE VIEW v SELECT 1", "'SELECT' stands in line 1 where AS is expected"),
        ("CREATE VIEW a.b AS SELECT 1", "'a.b' cannot be a view's name"),
        ("DROP VIEW a b", "'b' stands in line 1 where DROP VIEW a should end"),
        ("DESCRIBE", "the statement ends where a topic or a view is expected"),
        ("EXPLAIN", "EXPLAIN ends where a question"),
        ("EXPLAIN INSERT INTO t SELECT 1", "'INSERT' stands in line 1 where a question"),
    ],
)
def test_the_place_is_named_when_a_statement_of_ours_does_not_go_on_so(text: str, said: str) -> None:
    with pytest.raises(SqlError) as raised:
        parse_statement(text)
    assert said in raised.value.message


@pytest.mark.parametrize(("text", "name"), [("`a``b`", "a`b"), ("```a```", "`a`"), ("````", "`"), ("`open", "open")])
def test_a_name_keeps_its_own_backquotes_when_those_around_it_are_taken_away(text: str, name: str) -> None:
    assert [token.value for token in tokens_of(text)] == [name]
