"""`INSERT INTO topic SELECT ...`: each row once, also when the driver was killed in the middle and the statement is run
again.

Before the first row is sent, the insert is written down: an id, what the query reads, offset by offset, and the
settings of Spark's that decide which task has which rows. Each task writes its rows in one transaction, with a marker
under that id (`topic_writing.marker`). The same statement run again finds the job, runs the same query over the same
offsets in the same tasks, and tasks whose marker is there leave their rows. Once all rows are there the job is removed,
and the statement is a new insert.

A query that may have other rows the next time is written by one task: all rows or none (`repeatable`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.observed_rows import count_rows, rows_counted
from penstock.pipelines.pipeline import Batch, Settings
from penstock.pipelines.sinks.topic import OpenTopic, TopicSettings, TopicSink
from penstock.pipelines.spark_settings import temporary_settings
from penstock.pipelines.sql.jobs import (
    DECIDING,
    RETENTION_MS,
    InsertJob,
    check_continuable,
    identity,
    job_file,
    locked,
    new_job_id,
    read_job,
    remove_job,
    settings_to_keep,
    write_job,
)
from penstock.pipelines.sql.reads import describe_left_out
from penstock.pipelines.sql.records import FORMATS, Encoding, EncodingRequest, choose_encoding, find_roles, to_records
from penstock.pipelines.sql.repeatable import why_not_repeatable
from penstock.pipelines.sql.snapshots import ask_again, table_name, write_snapshot
from penstock.pipelines.sql.statements import Insert
from penstock.pipelines.tables.topic_contents import TopicContents, find_contents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.sql.tables import Tables
    from penstock.pipelines.tables.connection import KafkaConnection

logger = logging.getLogger(__name__)

SINK_NAME = "insert"
_COUNT_WAIT_S = 10.0
_TIMEOUT_S = 30.0
# Short: only the holder of the job's lock is alive, so no other process will end an open transaction by itself.
_OPEN_TRANSACTION_S = 0.5


@dataclass(frozen=True, slots=True)
class InsertOptions:
    checkpoint: Path | None = None  # None: ./checkpoints/sql
    create_partitions: int = 0  # a topic that is missing is created with so many partitions; 0: it is an error
    # Of a schema that is derived: avro, json, protobuf. Empty: avro, and only where no record is without a schema.
    format: str = ""
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
    is_all_there: bool = False  # that run had written all rows in one transaction, and they are not counted again


def insert(
    tables: Tables,
    statement: Insert,
    options: InsertOptions | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Inserted:
    """Returns when all rows are committed. `statement.query` has its views in it. SqlError names what is missing.

    `is_cancelled` is called before each lasting step; the caller cancels jobs of Spark's itself. The steps done by then
    stay done, and the statement run again goes on with them."""
    from penstock.pipelines.sql.refusals import refusal_of

    options = options or InsertOptions()
    if options.format and options.format not in FORMATS:
        raise SqlError(f"{options.format!r} is no format of schemas", f"There are {', '.join(FORMATS)}.")

    def check_wanted() -> None:
        if is_cancelled():
            raise SqlError("cancelled")

    try:
        return _insert(tables, statement, options, check_wanted)
    except PipelineError:
        raise
    except Exception as error:
        refused = refusal_of(error, statement.query)
        if refused is error:
            raise
        raise refused from error


def _insert(tables: Tables, statement: Insert, options: InsertOptions, check_wanted: Callable[[], None]) -> Inserted:
    connection = tables.catalog.connection
    check_wanted()
    sink = open_topic(tables, statement.topic, options)
    name = identity(cluster_id(connection), statement.topic, statement.columns, statement.query)
    file = job_file(options.directory, name)
    with locked(file):
        job = read_job(file)
        is_continued = job is not None
        if job is None:
            job, notices = _new_job(tables, statement, options, check_wanted)
            check_wanted()
            write_job(file, job)
        else:
            check_continuable(job, file, _now_ms(), tables.spark.version, _retention_ms(sink))
            notices = [f"an earlier run of this statement had not come to its end; it is finished now ({file})"]
        is_all_there = is_continued and _has_whole_marker(sink, job)
        rows = 0
        if not is_all_there:
            rows, said = _write(tables, sink, job, check_wanted)
            notices += said
        remove_job(file)
        if not is_continued:
            _forget_markers(sink, job)
    tables.catalog.forget(statement.topic)  # it may have got its first schema
    return Inserted(rows, statement.topic, notices, is_continued, is_all_there)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


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


def _new_job(
    tables: Tables, statement: Insert, options: InsertOptions, check_wanted: Callable[[], None]
) -> tuple[InsertJob, list[str]]:
    spark = tables.spark
    begun_ms = _now_ms()
    question = tables.ask(statement.query, is_run=False)  # rows that are read at once would hide that there is a LIMIT
    rows = named(question.frame, statement)
    roles = find_roles(rows.schema, statement.topic)
    reasons = find_reasons(question.frame, [read.table.name for read in question.reads])
    connection = tables.catalog.connection
    request = encoding_request(tables, statement.topic, options)
    check_wanted()
    encoding = choose_encoding(rows.schema, roles, request)
    notices = [*question.notices, *said_of(encoding, roles.dropped, connection)]
    if reasons:
        notices.append(f"one task writes all rows in one transaction, because of {', '.join(reasons)}")
    job = InsertJob(
        id=new_job_id(),
        begun_ms=begun_ms,
        topic=statement.topic,
        query=statement.query,
        columns=statement.columns,
        reads=write_snapshot(question.reads, spark.sparkContext.defaultParallelism),
        is_one_task=bool(reasons),
        encoding=encoding.to_json(),
        settings=settings_to_keep(_settings_of(spark), spark.sparkContext.defaultParallelism),
        spark_version=spark.version,
    )
    return job, notices


def _settings_of(spark: SparkSession) -> dict[str, str]:
    """Spark's defaults as well: another version may have others."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    found = {}
    for name in DECIDING:
        try:
            value = spark.conf.get(name)
        except (PySparkException, Py4JError):  # it has no default and is not set
            continue
        if value is not None:
            found[name] = value
    return found


def encoding_request(tables: Tables, topic: str, options: InsertOptions) -> EncodingRequest:
    catalog = tables.catalog
    subject = options.subject or catalog.connection.subjects.get(topic, "")

    def contents() -> TopicContents:
        if subject:  # the user named it on purpose
            return TopicContents.NOTHING
        return find_contents(catalog, topic, is_missing_allowed=bool(options.create_partitions))

    return EncodingRequest(topic, options.format, subject, catalog.connection.registry, contents)


def said_of(encoding: Encoding, dropped: Sequence[str], connection: KafkaConnection) -> list[str]:
    """Notices for the user about the records."""
    said = []
    if encoding.value is not None:
        schema = encoding.value
        said.append(f"values have version {schema.version} of {schema.subject} (schema id {schema.schema_id})")
    elif not encoding.is_raw:
        why = "no registry is given" if connection.registry is None else "those that the topic holds are so"
        said.append(f"values are JSON without a schema, because {why}")
    if dropped:
        said.append(f"{' and '.join(dropped)} are not written: records get their own")
    return said


def _write(tables: Tables, sink: OpenTopic, job: InsertJob, check_wanted: Callable[[], None]) -> tuple[int, list[str]]:
    """The number of rows, and the notice about those that are left out."""
    spark, connection = tables.spark, tables.catalog.connection
    is_counted = connection.bad_rows == "skip"
    skipped = [spark.sparkContext.accumulator(0) for _ in job.reads] if is_counted else []
    statement = Insert(job.topic, job.query, job.columns)
    with temporary_settings(spark, job.settings):
        rows = named(ask_again(spark, connection, job.query, job.reads, skipped), statement)
        roles = find_roles(rows.schema, job.topic)
        if job.is_one_task:
            # In the order of the question: parts are read one after the other, and computed by several tasks before.
            rows = rows.coalesce(1)
        counted, observed = count_rows(rows)
        records = to_records(counted, roles, Encoding.of_json(job.encoding))
        check_wanted()
        try:
            sink.write(records, Batch(job.id, job.topic, 0))
        finally:
            sink.close()
        number = rows_counted(observed, _COUNT_WAIT_S) or 0
    left_out = [
        describe_left_out(table_name(read, connection), count.value)
        for read, count in zip(job.reads, skipped, strict=False)
        if count.value
    ]
    return number, left_out


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


def find_reasons(rows: DataFrame, tables: Sequence[str] = ()) -> list[str]:
    """Why the query may have other rows the next time; empty where it has the same. `tables` are those whose offsets
    are fixed."""
    execution = rows._jdf.queryExecution()
    analyzed = execution.analyzed()
    return why_not_repeatable(
        str(analyzed.toJSON()),
        str(execution.optimizedPlan().toJSON()),
        is_deterministic=bool(analyzed.deterministic()),
        tables=tables,
    )


def cluster_id(connection: KafkaConnection) -> str:
    """The same by whatever address the cluster is reached."""
    from confluent_kafka import KafkaException

    from penstock.pipelines.topic_writing.clients import open_admin

    settings = Settings(bootstrap_servers=connection.bootstrap_servers, kafka=connection.kafka)
    clients = OpenTopic(TopicSink("any", name=SINK_NAME), settings).options(Batch("", "", 0)).client_settings
    try:
        return str(open_admin(clients).list_topics(timeout=_TIMEOUT_S).cluster_id)
    except KafkaException as error:
        raise SqlError(f"no answer from {connection.bootstrap_servers}: {error.args[0].str()}") from error


def _retention_ms(sink: OpenTopic) -> int:
    """How long the cluster keeps markers; Kafka's default where the user may not read the setting."""
    from concurrent.futures import TimeoutError as FutureTimeoutError

    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    from penstock.pipelines.topic_writing.clients import open_admin

    admin = open_admin(sink.options(Batch("", "", 0)).client_settings)
    try:
        broker = next(iter(admin.list_topics(timeout=_TIMEOUT_S).brokers))
        asked = ConfigResource(ConfigResource.Type.BROKER, str(broker))
        found = admin.describe_configs([asked], request_timeout=_TIMEOUT_S)[asked].result(_TIMEOUT_S)
        return int(found["offsets.retention.minutes"].value) * 60_000
    except (KafkaException, FutureTimeoutError, StopIteration, KeyError, TypeError, ValueError) as error:
        logger.info("offsets.retention.minutes is not known: %s", error)
        return RETENTION_MS


def _has_whole_marker(sink: OpenTopic, job: InsertJob) -> bool:
    """Whether there was one task and it has committed: the run before ended between that and the removal of its job."""
    from penstock.pipelines.topic_writing.clients import open_admin
    from penstock.pipelines.topic_writing.marker import task_counts
    from penstock.pipelines.topic_writing.markers import read_markers_of_sink

    settings = sink.options(Batch(job.id, "", 0)).client_settings
    found = read_markers_of_sink(open_admin(settings), settings, job.id, SINK_NAME, job.topic, _OPEN_TRANSACTION_S)
    return 1 in task_counts([marker for marker in found.values() if marker is not None], 0)


def _forget_markers(sink: OpenTopic, job: InsertJob) -> None:
    """Deletes the groups of a finished job. They would go by themselves, after the broker's retention; those of a job
    that was continued do: an executor of the killed driver may be alive, and still reads its marker."""
    from concurrent.futures import TimeoutError as FutureTimeoutError

    from confluent_kafka import KafkaException

    from penstock.pipelines.topic_writing.clients import open_admin
    from penstock.pipelines.topic_writing.marker import all_groups_of_sink

    admin = open_admin(sink.options(Batch(job.id, "", 0)).client_settings)
    try:
        listed = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S)
        groups = all_groups_of_sink([group.group_id for group in listed.valid], job.id, SINK_NAME)
        if groups:
            for future in admin.delete_consumer_groups(groups, request_timeout=_TIMEOUT_S).values():
                future.result(_TIMEOUT_S)
    except (KafkaException, FutureTimeoutError) as error:  # all rows are there, and that is what counts
        logger.info("markers of %s stay until they expire: %s", job.id, error)
