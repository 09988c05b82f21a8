"""`--follow`: a question as a stream. Its answers come batch by batch, or go to files or a topic.

Topics are read as streams from where `start` says. `topic$latest`, files and Hive's tables are as they were at the
start. The question runs as a pipeline: what goes to a topic or to files is there exactly once, over restarts too, and
`penstock pipeline list` shows it.

Output mode: the first that Spark allows for the question of append (rows are final when they come: the watermark has
passed them), update (a group comes again when it changes) and complete (all groups, in order). A topic whose
`_timestamp` is used has a watermark on it, of the connection's lateness, unless another is given. Rows that a user only
looks at come in mode update first of all, so that the user does not have to wait for the watermark.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.intervals import spark_interval
from penstock.pipelines.options import ANY_LATENESS_MS
from penstock.pipelines.pipeline import Batch, Branch, OpenSink, OutputMode, Pipeline, Settings, Sink
from penstock.pipelines.runtime.query_plan import sinks_of
from penstock.pipelines.runtime.runner import Run
from penstock.pipelines.sinks.lake import Lake
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink
from penstock.pipelines.sql.insert import SINK_NAME, InsertOptions, cluster_id, encoding_request, named, said_of
from penstock.pipelines.sql.jobs import identity
from penstock.pipelines.sql.records import choose_encoding, find_roles, to_records
from penstock.pipelines.sql.sessions import OwnSession
from penstock.pipelines.sql.snapshots import read_again, write_snapshot
from penstock.pipelines.sql.statements import Insert, Query, Statement, parse_statement
from penstock.pipelines.sql.tokens import tokens_of
from penstock.pipelines.sql_identifiers import quote
from penstock.pipelines.tables.connection import LATENESS_MS
from penstock.pipelines.tables.source import table_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.sql.reads import TableRead
    from penstock.pipelines.sql.tables import Tables

OnBatch = Callable[["DataFrame", int], None]
TIMESTAMP = "_timestamp"
# All columns of a row in one: pipelines give a meaning to columns with names such as `error`, and questions do not.
_ROW = "row"
_MODES: tuple[OutputMode, ...] = ("append", "update", "complete")
_STARTS = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}


@dataclass(frozen=True, slots=True)
class FollowOptions:
    start: str = "latest"  # earliest, latest, or a time: ISO 8601, or milliseconds since 1970
    watermarks: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # table -> column, delay; "": any table
    mode: OutputMode | None = None  # None: what the question allows
    trigger: str = "1 second"
    checkpoint: Path | None = None  # None: ./checkpoints/sql; for rows handed to a callback a temporary one
    parquet: str = ""  # a directory: rows go there
    once: bool = False  # ends when everything that was there at the start is done


@dataclass(frozen=True, slots=True)
class FollowedQuery:
    """The question as a source of a pipeline."""

    tables: Tables
    query: str
    reads: tuple[TableRead, ...]
    options: FollowOptions

    @property
    def name(self) -> str:
        return ",".join(sorted(read.table.topic for read in self.reads))

    def describe(self) -> str:
        return f"a question about {self.name}, from {self.options.start}"

    def read(self, spark: SparkSession, settings: Settings) -> DataFrame:
        from pyspark.sql import functions as F

        rows = self.rows()
        return rows.select(F.struct(*(F.col(quote(name)) for name in rows.columns)).alias(_ROW))

    def rows(self) -> DataFrame:
        session = OwnSession(self.tables.spark)
        for read in self.reads:
            session.put_view(read.table.name, self._stream(read))
        return session.frame(session.analyze(self.query))

    def _stream(self, read: TableRead) -> DataFrame:
        """All columns of the table, of which those that the question wants are decoded."""
        from pyspark.sql import functions as F

        table, connection = read.table, self.tables.catalog.connection
        if table.is_latest:
            [static] = write_snapshot([read], self.tables.spark.sparkContext.defaultParallelism)
            return read_again(self.tables.spark, connection, static)
        watermark = self.watermark(read)
        wanted = {*read.columns, *((watermark[0],) if watermark else ())} or {"_partition"}
        columns = [column.name for column in table.columns if column.name in wanted]
        reader = self.tables.spark.readStream.format("penstock").schema(table.spark_schema(columns))
        options = table_options(connection, table) | start_options(self.options.start)
        rows = reader.options(**options).load()
        every = [
            F.col(quote(column.name))
            if column.name in wanted
            else F.lit(None).cast(column.spark_type).alias(column.name)
            for column in table.columns
        ]
        rows = rows.select(*every)
        return rows if watermark is None else rows.withWatermark(watermark[0], spark_interval(watermark[1]))

    def watermark(self, read: TableRead) -> tuple[str, str] | None:
        given = self.options.watermarks
        name = read.table.name.lower()
        chosen = next((mark for table, mark in given.items() if table.lower() == name), given.get(""))
        if chosen is not None:
            found = read.table.column(chosen[0])
            if found is None:
                raise SqlError(f"{read.table.name} has no column {chosen[0]}, so there is no watermark on it")
            return found.name, chosen[1]
        if self.is_default(read):
            lateness_ms = self.tables.catalog.connection.lateness_ms
            if lateness_ms >= ANY_LATENESS_MS:
                lateness_ms = LATENESS_MS  # a stream that waits for ever answers never
            return TIMESTAMP, f"{lateness_ms // 1000} seconds"
        return None

    def said(self) -> list[str]:
        """Notices for the user about the stream."""
        marks = [(read.table.name, self.watermark(read)) for read in self.reads if self.is_default(read)]
        said = [f"rows of {name} that are older than the newest by {mark[1]} are late" for name, mark in marks if mark]
        static = [read.table.name for read in self.reads if read.table.is_latest]
        return said + [f"{name} is as it was at the start" for name in static]

    def is_default(self, read: TableRead) -> bool:
        """Whether the table has the default watermark."""
        has_clause = any(token.word == "WATERMARK" for token in tokens_of(self.query))
        return not self.options.watermarks and not has_clause and TIMESTAMP in read.columns


def follow(
    tables: Tables,
    asked: str | Query | Insert,
    on_batch: OnBatch | None = None,
    options: FollowOptions | None = None,
    insert_options: InsertOptions | None = None,
    *,
    on_notice: Callable[[str], None] = lambda said: None,
) -> Run:
    """A started run. `asked` is a query or an INSERT INTO, with its views in it. `run.wait()` waits for its end;
    `run.stop()` ends it, also from another thread, but not from a signal handler. `on_batch` is called on a thread of
    the run with the rows and the batch's number. `on_notice` gets notices for the user before the start. SqlError names
    what is missing."""
    from penstock.pipelines.sql.refusals import refusal_of

    try:
        pipeline = plan_following(tables, asked, on_batch, options, insert_options, on_notice=on_notice)
        run = Run(tables.spark, pipeline)
        run.once = (options or FollowOptions()).once
        with scratch_removed_if_it_fails(pipeline):
            run.start()
    except PipelineError:
        raise
    except Exception as error:
        refused = refusal_of(error, asked if isinstance(asked, str) else question_of(asked))
        if refused is error:
            raise
        raise refused from error
    return run


@contextmanager
def scratch_removed_if_it_fails(pipeline: Pipeline) -> Iterator[None]:
    """A sink removes its scratch when it is closed; one that was never opened cannot."""
    try:
        yield
    except BaseException:
        for sink in sinks_of(pipeline):
            if isinstance(sink, RowsSink) and sink.scratch is not None:
                shutil.rmtree(sink.scratch, ignore_errors=True)
        raise


def plan_following(
    tables: Tables,
    asked: str | Query | Insert,
    on_batch: OnBatch | None = None,
    options: FollowOptions | None = None,
    insert_options: InsertOptions | None = None,
    *,
    on_notice: Callable[[str], None] = lambda said: None,
) -> Pipeline:
    """The pipeline that `follow` runs."""
    from penstock.pipelines.data_source import register as register_source

    register_source(tables.spark)
    options = options or FollowOptions()
    statement = refuse_unfollowed(parse_statement(asked) if isinstance(asked, str) else asked)
    query = question_of(statement)
    question = tables.ask(query, is_run=False)
    if all(read.table.is_latest for read in question.reads):
        raise SqlError("the question is about no topic that could be followed", "Leave --follow out.")
    following = FollowedQuery(tables, query, question.reads, options)
    rows = following.rows()
    is_looked_at = on_batch is not None and isinstance(statement, Query) and not options.parquet
    mode = choose_mode(rows, options.mode, prefers_update=is_looked_at)
    sink, said = _sink(tables, statement, rows, on_batch, options, insert_options or InsertOptions())
    for each in (*question.notices, *said, *following.said()):
        on_notice(each)
    return _pipeline(following, name_of(tables, statement), sink, mode, is_stateful(rows), is_looked_at)


def question_of(statement: Query | Insert) -> str:
    return statement.text if isinstance(statement, Query) else statement.query


def name_of(tables: Tables, statement: Query | Insert) -> str:
    """The same for the same question to the same cluster: what names the checkpoint."""
    topic, columns = (statement.topic, statement.columns) if isinstance(statement, Insert) else ("", ())
    cluster = cluster_id(tables.catalog.connection)
    return f"sql-{identity(cluster, topic, columns, question_of(statement))[:12]}"


def _pipeline(
    following: FollowedQuery, name: str, sink: Sink, mode: OutputMode, has_state: bool, is_looked_at: bool
) -> Pipeline:
    options, connection = following.options, following.tables.catalog.connection
    directory = options.checkpoint or Path.cwd() / "checkpoints" / "sql"
    checkpoint = directory / name
    if is_looked_at and options.checkpoint is None:
        checkpoint = Path(tempfile.mkdtemp(prefix="penstock-follow-"))
        sink = replace(sink, scratch=checkpoint) if isinstance(sink, RowsSink) else sink
    sinks = (Branch("rows", sinks=(sink,), stateful=True, mode=mode),) if has_state else (sink,)
    settings = Settings(
        bootstrap_servers=connection.bootstrap_servers,
        checkpoint=str(checkpoint),
        trigger=options.trigger,
        kafka=connection.kafka,
        publish_runs=not is_looked_at,
    )
    return Pipeline(name, sources=(following,), sinks=sinks, settings=settings)


@dataclass(frozen=True, slots=True)
class RowsSink:
    """A sink for rows that come packed in one column."""

    inner: Sink
    prepare: Callable[[DataFrame], DataFrame] = lambda rows: rows
    scratch: Path | None = None  # removed at the end

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def session_settings(self) -> Mapping[str, str]:
        return self.inner.session_settings

    def describe(self, settings: Settings) -> str:
        return self.inner.describe(settings)

    def open(self, spark: SparkSession, settings: Settings) -> OpenRows:
        return OpenRows(self, self.inner.open(spark, settings))


@dataclass(frozen=True, slots=True)
class OpenRows:
    sink: RowsSink
    inner: OpenSink

    def write(self, rows: DataFrame, batch: Batch) -> None:
        self.inner.write(self.sink.prepare(rows.select(f"{_ROW}.*")), batch)

    def close(self) -> None:
        self.inner.close()
        if self.sink.scratch is not None:
            shutil.rmtree(self.sink.scratch, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Callback:
    """A sink that hands rows over."""

    on_batch: OnBatch
    name: str = "rows"
    session_settings: Mapping[str, str] = field(default_factory=dict)

    def describe(self, settings: Settings) -> str:
        return "rows for whoever asked"

    def open(self, spark: SparkSession, settings: Settings) -> Callback:
        return self

    def write(self, rows: DataFrame, batch: Batch) -> None:
        self.on_batch(rows, batch.id)

    def close(self) -> None:
        pass


def _sink(
    tables: Tables,
    statement: Query | Insert,
    rows: DataFrame,
    on_batch: OnBatch | None,
    options: FollowOptions,
    insert_options: InsertOptions,
) -> tuple[RowsSink, list[str]]:
    """The destination of the rows, and notices about it."""
    if isinstance(statement, Insert):
        return _topic_sink(tables, statement, rows, insert_options)
    if options.parquet:
        return RowsSink(Lake(options.parquet, name="parquet")), []
    if on_batch is None:
        raise SqlError("nobody takes the rows", "Give a function for them, a directory for Parquet, or INSERT INTO.")
    return RowsSink(Callback(on_batch)), []


def _topic_sink(
    tables: Tables, statement: Insert, rows: DataFrame, options: InsertOptions
) -> tuple[RowsSink, list[str]]:
    rows = named(rows, statement)
    roles = find_roles(rows.schema, statement.topic)
    request = encoding_request(tables, statement.topic, options)
    create = TopicSettings(options.create_partitions) if options.create_partitions else None
    topic = TopicSink(statement.topic, name=SINK_NAME, create=create)
    encoding = choose_encoding(rows.schema, roles, request)
    prepare = lambda batch: to_records(named(batch, statement), roles, encoding)  # noqa: E731
    return RowsSink(topic, prepare), said_of(encoding, roles.dropped, tables.catalog.connection)


def refuse_unfollowed(statement: Statement) -> Query | Insert:
    """The statement. SqlError where there is nothing in it to follow."""
    if not isinstance(statement, Query | Insert):
        raise SqlError("only a question or an INSERT INTO can be followed", "Leave --follow out.")
    return statement


def choose_mode(rows: DataFrame, given: OutputMode | None, *, prefers_update: bool = False) -> OutputMode:
    """The first mode that Spark allows. SqlError has the reason if it allows none."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    wanted: Sequence[OutputMode] = (given,) if given is not None else _MODES
    if given is None and prefers_update and is_stateful(rows):
        wanted = ("update", "append", "complete")
    java: Any = rows.sparkSession._jvm
    modes, check = java.org.apache.spark.sql.streaming.OutputMode, _checker(java)
    reasons: dict[OutputMode, str] = {}
    for mode in wanted:
        try:
            check(rows._jdf.queryExecution().analyzed(), getattr(modes, mode.capitalize())())
        except (PySparkException, Py4JJavaError) as error:
            reasons[mode] = _reason(str(error))
        else:
            return mode
    reason = reasons.get("append") or next(iter(reasons.values()))  # what append lacks, the others often lack too
    raise SqlError(f"Spark cannot follow this question: {reason}", _hint(reason))


def _checker(java: Any) -> Callable[[Any, Any], None]:
    check: Callable[[Any, Any], None] = (
        java.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming
    )
    return check


def is_stateful(rows: DataFrame) -> bool:
    """Whether batches depend on those before them: a query of its own in its pipeline."""
    classes = set(re.findall(r'"class":"[\w.]*\.(\w+)"', rows._jdf.queryExecution().analyzed().toJSON()))
    return bool(classes & {"Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "Join", "GlobalLimit"})


def start_options(start: str) -> dict[str, str]:
    """Options of the data source. SqlError for what is no place to start at."""
    named_start = _STARTS.get(start.lower())
    if named_start is not None:
        return {"startingOffsets": named_start}
    try:
        time_ms = int(start) if start.isdecimal() else _milliseconds(start)
    except ValueError:
        raise SqlError(
            f"{start!r} is no place to start at", "There are earliest, latest, and times such as 2026-01-31T12:00:00Z."
        ) from None
    return {"startingTimestamp": str(time_ms), "startingOffsetsByTimestampStrategy": "latest"}


def _milliseconds(text: str) -> int:
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _reason(text: str) -> str:
    found = re.search(r"\[[A-Z][A-Z0-9_.]+\] ?([^\n]+)", text)
    return (found[1] if found else text.partition("\n")[0]).partition(" SQLSTATE")[0].rstrip("; .")


def _hint(reason: str) -> str:
    if "watermark" in reason.lower():
        return "A watermark says how long late rows are waited for: --watermark orders._timestamp='10 minutes'."
    return "Spark's guide on Structured Streaming says what a stream can do."
