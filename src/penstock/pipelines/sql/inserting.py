"""`INSERT INTO topic SELECT ...`: each row once, also when the driver was killed in the middle and the statement is run
again.

Before the first row is sent, the insert is written down: an id, and what the question reads, offset by offset. Each
task writes its rows in one transaction, with a marker under that id (`topic_writing.marker`). The same statement run
again finds the job, asks the same question of the same offsets in the same tasks, and tasks whose marker is there leave
their rows. Once all rows are there the job is removed, and the statement is a new insert.

A question that may have other rows the next time is written by one task: all rows or none (`repeatable`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.observed import count_rows, rows_counted
from penstock.pipelines.pipeline import Batch, Settings
from penstock.pipelines.sinks.topic import OpenTopic, TopicSettings, TopicSink
from penstock.pipelines.spark_settings import temporary_settings
from penstock.pipelines.sql.jobs import InsertJob, job_file, locked, new_job_id, read_job, remove_job, write_job
from penstock.pipelines.sql.records import FORMATS, Encoding, EncodingRequest, choose_encoding, find_roles, to_records
from penstock.pipelines.sql.repeatable import why_not_repeatable
from penstock.pipelines.sql.snapshots import ask_again, write_snapshot
from penstock.pipelines.sql.statements import Insert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipelines.sql.tables import Tables
    from penstock.pipelines.tables.connection import Connection

logger = logging.getLogger(__name__)

SINK_NAME = "insert"
_SHUFFLE = "spark.sql.shuffle.partitions"
_COUNT_WAIT_S = 10.0
_TIMEOUT_S = 30.0
# Whoever holds the job's lock is the only one alive.
_OPEN_TRANSACTION_S = 0.5


@dataclass(frozen=True, slots=True)
class InsertOptions:
    checkpoint: Path | None = None  # None: ./checkpoints/sql
    create_partitions: int = 0  # a topic that is missing is created with so many partitions; 0: it is an error
    format: str = "avro"  # of a schema that is derived: avro, json, protobuf
    subject: str = ""  # empty: <topic>-value

    @property
    def directory(self) -> Path:
        return self.checkpoint or Path.cwd() / "checkpoints" / "sql"


@dataclass(frozen=True, slots=True)
class Inserted:
    rows: int
    topic: str
    notices: list[str] = field(default_factory=list)
    is_continued: bool = False  # an earlier run of the statement had not come to its end


def insert(tables: Tables, statement: Insert, options: InsertOptions | None = None) -> Inserted:
    """Returns when all rows are committed. `statement.query` has its views in it. SqlError says what is missing."""
    from penstock.pipelines.sql.refusals import refusal_of

    options = options or InsertOptions()
    if options.format not in FORMATS:
        raise SqlError(f"{options.format!r} is no format of schemas", f"There are {', '.join(FORMATS)}.")
    try:
        return _insert(tables, statement, options)
    except PipelineError:
        raise
    except Exception as error:
        refused = refusal_of(error, statement.query)
        if refused is error:
            raise
        raise refused from error


def _insert(tables: Tables, statement: Insert, options: InsertOptions) -> Inserted:
    connection = tables.catalog.connection
    sink = open_topic(tables, statement.topic, options)
    file = job_file(options.directory, statement.text or statement.query, _cluster_id(sink, connection))
    with locked(file):
        job = read_job(file)
        notices: list[str] = []
        is_continued = job is not None
        if job is None:
            job, notices = _new_job(tables, statement, options)
            write_job(file, job)
        else:
            notices.append(f"an earlier run of this statement had not come to its end; it is finished now ({file})")
        rows = _write(tables, statement, sink, job)
        remove_job(file)
        _forget_markers(sink, job)
    return Inserted(rows, statement.topic, notices, is_continued)


def open_topic(tables: Tables, topic: str, options: InsertOptions) -> OpenTopic:
    connection = tables.catalog.connection
    create = TopicSettings(options.create_partitions) if options.create_partitions else None
    settings = Settings(bootstrap_servers=connection.bootstrap_servers, kafka=connection.kafka)
    sink = TopicSink(topic, name=SINK_NAME, create=create)
    try:
        opened = sink.open(tables.spark, settings)
    except PipelineError as error:
        if "does not exist" not in error.message:
            raise
        raise SqlError(error.message, "Create it, or say with how many partitions: --create-partitions 3.") from None
    assert isinstance(opened, OpenTopic), "the engine is ours"
    opened.open_transaction_s = _OPEN_TRANSACTION_S
    return opened


def _new_job(tables: Tables, statement: Insert, options: InsertOptions) -> tuple[InsertJob, list[str]]:
    spark = tables.spark
    question = tables.ask(statement.query)
    rows = named(question.frame, statement)
    roles = find_roles(rows.schema, statement.topic)
    reasons = _why_not_repeatable(question.frame)
    connection = tables.catalog.connection
    request = EncodingRequest(statement.topic, options.format, options.subject, connection.registry)
    encoding = choose_encoding(rows.schema, roles, request)
    notices = [*question.notices, *said_of(encoding, roles.dropped)]
    if reasons:
        notices.append(f"one task writes all rows in one transaction, because of {', '.join(reasons)}")
    job = InsertJob(
        id=new_job_id(),
        statement=statement.text,
        topic=statement.topic,
        reads=write_snapshot(question.reads, spark.sparkContext.defaultParallelism),
        shuffle_partitions=str(spark.conf.get(_SHUFFLE)),
        is_one_task=bool(reasons),
        encoding=encoding.to_json(),
    )
    return job, notices


def said_of(encoding: Encoding, dropped: Sequence[str]) -> list[str]:
    """What people should know about the records."""
    said = []
    if encoding.value is not None:
        schema = encoding.value
        said.append(f"values have version {schema.version} of {schema.subject} (schema id {schema.schema_id})")
    elif not encoding.is_raw:
        said.append("values are JSON without a schema, because no registry is given")
    if dropped:
        said.append(f"{' and '.join(dropped)} are not written: records get their own")
    return said


def _write(tables: Tables, statement: Insert, sink: OpenTopic, job: InsertJob) -> int:
    spark = tables.spark
    with temporary_settings(spark, {_SHUFFLE: job.shuffle_partitions}):
        rows = named(ask_again(spark, tables.catalog.connection, statement.query, job.reads), statement)
        roles = find_roles(rows.schema, statement.topic)
        if job.is_one_task:
            # In the order of the question: parts are read one after the other, and computed by several tasks before.
            rows = rows.coalesce(1)
        counted, observed = count_rows(rows)
        try:
            sink.write(to_records(counted, roles, Encoding.of_json(job.encoding)), Batch(job.id, statement.topic, 0))
        finally:
            sink.close()
        return rows_counted(observed, _COUNT_WAIT_S) or 0


def named(rows: DataFrame, statement: Insert) -> DataFrame:
    """With the names of INSERT INTO topic (names), in order."""
    if not statement.columns:
        return rows
    if len(statement.columns) != len(rows.columns):
        raise SqlError(
            f"INSERT INTO {statement.topic} names {len(statement.columns)} columns and the question has"
            f" {len(rows.columns)}",
            f"They are {', '.join(statement.columns)} and {', '.join(rows.columns)}.",
        )
    return rows.toDF(*statement.columns)


def _why_not_repeatable(rows: DataFrame) -> list[str]:
    execution = rows._jdf.queryExecution()
    analyzed = execution.analyzed()
    return why_not_repeatable(
        str(analyzed.toJSON()),
        str(execution.optimizedPlan().toJSON()),
        is_deterministic=bool(analyzed.deterministic()),
    )


def _cluster_id(sink: OpenTopic, connection: Connection) -> str:
    """The same by whatever address the cluster is reached."""
    from confluent_kafka import KafkaException

    from penstock.pipelines.topic_writing.clients import open_admin

    try:
        found = open_admin(sink.options(Batch("", "", 0)).client_settings).list_topics(timeout=_TIMEOUT_S)
    except KafkaException as error:
        raise SqlError(f"no answer from {connection.bootstrap_servers}: {error.args[0].str()}") from error
    return str(found.cluster_id)


def _forget_markers(sink: OpenTopic, job: InsertJob) -> None:
    """Groups of a job that nobody asks for any more. They would go by themselves, after the broker's retention."""
    from concurrent.futures import TimeoutError as FutureTimeoutError

    from confluent_kafka import KafkaException

    from penstock.pipelines.topic_writing.clients import open_admin
    from penstock.pipelines.topic_writing.marker import groups_of_sink

    admin = open_admin(sink.options(Batch(job.id, "", 0)).client_settings)
    try:
        listed = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S)
        groups = groups_of_sink((group.group_id for group in listed.valid), job.id, SINK_NAME)
        if groups:
            for future in admin.delete_consumer_groups(list(groups.values()), request_timeout=_TIMEOUT_S).values():
                future.result(_TIMEOUT_S)
    except (KafkaException, FutureTimeoutError) as error:  # all rows are there, and that is what counts
        logger.info("markers of %s stay until they expire: %s", job.id, error)
