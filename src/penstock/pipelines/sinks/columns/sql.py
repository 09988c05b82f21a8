"""Spark's columns as a database's: types, the checks of an existing table, and the statement that writes rows."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import sqlalchemy as sa

# MariaDB cannot index text without a length, and no index of its takes more than 3,072 bytes.
KEY_LENGTH = 255
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# Written as JSON text.
NESTED = ("array<", "map<", "struct<")


@dataclass(frozen=True, slots=True)
class SqlColumn:
    name: str
    kind: str  # as Spark writes types
    is_key: bool = False


def plan_columns(rows: Mapping[str, str], key: Sequence[str], table: str) -> Sequence[SqlColumn]:
    missing = [name for name in key if name not in rows]
    if missing:
        raise PipelineError(f"the key of the table {table} is {', '.join(key)}; the rows lack {', '.join(missing)}")
    unknown = [f"{name} ({kind})" for name, kind in rows.items() if _type_maker(kind) is None]
    if unknown:
        raise PipelineError(f"the table {table} cannot hold the columns {', '.join(unknown)}", "Cast them in a step.")
    return [SqlColumn(name, kind, name in key) for name, kind in rows.items()]


def make_table(table: str, columns: Sequence[SqlColumn], dialect: str) -> sa.Table:
    """The table as the sink creates it where it is missing. "schema.name" names a table of a schema."""
    import sqlalchemy as sa

    schema, _, name = table.rpartition(".")
    return sa.Table(
        name,
        sa.MetaData(schema=schema or None),
        *[
            sa.Column(column.name, sql_type(column, dialect), primary_key=column.is_key, autoincrement=False)
            for column in columns
        ],
    )


def sql_type(column: SqlColumn, dialect: str) -> sa.types.TypeEngine[Any]:
    import sqlalchemy as sa

    if column.is_key and column.kind == "string":
        return sa.String(KEY_LENGTH) if is_mysql(dialect) else sa.Text()
    maker = _type_maker(column.kind)
    assert maker is not None, "plan_columns refuses what has no type"
    made: sa.types.TypeEngine[Any] = maker(dialect)
    return made


def _type_maker(kind: str) -> Callable[[str], Any] | None:
    import sqlalchemy as sa
    from sqlalchemy.dialects import mysql

    def moment(dialect: str) -> Any:
        return mysql.DATETIME(fsp=6) if is_mysql(dialect) else sa.DateTime(timezone=dialect == "postgresql")

    def plain_moment(dialect: str) -> Any:
        return mysql.DATETIME(fsp=6) if is_mysql(dialect) else sa.DateTime()

    def text(dialect: str) -> Any:
        return mysql.LONGTEXT() if is_mysql(dialect) else sa.Text()

    def binary(dialect: str) -> Any:
        return mysql.LONGBLOB() if is_mysql(dialect) else sa.LargeBinary()

    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        return lambda _: sa.Numeric(precision, scale)
    if kind.startswith(NESTED):
        return text
    simple: dict[str, Callable[[str], Any]] = {
        "string": text,
        "binary": binary,
        "timestamp": moment,
        "timestamp_ntz": plain_moment,
        "boolean": lambda _: sa.Boolean(),
        "tinyint": lambda _: sa.SmallInteger(),
        "smallint": lambda _: sa.SmallInteger(),
        "int": lambda _: sa.Integer(),
        "bigint": lambda _: sa.BigInteger(),
        "float": lambda _: sa.Float(24),
        "double": lambda _: sa.Double(),  # MariaDB takes a precision only together with a scale
        "date": lambda _: sa.Date(),
    }
    return simple.get(kind)


def is_mysql(dialect: str) -> bool:
    return dialect in ("mysql", "mariadb")


def check_fit(rows: Sequence[SqlColumn], table: str, table_columns: Sequence[Mapping[str, Any]]) -> None:
    """`table_columns`: the columns of the table from SQLAlchemy's inspector."""
    given = {column.name for column in rows}
    wrong = [f"{name} is not in the table" for name in sorted(given - {column["name"] for column in table_columns})]
    wrong += [
        f"{column['name']} is missing from the rows and must have a value"
        for column in table_columns
        if column["name"] not in given
        and not column["nullable"]
        and column.get("default") is None
        and not column.get("computed")
        and not column.get("identity")
        and column.get("autoincrement") is not True
    ]
    if wrong:
        raise PipelineError(
            f"the rows do not fit the table {table}: {'; '.join(wrong)}",
            "Change the table or the steps before it, then start again: the batch is written then.",
        )


def check_key(key: Sequence[str], table: str, unique: Sequence[Sequence[str]]) -> None:
    """Refuses a key without a unique constraint: the database would add a row for each change."""
    if not any(set(columns) == set(key) for columns in unique):
        raise PipelineError(
            f"upsert into {table} needs a primary key or a unique index over exactly {', '.join(key)}",
            "Create one, or let the sink create the table.",
        )


def write_statement(table: sa.Table, dialect: str, mode: str) -> Any:
    """The statement that writes one row; the database executes it with many."""
    if mode == "append":
        return table.insert()
    return _UPSERTS[dialect](table)


def _on_conflict(insert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def make(table: sa.Table) -> Any:
        statement = insert(table)
        key = [column.name for column in table.primary_key]
        changed = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in key}
        if not changed:
            return statement.on_conflict_do_nothing(index_elements=key)
        return statement.on_conflict_do_update(index_elements=key, set_=changed)

    return make


def _postgresql(table: sa.Table) -> Any:
    from sqlalchemy.dialects import postgresql

    return _on_conflict(postgresql.insert)(table)


def _sqlite(table: sa.Table) -> Any:
    from sqlalchemy.dialects import sqlite

    return _on_conflict(sqlite.insert)(table)


def _mysql(table: sa.Table) -> Any:
    from sqlalchemy.dialects import mysql

    statement = mysql.insert(table)
    # Setting the key to itself changes nothing, which is the way to say so here.
    changed = [column.name for column in table.columns if not column.primary_key] or [
        next(iter(table.primary_key)).name
    ]
    return statement.on_duplicate_key_update({name: statement.inserted[name] for name in changed})


_UPSERTS: Mapping[str, Callable[[Any], Any]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
}
UPSERT_DIALECTS = tuple(_UPSERTS)


def in_utc(value: Any, dialect: str) -> Any:
    """Only PostgreSQL keeps a time zone; the others get UTC without saying so."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return value
    moment = value.astimezone(datetime.UTC)
    return moment if dialect == "postgresql" else moment.replace(tzinfo=None)
