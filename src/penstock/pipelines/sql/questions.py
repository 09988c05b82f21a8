"""A question over topics, in two passes.

The first pass has views over marker nodes in place of topics: Spark analyzes and optimizes the question, and its plan
shows the wanted columns and rows (`pushdown`). The second pass has views that read just those, from offsets that are
fixed once for all topics of the question. Unwanted columns are null, so that the text keeps its meaning.

A name that is no table or view of the session is looked up as a topic. The session's own tables and views win.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.types import TopicPartition
from penstock.pipelines.errors import SqlError, TableError
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.sql.pushdown import Pushdown, pushdown_of
from penstock.pipelines.sql.reads import TableRead, notices_of, plan_read
from penstock.pipelines.sql.refusals import TOLD, missing_table, refusal_of, silenced
from penstock.pipelines.sql.sessions import OwnSession, Parsed, Sessions
from penstock.pipelines.sql_identifiers import quote, type_ddl
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.clocks import Clock, clock_of
from penstock.pipelines.tables.scan import TableScan, frame, plan_tasks
from penstock.pipelines.tables.table import Table

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

# Names that views of the session bring in are found one at a time, each with an analysis of the whole question.
_MOST_LOOKUPS = 100
# What a prompt shows, and what a driver holds without noticing. A fetch brings no more than about a kilobyte a row.
_FEW_ROWS = 1_000
_FEW_BYTES = 16 << 20


@dataclass(frozen=True)
class Question:
    text: str
    frame: DataFrame
    reads: tuple[TableRead, ...]
    notices: tuple[str, ...]
    counts: tuple[Accumulator[int], ...] = ()  # of the rows that did not decode and were left out, for each read

    @property
    def skipped(self) -> dict[str, int]:
        """How many rows of each table were left out until now because they did not decode."""
        counted = zip(self.reads, self.counts, strict=False)
        return {read.table.name: count.value for read, count in counted if count.value}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The snapshot: what asking again needs to read the same rows."""
        return {part.partition: part.end for read in self.reads for part in read.held}


def ask(
    sessions: Sessions,
    catalog: Catalog,
    text: str,
    *,
    ours: frozenset[str] = frozenset(),
    ends: Mapping[TopicPartition, int] | None = None,
    is_run: bool = True,
) -> Question:
    """Raises SqlError, TableError and OptionError. `ours` are names of the session's views that stand for topics.
    `ends` fixes the end offsets of an earlier question. `is_run` is False for a question that is only explained."""
    tables: dict[str, Table] = {}
    try:
        with silenced():
            return _ask(sessions, catalog, text, tables, ours, ends, is_run)
    except TOLD as error:
        columns = {name: [column.name for column in table.columns] for name, table in tables.items()}
        notes = {name: table.note for name, table in tables.items()}
        refused = refusal_of(error, text, topics=catalog.topics, columns=columns, notes=notes)
        if refused is error:
            raise
        raise refused from None  # what Spark raised has all of Java's stack in its text


def _ask(
    sessions: Sessions,
    catalog: Catalog,
    text: str,
    tables: dict[str, Table],
    ours: frozenset[str],
    ends: Mapping[TopicPartition, int] | None,
    is_run: bool,
) -> Question:
    spark, session = sessions.spark, sessions.open()
    parsed = session.parse(text)
    if parsed.is_command:
        return Question(text, spark.sql(text), (), ())
    execution = _first_pass(sessions, session, catalog, parsed, text, tables, ours)
    if not tables:
        return Question(text, session.frame(execution), (), ())
    wanted = pushdown_of(*session.optimized_json(execution))
    reads = plan_question(catalog, tables, wanted, ends, clock=clock_of(session.analyzed_json(execution)))
    is_counted = catalog.connection.bad_rows == "skip"
    counts = tuple(spark.sparkContext.accumulator(0) for _ in reads) if is_counted else ()
    for (name, read), count in zip_longest(reads.items(), counts):
        session.put_view(name, read_frame(spark, catalog, read, count, is_run=is_run))
    notices = dict.fromkeys(said for read in reads.values() for said in notices_of(read))
    return Question(text, session.frame(session.analyze(text)), tuple(reads.values()), tuple(notices), counts)


def plan_question(
    catalog: Catalog,
    tables: Mapping[str, Table],
    wanted: Mapping[str, Pushdown],
    ends: Mapping[TopicPartition, int] | None = None,
    *,
    clock: Clock = Clock.NONE,
) -> dict[str, TableRead]:
    """A topic that Spark has optimized away is planned as if all of it were wanted, and not read."""
    held: dict[str, list[OffsetRange]] = {table.topic: [] for table in tables.values()}
    for part in catalog.ranges(sorted(held)):
        end = part.end if ends is None else ends.get(part.partition, part.start)
        held[part.partition.topic].append(part._replace(end=end))
    everything = Pushdown(None)
    return {
        name: plan_read(
            table,
            wanted.get(name, everything),
            held[table.topic],
            catalog.offsets_at,
            catalog.topic_config,
            allowance_ms=catalog.connection.lateness_ms,
            clock=clock,
        )
        for name, table in tables.items()
    }


def read_frame(
    spark: SparkSession,
    catalog: Catalog,
    read: TableRead,
    skipped: Accumulator[int] | None = None,
    *,
    is_run: bool = True,
) -> DataFrame:
    """All columns of the table; those that are not read are null. `skipped` counts rows that do not decode."""
    connection = catalog.connection
    scan = TableScan(
        read.table,
        read.columns,
        plan_tasks(read.ranges, spark.sparkContext.defaultParallelism, read.limit),
        connection.fetch_options(),
        connection.bad_rows,
        read.limit,
        read.keys,
    )
    few = _few_rows(spark, scan, skipped) if is_run else None
    rows = frame(spark, scan, skipped) if few is None else few
    if len(read.columns) == len(read.table.columns):
        return rows
    is_read = frozenset(read.columns)
    return rows.selectExpr(
        *(
            quote(column.name)
            if column.name in is_read
            else f"CAST(NULL AS {type_ddl(column.spark_type)}) AS {quote(column.name)}"
            for column in read.table.columns
        )
    )


def _few_rows(spark: SparkSession, scan: TableScan, skipped: Accumulator[int] | None) -> DataFrame | None:
    """The rows of a scan with a small limit or of few offsets, read here and now; None where they are many or large.

    Spark kills a worker whose rows it does not read to the end, which a limit does, and the next worker takes a second
    to start. Here the rows are there in milliseconds.
    """
    most = sum(part.size for task in scan.tasks for part in task) if scan.limit is None else scan.limit
    if most > _FEW_ROWS or len(scan.tasks) != 1:
        return None
    rows, left = [], _FEW_BYTES
    counted: list[int] = []
    for batch in scan.read_task(0, counted.append):
        rows.append(batch)
        left -= batch.nbytes
        if left < 0:
            return None  # Spark reads them again, and counts those that are skipped
    if skipped is not None:
        skipped.add(sum(counted))
    schema = scan.table.spark_schema(each.name for each in scan.wanted)
    return spark.createDataFrame(pa.Table.from_batches(rows, scan.schema), schema)


def _first_pass(
    sessions: Sessions,
    session: OwnSession,
    catalog: Catalog,
    parsed: Parsed,
    text: str,
    tables: dict[str, Table],
    ours: frozenset[str],
) -> Any:
    """The question's analysis with markers in place of topics. `tables` is filled by the names that it has for them."""

    def put(name: str) -> None:
        table = catalog.table(name)
        _refuse_twins(name, tables, session)
        session.put_view(name, sessions.marker(name, table.spark_schema()))
        tables[name] = table

    # All are looked for before one is put: Spark takes names that differ in case for one.
    for name in [name for name in parsed.names if name.lower() in ours or not session.is_known(name)]:
        with suppress(TableError):  # it may be the name of a CTE; if it is not, it is looked up below again
            put(name)
    for _ in range(_MOST_LOOKUPS):
        try:
            return session.analyze(text)
        except TOLD as error:
            missing = missing_table(error)  # one that a view of the session names
            if missing is None or missing in tables:
                raise
            put(missing)
    raise SqlError(f"views of the session name more than {_MOST_LOOKUPS} topics")


def _refuse_twins(name: str, tables: Mapping[str, Table], session: OwnSession) -> None:
    twins = [other for other in tables if other != name and other.lower() == name.lower()]
    if twins and not session.is_case_sensitive():
        raise SqlError(
            f"{twins[0]} and {name} differ in case alone, and Spark takes them for one table",
            "ask about them in two questions",
        )
