from __future__ import annotations

import datetime
from typing import Any

import pytest
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateTable

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Sink
from penstock.pipelines.sinks.columns.sql import check_fit, check_key, in_utc, make_table, plan_columns, write_statement
from penstock.pipelines.sinks.sql import SqlTable

DIALECTS: dict[str, Any] = {
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]
    "mysql": mysql.dialect(is_mariadb=True),
    "sqlite": sqlite.dialect(),
}
KINDS = {
    "id": "string",
    "amount": "decimal(10,2)",
    "at": "timestamp",
    "tags": "array<string>",
    "raw": "binary",
    "ok": "boolean",
}
URL = "postgresql+psycopg://etl:hush@db:5432/shop?options=alsohush"


def created(dialect: str) -> str:
    table = make_table("orders", plan_columns(KINDS, ("id",), "orders"), dialect)
    return " ".join(str(CreateTable(table).compile(dialect=DIALECTS[dialect])).split())


def test_types_are_those_of_the_database_when_a_table_is_created() -> None:
    assert created("postgresql") == (
        "CREATE TABLE orders ( id TEXT NOT NULL, amount NUMERIC(10, 2), at TIMESTAMP WITH TIME ZONE, tags TEXT, "
        "raw BYTEA, ok BOOLEAN, PRIMARY KEY (id) )"
    )
    assert created("mysql") == (
        "CREATE TABLE orders ( id VARCHAR(255) NOT NULL, amount NUMERIC(10, 2), at DATETIME(6), tags LONGTEXT, "
        "raw LONGBLOB, ok BOOL, PRIMARY KEY (id) )"
    )
    assert "at DATETIME, tags TEXT, raw BLOB" in created("sqlite")


@pytest.mark.parametrize(
    ("dialect", "ending"),
    [
        ("postgresql", "ON CONFLICT (id) DO UPDATE SET n = excluded.n"),
        ("sqlite", "ON CONFLICT (id) DO UPDATE SET n = excluded.n"),
        ("mysql", "ON DUPLICATE KEY UPDATE n = VALUES(n)"),
    ],
)
def test_the_newer_row_wins_when_a_key_is_there(dialect: str, ending: str) -> None:
    table = make_table("t", plan_columns({"id": "int", "n": "int"}, ("id",), "t"), dialect)
    statement = " ".join(str(write_statement(table, dialect, "upsert").compile(dialect=DIALECTS[dialect])).split())
    assert statement.endswith(ending)
    plain = str(write_statement(table, dialect, "append").compile(dialect=DIALECTS[dialect]))
    assert "CONFLICT" not in plain
    assert "DUPLICATE" not in plain


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_nothing_changes_when_there_is_nothing_but_the_key(dialect: str) -> None:
    table = make_table("t", plan_columns({"id": "int"}, ("id",), "t"), dialect)
    statement = str(write_statement(table, dialect, "upsert").compile(dialect=DIALECTS[dialect]))
    assert "DO NOTHING" in statement or "UPDATE id = VALUES(id)" in statement


def test_columns_are_named_when_the_database_cannot_take_them() -> None:
    with pytest.raises(PipelineError, match="lack id"):
        plan_columns({"n": "int"}, ("id",), "t")
    with pytest.raises(PipelineError, match=r"the columns v \(variant\)"):
        plan_columns({"v": "variant"}, (), "t")


def test_columns_are_named_when_rows_do_not_fit_the_table() -> None:
    found = [
        {"name": "id", "nullable": False, "default": None, "autoincrement": True},
        {"name": "must", "nullable": False, "default": None},
        {"name": "may", "nullable": True, "default": None},
        {"name": "with_default", "nullable": False, "default": "0"},
    ]
    with pytest.raises(PipelineError, match="new is not in the table; must is missing from the rows"):
        check_fit(plan_columns({"new": "int"}, (), "t"), "t", found)
    check_fit(plan_columns({"must": "int"}, (), "t"), "t", found)


def test_upsert_is_refused_when_no_index_tells_rows_apart() -> None:
    with pytest.raises(PipelineError, match="unique index over exactly a, b"):
        check_key(("a", "b"), "t", [["a"], []])
    check_key(("a", "b"), "t", [["id"], ["b", "a"]])


def test_times_are_utc_when_the_database_keeps_no_zone() -> None:
    moment = datetime.datetime(2024, 5, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert in_utc(moment, "sqlite") == datetime.datetime(2024, 5, 1, 12)  # noqa: DTZ001
    assert in_utc(moment, "postgresql") == moment
    assert in_utc("x", "sqlite") == "x"


def test_credentials_stay_unsaid_when_a_table_is_described() -> None:
    sink = SqlTable(URL, "orders", mode="upsert", key=("id",))
    assert isinstance(sink, Sink)
    assert sink.describe() == "SQL table orders in postgresql+psycopg://etl@db:5432/shop, upsert by id, exactly once"
    assert "hush" not in sink.describe() + repr(sink) + repr(sink._database)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table": ""}, "needs a table"),
        ({"mode": "replace"}, "'append' or 'upsert', not 'replace'"),
        ({"mode": "upsert"}, "needs key="),
        (
            {"url": "oracle://x/y", "mode": "upsert", "key": ("id",)},
            "sqlite, postgresql, mysql, mariadb, not for oracle",
        ),
        ({"url": "not a url with hush"}, "is not one that SQLAlchemy takes"),
        ({"tasks": 0}, "tasks"),
    ],
)
def test_a_table_is_refused_when_an_argument_cannot_work(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=said) as raised:
        SqlTable(**{"url": URL, "table": "t", **arguments})
    assert "hush" not in str(raised.value)
