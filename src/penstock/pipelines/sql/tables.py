"""Topics as tables in a Spark session.

tables = register(spark, "localhost:9092", registry="http://localhost:8081")
tables.sql("SELECT country, count(*) FROM orders WHERE _timestamp > now() - INTERVAL 1 HOUR GROUP BY country").show()
spark.sql("SELECT * FROM `orders$latest`").show()

`Tables.sql` plans a question as a whole: it reads no column and no offset that the question does not need, and its end
offsets are fixed at the call for all topics. Plain `spark.sql` knows the topics as views; it reads all columns, and
bounds on offsets and times where Spark pushes filters down.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from penstock.core.types import TopicPartition
from penstock.pipelines.options import LATENESS, read_value
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.sql.questions import Question, ask
from penstock.pipelines.sql.reads import describe_left_out, explain_read
from penstock.pipelines.sql.refusals import TOLD, refusal_of
from penstock.pipelines.sql.session_views import SessionViews
from penstock.pipelines.sql.sessions import Sessions, is_classic, plan_text
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.connection import BadRows, KafkaConnection
from penstock.pipelines.tables.table import Table

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
    """The tables of one cluster in one session, for several threads."""

    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self.spark = spark
        self.catalog = catalog
        self._views = SessionViews(spark, catalog)
        self._sessions = Sessions(spark) if is_classic(spark) else None
        self._last = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Views stay in the session; they have connections of their own."""
        self.catalog.close()

    @property
    def notices(self) -> list[str]:
        """Notices about the last query of this thread: inferred columns, lateness, and how many rows were left out
        until now.
        """
        question: Question | None = getattr(self._last, "question", None)
        if question is None:
            return list(self._views.notices)
        skipped = question.skipped.items()
        return [
            *question.notices,
            *(describe_left_out(name, count) for name, count in skipped),
        ]

    def sql(self, text: str) -> DataFrame:
        """A question about topics, files and the session's own tables, or any other statement that Spark knows."""
        return self.ask(text).frame

    def ask(self, text: str, ends: Mapping[TopicPartition, int] | None = None, *, is_run: bool = True) -> Question:
        """The question with what it reads. `ends` are those of an earlier `Question`, to read the same rows again.
        `is_run` is False for a question that is only explained: few rows, by a limit, are read here and now."""
        if self._sessions is None:
            question = Question(text, self.spark.sql(text), (), ())
        else:
            question = ask(self._sessions, self.catalog, text, ours=self._views.ours(), ends=ends, is_run=is_run)
        self._last.question = question
        return question

    def names(self) -> list[str]:
        return self.catalog.topics()

    def table(self, name: str) -> Table:
        try:
            return self.catalog.table(name)
        except TOLD as error:
            refused = refusal_of(error, topics=self.catalog.topics)
            if refused is error:
                raise
            raise refused from error

    def columns(self, name: str) -> list[ColumnOfTable]:
        return [ColumnOfTable(each.name, each.sql_type, each.is_ours) for each in self.table(name).columns]

    def describe(self, name: str) -> TableDescription:
        table = self.table(name)
        columns = tuple(ColumnOfTable(each.name, each.sql_type, each.is_ours) for each in table.columns)
        held = self.catalog.ranges([table.topic])
        return TableDescription(table.name, columns, table.note, len(held), sum(part.size for part in held))

    def explain(self, text: str, is_extended: bool = False) -> str:
        """The query's reads of each topic; Spark's plan as well if `is_extended`. Nothing is read."""
        question = self.ask(text, is_run=False)
        parts = [explain_read(read) for read in question.reads] or ["no topic is read"]
        parts += [f"note: {said}" for said in question.notices]
        if is_extended:
            parts.append(plan_text(question.frame))
        return "\n".join(parts)

    def make_views(self, topics: Collection[str] | None = None) -> None:
        """Makes these topics, or all, temporary views of the session, which plain `spark.sql` knows. `notices` name
        those that are left out, until the next query."""
        self._views.make(topics)


class ReadingOptions(TypedDict, total=False):
    """How the rows of topics are read; what is not given is as in the comments."""

    bad_rows: BadRows  # fail: a row that does not decode ends the question; skip leaves it out; null makes columns null
    # 10 minutes: how much later than its neighbours of the same time a record may come, for a question that ends at a
    # time to see it; none is no limit, and such a question reads to the end of the topic
    lateness: str
    is_read_committed: bool  # True
    subjects: Mapping[str, str]  # by topic, the subject of its values; <topic>-value


def register(
    spark: SparkSession,
    bootstrap_servers: str = "127.0.0.1:9092",
    *,
    registry: str | Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    topics: Collection[str] | None = None,
    has_views: bool = True,
    **reading: Unpack[ReadingOptions],
) -> Tables:
    """The topics of a cluster as tables of the session.

    `registry` is a URL, or settings with Confluent's names. `kafka` has clients' settings, such as security.protocol.
    `topics` are those that plain `spark.sql` shall know, such as orders and orders$latest; None is all topics, unless
    there are more than 50. `Tables.sql` finds every topic when it is named. `has_views=False` leaves the session as it
    is, and `Tables.sql` works all the same.
    """
    connection = KafkaConnection(
        bootstrap_servers,
        kafka or {},
        _registry_address(registry),
        bad_rows=reading.get("bad_rows", "fail"),
        lateness_ms=read_value("lateness", LATENESS, reading.get("lateness", "10 minutes")),
        is_read_committed=reading.get("is_read_committed", True),
        subjects=reading.get("subjects", {}),
    )
    tables = Tables(spark, Catalog(connection))
    if has_views or not is_classic(spark):
        tables.make_views(topics)
    return tables


def _registry_address(registry: str | Mapping[str, str] | None) -> RegistryAddress | None:
    if registry is None:
        return None
    return RegistryAddress.of({"schema.registry.url": registry} if isinstance(registry, str) else registry)
