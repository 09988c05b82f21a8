"""A query's reads, written down, and the query run again over just those: the same tables, columns, offsets and tasks,
whatever has happened to topics and schemas since."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from penstock.core.types import TopicPartition
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.sql.sessions import OwnSession
from penstock.pipelines.sql_identifiers import quote
from penstock.pipelines.tables.connection import KafkaConnection
from penstock.pipelines.tables.definition import read_table, write_table
from penstock.pipelines.tables.scan import TableScan, frame, plan_tasks

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.sql.reads import TableRead


def write_snapshot(reads: Sequence[TableRead], cores: int) -> tuple[dict[str, Any], ...]:
    """Plain values for JSON, without secrets."""
    return tuple(_write(read, cores) for read in reads)


def ask_again(
    spark: SparkSession,
    connection: KafkaConnection,
    text: str,
    snapshot: Sequence[dict[str, Any]],
    skipped: Sequence[Accumulator[int]] = (),
) -> DataFrame:
    """`skipped` counts rows that do not decode, one for each table or none."""
    session = OwnSession(spark)
    for document, count in zip_longest(snapshot, skipped):
        session.put_view(table_name(document, connection), read_again(spark, connection, document, count))
    return session.frame(session.analyze(text))


def table_name(document: dict[str, Any], connection: KafkaConnection) -> str:
    return read_table(document["table"], connection.registry).name


def read_again(
    spark: SparkSession, connection: KafkaConnection, document: dict[str, Any], skipped: Accumulator[int] | None = None
) -> DataFrame:
    """One table of the snapshot."""
    scan = scan_of(document, connection)
    return _all_columns(frame(spark, scan, skipped), scan)


def scan_of(document: dict[str, Any], connection: KafkaConnection) -> TableScan:
    tasks = tuple(
        tuple(OffsetRange(TopicPartition(topic, number), start, end) for topic, number, start, end in task)
        for task in document["tasks"]
    )
    keys = document["keys"]
    return TableScan(
        read_table(document["table"], connection.registry),
        tuple(document["columns"]),
        tasks,
        connection.fetch_options(),
        connection.bad_rows,
        document["limit"],
        None if keys is None else frozenset(map(base64.b64decode, keys)),
    )


def _write(read: TableRead, cores: int) -> dict[str, Any]:
    tasks = plan_tasks(read.ranges, cores)
    return {
        "table": write_table(read.table),
        "columns": list(read.columns),
        "tasks": [[[*part.partition, part.start, part.end] for part in task] for task in tasks],
        "limit": read.limit,
        "keys": None if read.keys is None else [base64.b64encode(key).decode() for key in sorted(read.keys)],
    }


def _all_columns(rows: DataFrame, scan: TableScan) -> DataFrame:
    """Unread columns are null: the text of the query is about a table that has them."""
    from pyspark.sql import functions as F

    is_read = frozenset(scan.columns)
    columns = [
        F.col(quote(column.name)) if column.name in is_read else F.lit(None).cast(column.spark_type).alias(column.name)
        for column in scan.table.columns
    ]
    return rows.select(*columns)
