"""Statements, one after another, in one session: each is read, done, and answered by rows or by words."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.answers import Answer
from penstock.pipelines.sql.inserting import InsertOptions, insert
from penstock.pipelines.sql.refusals import refusal_of
from penstock.pipelines.sql.rows import FrameRows, TableRows
from penstock.pipelines.sql.session import open_sql_session, warm_up
from penstock.pipelines.sql.statements import (
    CreateView,
    Describe,
    DropView,
    Explain,
    Insert,
    Query,
    ShowTables,
    ShowViews,
    Statement,
    parse_statement,
)
from penstock.pipelines.sql.tables import TableDescription, Tables, register
from penstock.pipelines.sql.views import DEFAULT_FILE, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Wishes:
    """Which cluster's topics, how they become tables, and in which Spark."""

    bootstrap_servers: str
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: Mapping[str, str] | None = field(default=None, repr=False)  # schema.registry.url, basic.auth..., ...
    bad_rows: str = "fail"
    lateness_ms: int = 600_000
    subjects: Mapping[str, str] = field(default_factory=dict)
    views: Path | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    is_hive: bool = False
    inserting: InsertOptions = field(default_factory=InsertOptions)


def open_conversation(wishes: Wishes) -> Conversation:
    spark = open_sql_session(wishes.spark, is_hive=wishes.is_hive)
    tables = register(
        spark,
        wishes.bootstrap_servers,
        registry=wishes.registry,
        kafka=wishes.kafka,
        bad_rows=wishes.bad_rows,
        lateness=f"{wishes.lateness_ms} milliseconds",
        subjects=wishes.subjects,
    )
    views = Views.load((wishes.views or DEFAULT_FILE).expanduser())
    return Conversation(spark, tables, views, wishes.inserting)


@dataclass(slots=True)
class Conversation:
    spark: SparkSession
    tables: Tables
    views: Views
    inserting: InsertOptions = field(default_factory=InsertOptions)
    _is_cancelled: bool = False

    def run(self, text: str) -> Answer:
        """One statement. Raises PipelineError."""
        self._is_cancelled = False
        try:
            answer = self._answer(parse_statement(text), text)
        except Exception as error:  # Spark's, py4j's, the client library's and the registry's
            raise refusal_of(error, text) from error
        if self._is_cancelled:  # while Spark planned, which cannot be interrupted
            raise SqlError("cancelled")
        return answer

    def cancel(self) -> None:
        self._is_cancelled = True
        self.spark.sparkContext.cancelAllJobs()

    def late_notices(self) -> tuple[str, ...]:
        return ()

    def names(self) -> list[str]:
        return sorted({*self.tables.names(), *self.views.queries})

    def columns(self, name: str) -> list[str]:
        if name in self.views.queries:
            return self.tables.sql(f"TABLE {name}").columns
        return [column.name for column in self.tables.columns(name)]

    def warm_up(self) -> None:
        warm_up(self.spark)

    def _answer(self, statement: Statement, text: str) -> Answer:
        match statement:
            case Explain(question, is_extended):
                return Answer(text=self.tables.explain(question, is_extended), notices=self._notices())
            case ShowTables(pattern):
                return self._listed("table", self.tables.names(), pattern)
            case ShowViews(pattern):
                return self._listed("view", self.views.queries, pattern)
            case Describe(name):
                return self._described(name)
            case CreateView(name):
                self.views.create(statement)
                return Answer(notices=(f"view {name} is kept in {self.views.file}",))
            case DropView(name):
                self.views.drop(statement)
                return Answer(notices=(f"view {name} is gone",))
            case Insert():
                return self._inserted(statement)
            case Query(question):
                return self._rows(self.tables.sql(question), text)
            case _:
                return self._rows(self.spark.sql(text), text)

    def _rows(self, frame: DataFrame, text: str) -> Answer:
        notices = self._notices()
        if not frame.columns:  # a command that has nothing to show
            return Answer(notices=notices)
        return Answer(FrameRows(frame, lambda error: refusal_of(error, text)), notices=notices)

    def _notices(self) -> tuple[str, ...]:
        return tuple(self.tables.notices)

    def _listed(self, heading: str, names: Iterable[str], pattern: str) -> Answer:
        patterns = [each.strip().lower() for each in pattern.split("|")] if pattern else ["*"]
        shown = [name for name in sorted(names) if any(fnmatch.fnmatchcase(name.lower(), each) for each in patterns)]
        return Answer(TableRows({heading: shown}))

    def _described(self, name: str) -> Answer:
        if name in self.views.queries:
            frame = self.tables.sql(f"TABLE {name}")
            columns = [(each.name, each.dataType.simpleString()) for each in frame.schema]
            return _columns(columns, f"view: {self.views.queries[name]}")
        found: TableDescription = self.tables.describe(name)
        size = f"{found.partitions} partitions, at most {found.records:,} records"
        return _columns([(each.name, each.type) for each in found.columns], f"{size}; {found.note}".rstrip("; "))

    def _inserted(self, statement: Insert) -> Answer:
        done = insert(self.tables, statement, self.inserting)
        continued = ", as an earlier run had begun it" if done.is_continued else ""
        return Answer(notices=(*done.notices, f"{done.rows:,} rows into {done.topic}{continued}"))


def _columns(columns: Iterable[tuple[str, str]], note: str) -> Answer:
    names, types = zip(*columns, strict=True)
    return Answer(TableRows({"column": list(names), "type": list(types)}), notices=(note,))
