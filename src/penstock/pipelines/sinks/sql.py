"""A table in an SQL database, through SQLAlchemy.

SqlTable("postgresql+psycopg://etl@db/shop", "orders", mode="upsert", key=("id",), order_by=("updated_at",))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, NO_SESSION_SETTINGS, Batch, Settings
from penstock.pipelines.sinks.columns.sql import (
    NESTED,
    UPSERT_DIALECTS,
    SqlColumn,
    check_fit,
    check_key,
    make_table,
    plan_columns,
)
from penstock.pipelines.sinks.sql_writing.database import (
    Database,
    check_marks,
    create_if_missing,
    marks_table,
    read_marks,
)
from penstock.pipelines.sinks.sql_writing.task import RESULT_SCHEMA, SqlTask
from penstock.pipelines.sql_identifiers import quote

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class SqlTable:
    """Each batch adds or changes its rows exactly once: each task writes its rows and a mark of the batch in one
    transaction. With several `tasks`, the one that a row belongs to follows from its key (where there is none, from the
    whole row), so that a batch that comes again is dealt out as before: it must not hold what differs then, such as the
    time of day. Readers may see a part of such a batch; of one task's, all or nothing.

    Where several rows of a batch have one key, the one that is largest by `order_by` wins, compared column by column,
    null before everything; between equals, and without `order_by`, the other columns decide in their order."""

    url: str = field(repr=False)  # as SQLAlchemy takes it; may hold a password
    table: str = ""  # "name" or "schema.name"
    mode: Literal["append", "upsert"] = "append"
    key: tuple[str, ...] = ()  # of upsert; for append, what deals rows out to tasks
    order_by: tuple[str, ...] = ()
    create: bool = True  # a missing table, from the first batch's columns
    batch_size: int = 1000  # rows per statement
    tasks: int = 1  # that write at once, each with a transaction of its own
    wait_s: float = 60.0  # for a database that is down, before the batch fails
    name: str = ""  # default: the table's

    def __post_init__(self) -> None:
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError

        if not self.table:
            raise PipelineError("SqlTable needs a table")
        try:
            dialect = self._database.dialect
        except (ArgumentError, NoSuchModuleError):
            # Without the cause, which quotes the URL.
            raise PipelineError(f"url of the SQL table {self.table} is not one that SQLAlchemy takes") from None
        if self.mode not in ("append", "upsert"):
            raise PipelineError(f"mode of a SqlTable is 'append' or 'upsert', not {self.mode!r}")
        if self.mode == "upsert" and not self.key:
            raise PipelineError(f"upsert into {self.table} needs key=(...), the columns that tell rows apart")
        if self.mode == "upsert" and dialect not in UPSERT_DIALECTS:
            raise PipelineError(f"upsert is there for {', '.join(UPSERT_DIALECTS)}, not for {dialect}")
        if self.batch_size < 1 or self.tasks < 1 or self.wait_s < 0:
            raise PipelineError(
                f"a SqlTable takes batch_size and tasks of at least 1 and wait_s of at least 0, not {self.batch_size}, "
                f"{self.tasks} and {self.wait_s}"
            )
        self.name = self.name or self.table

    @property
    def session_settings(self) -> Mapping[str, str]:
        return NO_SESSION_SETTINGS

    def describe(self, settings: Settings = DEFAULT_SETTINGS) -> str:
        by = f" by {', '.join(self.key)}" if self.mode == "upsert" else ""
        return f"SQL table {self.table} in {self._database.shown}, {self.mode}{by}, exactly once"

    def open(self, spark: SparkSession, settings: Settings) -> OpenSqlTable:
        database = self._database
        database.patiently(lambda: _create_marks(database))
        return OpenSqlTable(self, database)

    @property
    def _database(self) -> Database:
        return Database(self.url, self.wait_s)


@dataclass(slots=True)
class OpenSqlTable:
    sink: SqlTable
    database: Database
    # The columns whose fit with the table has been checked.
    _checked: set[tuple[tuple[str, str], ...]] = field(default_factory=set, init=False)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        sink = self.sink
        kinds = {column.name: column.dataType.simpleString() for column in rows.schema.fields}
        columns = plan_columns(kinds, sink.key if sink.mode == "upsert" else (), sink.table)
        self.database.patiently(lambda: self._check_table(columns))
        if self.database.patiently(lambda: self._is_there(batch)):
            return
        dealt = self._deal(_as_text(rows, columns))
        task = SqlTask(
            self.database,
            sink.table,
            columns,
            sink.mode,
            sink.batch_size,
            batch.query_id,
            sink.name,
            batch.id,
            sink.tasks,
        )
        dealt.mapInArrow(task, RESULT_SCHEMA).collect()

    def close(self) -> None:
        self._checked.clear()

    def _deal(self, rows: DataFrame) -> DataFrame:
        """Deals the rows out by hash and not in turn, which would depend on how the source was cut."""
        from pyspark.sql import functions as F

        sink = self.sink
        if sink.mode == "append":
            return rows.repartition(sink.tasks, *map(quote, sink.key or rows.columns))
        missing = [name for name in sink.order_by if name not in rows.columns]
        if missing:
            raise PipelineError(f"order_by of the SQL table {sink.table} names {', '.join(missing)}; the rows lack it")
        others = [name for name in rows.columns if name not in (*sink.key, *sink.order_by)]
        order = [*sink.order_by, *others] or list(sink.key)
        last = F.max_by(F.struct(*map(quote, rows.columns)), F.struct(*map(quote, order)))
        # Already dealt out by the key, so that the aggregation needs no shuffle of its own.
        grouped = rows.repartition(sink.tasks, *map(quote, sink.key)).groupBy(*map(quote, sink.key))
        return grouped.agg(last.alias("_penstock_last")).select("_penstock_last.*")

    def _is_there(self, batch: Batch) -> bool:
        sink = self.sink
        with self.database.transaction() as connection:
            return check_marks(read_marks(connection, batch.query_id, sink.name), sink.name, batch.id, sink.tasks)

    def _check_table(self, columns: Sequence[SqlColumn]) -> None:
        kinds = tuple((column.name, column.kind) for column in columns)
        if kinds in self._checked:
            return
        with self.database.transaction() as connection:
            self._create_or_check(connection, columns)
        self._checked.add(kinds)

    def _create_or_check(self, connection: sa.Connection, columns: Sequence[SqlColumn]) -> None:
        import sqlalchemy as sa

        sink = self.sink
        wanted = make_table(sink.table, columns, self.database.dialect)
        inspector = sa.inspect(connection)
        if not inspector.has_table(wanted.name, schema=wanted.schema):
            if not sink.create:
                raise PipelineError(f"there is no table {sink.table} in {self.database.shown}")
            create_if_missing(connection, wanted)
            return
        check_fit(columns, sink.table, inspector.get_columns(wanted.name, schema=wanted.schema))
        if sink.mode == "upsert":
            primary = inspector.get_pk_constraint(wanted.name, schema=wanted.schema)["constrained_columns"]
            indexes = inspector.get_indexes(wanted.name, schema=wanted.schema)
            constraints = inspector.get_unique_constraints(wanted.name, schema=wanted.schema)
            # An index over an expression has no column of that name, and does not count.
            unique = [[str(name) for name in index["column_names"]] for index in indexes if index["unique"]]
            unique += [constraint["column_names"] for constraint in constraints]
            check_key(sink.key, sink.table, [primary, *unique])


def _create_marks(database: Database) -> None:
    with database.transaction() as connection:
        create_if_missing(connection, marks_table())


def _as_text(rows: DataFrame, columns: Sequence[SqlColumn]) -> DataFrame:
    """Nested columns as JSON: no database type is common to all, and Spark cannot compare maps."""
    from pyspark.sql import functions as F

    nested = {column.name: F.to_json(quote(column.name)) for column in columns if column.kind.startswith(NESTED)}
    return rows.withColumns(nested) if nested else rows
