"""A topic as a pipeline's sink.

TopicSink("errors")                                                   rows have key and value
TopicSink("counts", key="address", value=ALL_AS_JSON,                  or are told how to get them, as SQL expressions
          create=TopicSettings(partitions=3, config={"cleanup.policy": "compact"}))
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, NO_SESSION_SETTINGS, Batch, Settings
from penstock.pipelines.spark_settings import ADAPTIVE, temporary_settings
from penstock.pipelines.topic_source import client_options
from penstock.pipelines.topic_writing.errors import ClaimError
from penstock.pipelines.topic_writing.marker import OPEN_TRANSACTION_S

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipelines.topic_writing.claims import Claims
    from penstock.pipelines.topic_writing.marker import Begun
    from penstock.pipelines.topic_writing.task import TaskWrite
    from penstock.pipelines.topic_writing.write_options import SinkOptions

logger = logging.getLogger(__name__)

# As `value`: the row as a JSON object, fields by column name.
ALL_AS_JSON = "to_json(struct(*))"

_TIMEOUT_S = 30.0
_PASSED_ON = ("headers", "partition")
# The setting that Spark names when it refuses to bring rows to the driver.
_TOO_LARGE = "spark.driver.maxResultSize"
# Rows that the driver takes. Chosen: 8 MiB of short lines are about as many, so only a branch that makes many rows of
# one has more; at 300 bytes a record they take 30 MB.
_MOST_ROWS_HERE = 100_000
# Spark numbers the rows of a task in the lower bits.
_NUMBER_IN_TASK = f"(monotonically_increasing_id() & {2**33 - 1})"
# As often as Spark tries a task. Each attempt is patient itself.
_CLAIMING = RetryPolicy(patience_s=0.0, first_pause_s=0.1, longest_pause_s=0.5, attempts=4)
_OLDER_INTERFACE = "spark.sql.sources.useV1SourceList"


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How a missing topic is created; one that exists is left as it is."""

    partitions: int = 1
    replication_factor: int = -1  # the broker's default
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class TopicSink:
    """Rows with `value` and, where wanted, `key`, `headers` and `partition`, as `format("penstock")` takes them; other
    columns are left out. `key`, `value` and `timestamp` may be given as SQL expressions over the row's columns, or as
    columns. Records have the time of their writing unless `timestamp` is given. `topic_of` gives the topic of each row;
    where it is null the row goes to `topic`, beside which the markers of exactly once are. Topics that are so chosen
    have to exist."""

    topic: str
    name: str = field(default="", kw_only=True)  # default: the topic's
    guarantee: Literal["exactly-once", "at-least-once"] = field(default="exactly-once", kw_only=True)
    create: TopicSettings | None = field(default=None, kw_only=True)
    key: str | Column | None = field(default=None, kw_only=True)
    value: str | Column | None = field(default=None, kw_only=True)
    timestamp: str | Column | None = field(default=None, kw_only=True)
    topic_of: str | Column | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.name = self.name or self.topic
        if self.guarantee not in ("exactly-once", "at-least-once"):
            raise PipelineError(f"guarantee is 'exactly-once' or 'at-least-once', not {self.guarantee!r}")

    @property
    def session_settings(self) -> Mapping[str, str]:
        return NO_SESSION_SETTINGS

    def describe(self, settings: Settings = DEFAULT_SETTINGS) -> str:
        if settings.engine == "jvm":
            return f"topic {self.topic}, at least once (Spark's own connector knows no more)"
        return f"topic {self.topic}, {self.guarantee.replace('-', ' ')}"

    def open(self, spark: SparkSession, settings: Settings) -> OpenTopic | OpenConnectorTopic:
        from penstock.pipelines.topic_writing.clients import open_admin

        opened = OpenTopic(self, settings)
        admin = open_admin(self.client_settings(settings))
        if self.topic not in _topics(admin, settings.bootstrap_servers):
            _create(admin, self.topic, self.create)
        if settings.engine == "jvm":
            _let_spark_count(spark)
            return OpenConnectorTopic(self, settings)
        return opened

    def client_settings(self, settings: Settings) -> Mapping[str, str]:
        """As librdkafka has them. Raises OptionError."""
        return OpenTopic(self, settings).options(Batch("", "", 0)).client_settings

    def records(self, rows: DataFrame) -> DataFrame:
        """The rows with the columns that a record is made of, and no others."""
        from pyspark.sql import functions as F

        chosen: list[Column | str] = [f"`{name}`" for name in _PASSED_ON if name in rows.columns]
        for name, given in (("timestamp", self.timestamp), ("value", self.value), ("key", self.key)):
            if given is not None:
                chosen.insert(0, (F.expr(given) if isinstance(given, str) else given).alias(name))
            elif name in rows.columns and name != "timestamp":
                chosen.insert(0, f"`{name}`")
        if self.topic_of is not None:
            given = F.expr(self.topic_of) if isinstance(self.topic_of, str) else self.topic_of
            chosen.append(F.coalesce(given, F.lit(self.topic)).alias("topic"))
        return rows.select(*chosen)

    @property
    def fixed_topic(self) -> str | None:
        """None where rows have their own."""
        return self.topic if self.topic_of is None else None


@dataclass(frozen=True, slots=True)
class OpenConnectorTopic:
    """The topic written by Spark's own Kafka connector."""

    sink: TopicSink
    settings: Settings

    def write(self, rows: DataFrame, batch: Batch) -> None:
        options = client_options(self.settings)
        if self.sink.fixed_topic is not None:
            options["topic"] = self.sink.fixed_topic
        self.sink.records(rows).write.format("kafka").mode("append").options(**options).save()

    def close(self) -> None:
        pass


@dataclass(slots=True)
class OpenTopic:
    """The topic written by our own tasks."""

    sink: TopicSink
    settings: Settings
    most_rows_here: int = _MOST_ROWS_HERE
    # How long the driver waits for a transaction that another driver left open to end by itself. A driver that knows
    # that the other one is dead need not wait.
    open_transaction_s: float = OPEN_TRANSACTION_S
    # Per query the last batch that was written to its end: the one after it is no repetition.
    _done: dict[str, int] = field(default_factory=dict, init=False)
    _claims: dict[str, Claims] = field(default_factory=dict, init=False)  # per query, while this driver has its id
    _queries: set[str] = field(default_factory=set, init=False)  # by id; what is kept for them is closed at the end

    _has_too_many: bool = field(default=False, init=False)  # a batch has been too large for the driver, though small

    def write(self, rows: DataFrame, batch: Batch) -> None:
        before = self._done.pop(batch.query_id, None)  # a batch that fails may be there in part when it comes again
        self._queries.add(batch.query_id)
        if before != batch.id - 1 and (claims := self._claims.pop(batch.query_id, None)) is not None:
            claims.close()
        Retrying(_CLAIMING).run(
            lambda: self._write(rows, batch),
            ClaimError,
            lambda _: Outlook.DOUBTFUL if batch.is_wanted() else Outlook.FINAL,
            lambda error: logger.warning("batch %d of %s, trying again: %s", batch.id, batch.query_name, error),
        )
        self._done[batch.query_id] = batch.id

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        from penstock.pipelines.topic_writing.marker import check_checkpoint, task_counts

        options, records = self.options(batch), self.sink.records(rows)
        begun = self._look(options, batch) if options.is_exactly_once else None
        if begun is not None:
            check_checkpoint(begun.markers, self.sink.name, batch.id)
            if 1 in task_counts(begun.markers, batch.id):
                return  # one transaction had all of it
        needs_tasks = self._has_too_many or (begun is not None and begun.needs_tasks)
        if needs_tasks or not batch.is_small or not self._write_here(records, options, batch, begun):
            self._write_tasks(records, options, batch, begun)

    def _look(self, options: SinkOptions, batch: Batch) -> Begun | None:
        """Before the first batch of a query in a run, before every batch that does not follow one that was written to
        its end, and whenever the driver's id was lost; None for all others."""
        from penstock.pipelines.topic_writing.claims import Claims

        if batch.query_id in self._claims:
            return None
        claims = Claims.take(options, batch.is_wanted)
        begun = claims.look(options, self.open_transaction_s)
        self._claims[batch.query_id] = claims
        return begun

    def _settle(self, options: SinkOptions, batch: Batch, begun: Begun | None, tasks: int) -> None:
        """Before the first row is written."""
        claims = self._claims.pop(batch.query_id, None)
        if claims is not None:  # with at-least-once delivery there are none
            claims.settle(options, begun, tasks, batch.is_wanted)
            self._claims[batch.query_id] = claims

    def settle(self, pause: Callable[[float], bool]) -> None:
        from penstock.pipelines.sinks.visibility import await_visible

        options = self.options(Batch("", "", 0))
        if options.is_exactly_once:
            await_visible(options.client_settings, self.sink.topic, pause)

    def close(self) -> None:
        from penstock.pipelines.topic_writing.task import close_writers_here

        for query_id in self._queries:
            close_writers_here(self.options(Batch(query_id, "", 0)))
        for claims in self._claims.values():
            claims.close()
        self._claims.clear()
        self._queries.clear()
        self._done.clear()

    def options(self, batch: Batch) -> SinkOptions:
        from penstock.pipelines.options import OptionScope
        from penstock.pipelines.topic_writing.write_options import parse_sink_options

        sink = self.sink
        identity = {"queryId": batch.query_id or "-", "batchId": str(batch.id), "sinkName": sink.name}
        named = {"topic": sink.topic, "guarantee": sink.guarantee} | identity
        if sink.timestamp is not None:
            named["includeTimestamp"] = "true"
        return parse_sink_options(client_options(self.settings) | named, OptionScope.BATCH_WRITE)

    def _task(self, records: DataFrame, options: SinkOptions) -> TaskWrite:
        from penstock.pipelines.topic_writing.rows import plan_columns
        from penstock.pipelines.topic_writing.task import TaskWrite

        fields = [(field.name, field.dataType.simpleString()) for field in records.schema.fields]
        fixed, has_times = self.sink.fixed_topic, options.includes_timestamp
        return TaskWrite(options, plan_columns(fields, fixed, includes_timestamp=has_times))

    def _write_here(self, records: DataFrame, options: SinkOptions, batch: Batch, begun: Begun | None) -> bool:
        """A small batch is brought to the driver, which keeps its producer from batch to batch. A task may run in any
        Python worker, and most find that another worker has taken the transactional id since: a new producer costs
        0.1 s. False where the rows of a branch are too many for the driver after all; nothing is written then."""
        task, rows = self._task(records, options), self._fetch(records)
        if rows is None:
            self._has_too_many = True  # the next batch has most likely too many as well
            return False
        self._settle(options, batch, begun, tasks=1)
        task.write_here(rows.to_batches(), batch.is_wanted)
        return True

    def _fetch(self, records: DataFrame) -> pa.Table | None:
        """None if there are too many. Each task brings at most one row more than the limit, which shows this."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            rows = records.where(f"{_NUMBER_IN_TASK} <= {self.most_rows_here}").toArrow()
        except (PySparkException, Py4JJavaError) as error:  # the latter where it comes to light while rows are sent
            if _TOO_LARGE in str(error):
                return None
            raise
        return rows if rows.num_rows <= self.most_rows_here else None

    def _write_tasks(self, records: DataFrame, options: SinkOptions, batch: Batch, begun: Begun | None) -> None:
        """Runs the tasks itself instead of through `format("penstock")`, which costs two more Python workers per batch,
        about 0.1 s, and cannot give its tasks their number."""
        from penstock.pipelines.topic_writing.marker import check_task_count
        from penstock.pipelines.topic_writing.task import RESULT_SCHEMA, TASKS_PROPERTY

        task = self._task(records, options)
        context = records.sparkSession.sparkContext
        # Spark would cut the last shuffle into as many tasks as it finds fit, a repeated batch perhaps into others.
        with temporary_settings(records.sparkSession, {ADAPTIVE: "false"}):
            written = records.mapInArrow(task.in_arrow, RESULT_SCHEMA)
            # Of the same plan that is then run: counting costs no second planning.
            tasks = written._jdf.queryExecution().toRdd().getNumPartitions()
            check_task_count(begun.markers if begun is not None else (), self.sink.name, batch.id, tasks)
            self._settle(options, batch, begun, tasks)
            context.setLocalProperty(TASKS_PROPERTY, str(tasks))
            try:
                written.collect()
            finally:
                context.setLocalProperty(TASKS_PROPERTY, None)  # type: ignore[arg-type]


def _let_spark_count(spark: SparkSession) -> None:
    """Without this setting Spark writes to Kafka by the older of its two interfaces, and does not count rows there."""
    listed = spark.conf.get(_OLDER_INTERFACE) or ""
    spark.conf.set(_OLDER_INTERFACE, ",".join(name for name in listed.split(",") if name.strip() != "kafka"))


def _topics(admin: AdminClient, bootstrap_servers: str) -> frozenset[str]:
    from confluent_kafka import KafkaException

    try:
        return frozenset(admin.list_topics(timeout=_TIMEOUT_S).topics)
    except KafkaException as error:
        raise PipelineError(f"no answer from {bootstrap_servers}: {error.args[0].str()}") from error


def _create(admin: AdminClient, topic: str, wanted: TopicSettings | None) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    if wanted is None:
        raise PipelineError(
            f"the topic {topic} does not exist",
            "Create it, or say how: TopicSink(..., create=TopicSettings(partitions=3)).",
        )
    new = NewTopic(topic, wanted.partitions, wanted.replication_factor, config=dict(wanted.config))
    try:
        admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic].result(_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise PipelineError(f"the topic {topic} could not be created: {error.args[0].str()}") from error
