"""Statements, one after another, in one session: each is read, done, and answered by rows or by words."""

from __future__ import annotations

import contextlib
import fnmatch
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.words.plurals import plural
from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.sql.answers import Rows, SqlAnswer
from penstock.pipelines.sql.followed_query import FollowOptions, follow
from penstock.pipelines.sql.insert import InsertOptions, insert
from penstock.pipelines.sql.refusals import refusal_of
from penstock.pipelines.sql.rows import FrameRows, TableRows
from penstock.pipelines.sql.spark_session import open_spark_session, warm_up
from penstock.pipelines.sql.statements import (
    ChangeTable,
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
from penstock.pipelines.sql.tables import TableDescription, Tables
from penstock.pipelines.sql.views import DEFAULT_FILE, Views, check_cycle, expand
from penstock.pipelines.sql_identifiers import quote
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.connection import BadRows, KafkaConnection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.runtime.runner import Run


# The client tries a registry that hangs three times, some ten seconds in all, as long as it waits for brokers.
_TIMEOUT, _PATIENCE_MS = "http.read.timeout.ms", 3_000


@dataclass(frozen=True, slots=True)
class Wishes:
    """The cluster whose topics become tables, the form of the tables, and the Spark that reads them."""

    bootstrap_servers: str
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: Mapping[str, str] | None = field(default=None, repr=False)  # schema.registry.url, basic.auth..., ...
    bad_rows: BadRows = "fail"
    lateness_ms: int = 600_000
    subjects: Mapping[str, str] = field(default_factory=dict)
    views: Path | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    is_hive: bool = False
    is_stream: bool = False  # a question is followed
    inserting: InsertOptions = field(default_factory=InsertOptions)


@dataclass(frozen=True, slots=True)
class Known:
    """The tables and views that there are. Spark is not needed for that, and it is there before Spark."""

    catalog: Catalog
    views: Views

    @classmethod
    def open(cls, wishes: Wishes) -> Known:
        """Sends no request yet. Raises PipelineError and ConfigError."""
        connection = KafkaConnection(
            wishes.bootstrap_servers,
            wishes.kafka,
            None if wishes.registry is None else RegistryAddress.of(_patient(wishes.registry)),
            bad_rows=wishes.bad_rows,
            lateness_ms=wishes.lateness_ms,
            subjects=wishes.subjects,
        )
        return cls(Catalog(connection), Views.load(wishes.views or DEFAULT_FILE))

    def names(self) -> list[str]:
        return sorted({*self.catalog.topics(), *self.views.queries})

    def columns(self, name: str) -> list[str]:
        """The columns of a topic; Spark alone knows those of views."""
        return [column.name for column in self.catalog.table(name).columns]


def _patient(registry: Mapping[str, str]) -> dict[str, str]:
    is_given = any(name.endswith(_TIMEOUT) for name in registry)
    return {**registry} if is_given else {**registry, _TIMEOUT: str(_PATIENCE_MS)}


def open_sql_session(wishes: Wishes, known: Known) -> SqlSession:
    """Spark's JVM, the cluster and Python's own imports are waited for side by side. Raises PipelineError."""
    threading.Thread(target=_prepare, args=(known.catalog,), name="penstock-sql-prepare", daemon=True).start()
    spark = open_spark_session(wishes.spark, is_hive=wishes.is_hive, is_stream=wishes.is_stream)
    return SqlSession(spark, Tables(spark, known.catalog), known.views, wishes.inserting)


def _prepare(catalog: Catalog) -> None:
    """Opens connections, and imports what PySpark imports when it is first called: pandas alone takes half a second."""
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401

    with contextlib.suppress(PipelineError):  # the query that comes will have the error
        catalog.topics()


@dataclass(slots=True)
class Turn:
    """One statement while it runs. A statement that was cancelled may go on for a while, as long as Spark plans: it
    looks here before it does something that lasts."""

    # Of Spark's jobs.
    group: str = field(default_factory=lambda: f"penstock-sql-{uuid.uuid4().hex}")
    _is_cancelled: threading.Event = field(default_factory=threading.Event)

    def begin(self, spark: SparkSession, text: str) -> None:
        """On the thread that runs the statement and reads its rows."""
        spark.sparkContext.setJobGroup(self.group, text)

    def cancel(self, spark: SparkSession) -> None:
        """Cancels the jobs that run, and those that would run after them."""
        self._is_cancelled.set()
        spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self.group)

    def is_cancelled(self) -> bool:
        return self._is_cancelled.is_set()


@dataclass(slots=True)
class SqlSession:
    spark: SparkSession
    tables: Tables
    views: Views
    inserting: InsertOptions = field(default_factory=InsertOptions)
    _is_asked: bool = False
    _turn: Turn = field(default_factory=Turn)  # the last
    _said: tuple[str, ...] = ()

    def run(self, text: str) -> SqlAnswer:
        """One statement. Raises PipelineError."""
        self._is_asked = True
        self._turn = turn = Turn()
        turn.begin(self.spark, text)
        try:
            answer = self._answer(parse_statement(text), text, turn)
        except Exception as error:  # Spark's, py4j's, the client library's and the registry's
            refused = self._explain(error, text)
            if refused is error:
                raise
            raise refused from error
        if turn.is_cancelled():  # while Spark planned, which cannot be interrupted
            raise SqlError("cancelled")
        return answer

    def cancel(self) -> None:
        self._turn.cancel(self.spark)

    def trouble(self) -> str:
        """The reason that may delay an answer; empty if there is none. Another thread than the waiting one calls
        this.
        """
        try:
            self.tables.catalog.topics()
        except PipelineError as error:
            return error.message
        return ""

    def late_notices(self) -> tuple[str, ...]:
        """On the thread that has run the statement: what its rows brought up, such as how many were skipped."""
        return tuple(notice for notice in self.tables.notices if notice not in self._said)

    def _explain(self, error: Exception, text: str) -> PipelineError:
        return refusal_of(error, text, topics=self.tables.catalog.topics)

    def follow(
        self, text: str, show: Callable[[Rows], object], options: FollowOptions, tell: Callable[[str], None]
    ) -> Run:
        """A run that is started; `show` is given the rows of each batch, of which there may be none, on a thread of
        the run."""

        def on_batch(frame: DataFrame, _: int) -> None:
            show(FrameRows(frame, lambda error: self._explain(error, text)))

        statement = parse_statement(text)
        if isinstance(statement, Insert):
            whole = replace(statement, query=self.views.expand(statement.query))
            return follow(self.tables, whole, None, options, self.inserting, on_notice=tell)
        if not isinstance(statement, Query):
            raise SqlError("only a question or an INSERT INTO can be followed")
        handed = None if options.parquet else on_batch
        question = Query(self.views.expand(statement.text))
        return follow(self.tables, question, handed, options, self.inserting, on_notice=tell)

    def warm_up(self) -> None:
        warm_up(self.spark, lambda: self._is_asked)

    def _answer(self, statement: Statement, text: str, turn: Turn) -> SqlAnswer:
        match statement:
            case Explain(question, is_extended):
                return SqlAnswer(
                    text=self.tables.explain(self.views.expand(question), is_extended)
                )  # notices are in it
            case ShowTables(pattern):
                return self._listed("table", self.tables.names(), pattern)
            case ShowViews(pattern):
                return self._listed("view", self.views.queries, pattern)
            case Describe(name):
                return self._described(name)
            case CreateView():
                return self._view_created(statement)
            case ChangeTable(verb, name):
                self._check_no_topic(verb, name)
                return self._rows(self.tables.sql(text), text)
            case DropView(name):
                was_there = self.views.drop(statement)
                return SqlAnswer(notices=(f"view {name} is gone" if was_there else f"there was no view {name}",))
            case Insert():
                return self._inserted(statement, turn)
            case Query(question):
                return self._rows(self.tables.sql(self.views.expand(question)), text)
            case _:
                return self._rows(self.tables.sql(text), text)

    def _view_created(self, statement: CreateView) -> SqlAnswer:
        """Only a view that Spark understands is kept."""
        name, known = statement.name, self.views.name_of(statement.name)
        if known is None or statement.is_replacing:
            others = {other: query for other, query in self.views.queries.items() if other != known}
            check_cycle(name, {**others, name: statement.query})
            self.tables.ask(expand(statement.query, others), is_run=False)
        is_new = self.views.create(statement)
        said = [f"view {name} is {'kept' if is_new else 'there already,'} in {self.views.file}"]
        hidden = [topic for topic in self.tables.names() if topic.lower() == name.lower()]
        if is_new and hidden:
            said.append(f"it hides the topic {hidden[0]}: questions about {name} are about the view from now on")
        return SqlAnswer(notices=tuple(said))

    def _check_no_topic(self, verb: str, name: str) -> None:
        if name in self.tables.names() and not self.spark.catalog.tableExists(quote(name)):
            raise refused_change(verb, name)

    def _rows(self, frame: DataFrame, text: str) -> SqlAnswer:
        notices = self._notices()
        if not frame.columns:  # a command that has nothing to show
            return SqlAnswer(notices=notices)
        return SqlAnswer(FrameRows(frame, lambda error: self._explain(error, text)), notices=notices)

    def _notices(self) -> tuple[str, ...]:
        self._said = tuple(self.tables.notices)
        return self._said

    def _listed(self, heading: str, names: Iterable[str], pattern: str) -> SqlAnswer:
        patterns = [each.strip().lower() for each in pattern.split("|")] if pattern else ["*"]
        shown = [name for name in sorted(names) if any(fnmatch.fnmatchcase(name.lower(), each) for each in patterns)]
        return SqlAnswer(TableRows({heading: shown}))

    def _described(self, name: str) -> SqlAnswer:
        view = self.views.name_of(name)
        if view is not None:
            frame = self.tables.sql(self.views.expand(f"TABLE {name}"))
            columns = [(each.name, each.dataType.simpleString()) for each in frame.schema]
            return _columns(columns, f"view: {self.views.queries[view]}")
        found: TableDescription = self.tables.describe(name)
        size = f"{plural(found.partitions, 'partition')}, at most {plural(found.records, 'record')}"
        return _columns([(each.name, each.type) for each in found.columns], f"{size}; {found.note}".rstrip("; "))

    def _inserted(self, statement: Insert, turn: Turn) -> SqlAnswer:
        whole = replace(statement, query=self.views.expand(statement.query))
        done = insert(self.tables, whole, self.inserting, turn.is_cancelled)
        if done.is_all_there:
            return SqlAnswer(notices=(*done.notices, f"all rows were in {done.topic} already"))
        return SqlAnswer(notices=(*done.notices, f"{plural(done.rows, 'row')} into {done.topic}"))


def refused_change(verb: str, topic: str) -> SqlError:
    hint = f"`penstock topics delete {topic}` does." if verb == "DROP TABLE" else "INSERT INTO adds rows to it."
    return SqlError(f"{topic} is a topic, which {verb} does not change", hint)


def _columns(columns: Iterable[tuple[str, str]], note: str) -> SqlAnswer:
    names, types = zip(*columns, strict=True)
    return SqlAnswer(TableRows({"column": list(names), "type": list(types)}), notices=(note,))
