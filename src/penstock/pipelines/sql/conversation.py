"""Statements, one after another, in one session: each is read, done, and answered by rows or by words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.sql.inserting import InsertOptions, insert
from penstock.pipelines.sql.refusals import refusal_of
from penstock.pipelines.sql.rows import FrameRows
from penstock.pipelines.sql.statements import (
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
    parse_statement,
)
from penstock.pipelines.sql.views import Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.sql.tables import Tables


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, or words instead: EXPLAIN has words, and so have statements that change something."""

    rows: FrameRows | None = None
    text: str = ""
    notices: tuple[str, ...] = ()


@dataclass(slots=True)
class Conversation:
    spark: SparkSession
    tables: Tables
    views: Views
    insert_options: InsertOptions = field(default_factory=InsertOptions)
    _is_cancelled: bool = False

    def run(self, text: str) -> Answer:
        """One statement. Raises PipelineError."""
        self._is_cancelled = False
        try:
            answer = self._answer(parse_statement(text))
        except PipelineError:
            raise
        except Exception as error:  # noqa: BLE001  # Spark's, py4j's, the client library's and the registry's
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
            return self.tables.sql(self.views.queries[name]).columns
        return [column.name for column in self.tables.columns(name)]

    def close(self) -> None:
        self.spark.stop()
