"""Topics as tables in a Spark session: `register(spark).sql("SELECT ...")`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class ColumnOfTable:
    name: str
    type: str  # as Spark's SQL writes it
    is_ours: bool  # _key, _headers, _partition, _offset, _timestamp


@dataclass(frozen=True)
class TableDescription:
    name: str
    columns: tuple[ColumnOfTable, ...]
    note: str  # where the columns come from
    partitions: int
    records: int  # offsets between the first and the end: an upper bound of the records


class Tables:
    """The tables of one cluster in one session. Safe for threads; a question leaves no temporary view behind."""

    notices: list[str]  # of the last question: inferred columns, lateness, skipped rows

    def sql(self, text: str) -> DataFrame:
        """A question about topics, files and the session's own tables. Its end offsets are fixed at this call."""
        raise NotImplementedError

    def names(self) -> list[str]:
        raise NotImplementedError

    def columns(self, name: str) -> list[ColumnOfTable]:
        raise NotImplementedError

    def describe(self, name: str) -> TableDescription:
        raise NotImplementedError

    def explain(self, text: str, is_extended: bool = False) -> str:
        raise NotImplementedError


def register(
    spark: SparkSession,
    bootstrap_servers: str = "127.0.0.1:9092",
    *,
    registry: str | None = None,
    kafka: Mapping[str, str] | None = None,
    topics: Collection[str] | None = None,
    bad_rows: str = "fail",
    lateness: str = "10 minutes",
    is_read_committed: bool = True,
) -> Tables:
    raise NotImplementedError
