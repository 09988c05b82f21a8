"""Connections to the database, how long one that does not answer is waited for, and the marks of written batches.

A mark (query, sink, task, batch) is written in the transaction that writes the rows: either both are there or none is.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client.resource_cache import ResourceCache
from penstock.client.retries import SYSTEM_CHANCE, Outlook, Retrying, RetryPolicy
from penstock.core.time.backoff import Chance
from penstock.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.exc import DBAPIError

MARKS_TABLE = "penstock_batches"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0
# For a database that accepts connections and then never answers.
_CONNECT_TIMEOUT_S = 10
_MOST_ENGINES = 8

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Database:
    url: str = field(repr=False)
    wait_s: float = 60.0

    @property
    def shown(self) -> str:
        """The URL without its password and without its query, which may hold passwords, too."""
        from sqlalchemy.engine import make_url

        url = make_url(self.url)
        return url._replace(password=None, query={}).render_as_string()  # type: ignore[arg-type]

    @property
    def dialect(self) -> str:
        from sqlalchemy.engine import make_url

        return make_url(self.url).get_backend_name()

    def patiently(
        self,
        work: Callable[[], _Result],
        sleep: Callable[[float], None] = time.sleep,
        chance: Chance = SYSTEM_CHANCE,
    ) -> _Result:
        """Tries again while the database is down, restarts or has chosen this transaction to end a deadlock.

        Only pauses count as waiting: a transaction may write for minutes before its connection is lost.
        """
        from sqlalchemy.exc import DBAPIError

        policy = RetryPolicy(self.wait_s, FIRST_PAUSE_S, LONGEST_PAUSE_S)
        retrying = Retrying(policy, clock=None, sleep=sleep, chance=chance)
        try:
            return retrying.run(work, DBAPIError, _judge)
        except DBAPIError as error:
            if not may_pass(error):
                raise PipelineError(f"{self.shown}: {text_of(error)}") from error
            raise PipelineError(
                f"{self.shown} could not be written to for {retrying.elapsed_s:.0f} s: {text_of(error)}",
                "The batch is written when the pipeline is started again and the database is there.",
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with engine_for(self.url).begin() as connection:
            yield connection


# By URL. One that is still in use when it has to go keeps the connections that are out.
_engines: ResourceCache[str, sa.Engine] = ResourceCache(_MOST_ENGINES, lambda engine: engine.dispose())


def engine_for(url: str) -> sa.Engine:
    """One per process: workers of Spark live on from batch to batch."""
    return _engines.get(url, lambda: _open_engine(url))


def _open_engine(url: str) -> sa.Engine:
    import sqlalchemy as sa

    backend = sa.make_url(url).get_backend_name()
    timeouts: dict[str, Any] = {"timeout" if backend == "sqlite" else "connect_timeout": _CONNECT_TIMEOUT_S}
    # Rows do not belong into error messages.
    engine = sa.create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=timeouts)
    if backend == "sqlite":
        # The driver would begin a transaction at the first change, after the mark has been read.
        sa.event.listen(engine, "connect", _leave_transactions_to_us)
        sa.event.listen(engine, "begin", _begin_at_once)
    return engine


def _leave_transactions_to_us(connection: Any, _: Any) -> None:
    connection.isolation_level = None


def _begin_at_once(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


# By the number that MariaDB's and MySQL's drivers give: not there, gone, shutting down, too many, lock wait, deadlock.
_PASSING_NUMBERS = frozenset({1020, 1040, 1053, 1205, 1213, 1927, 2002, 2003, 2006, 2013, 2055, 4031})
# By SQLSTATE: connection, rolled back, resources, intervention by an operator (a shutdown).
_PASSING_STATES = ("08", "40", "53", "57")
_LASTING_WORDS = ("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry")
_PASSING_WORDS = ("database is locked", "database is busy", "unable to open database file", "disk i/o error")


def may_pass(error: Exception) -> bool:
    from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError

    assert isinstance(error, DBAPIError)
    if error.connection_invalidated:
        return True
    if isinstance(error, IntegrityError):
        # Another attempt at the same task was quicker; once more, and its mark is seen.
        return MARKS_TABLE in str(error.statement)
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    original: Any = error.orig
    state = getattr(original, "sqlstate", None)
    if hasattr(original, "sqlstate"):
        if state is None:  # not connected: there is but what the server said
            return not any(words in str(original) for words in _LASTING_WORDS)
        return bool(state.startswith(_PASSING_STATES))
    first = original.args[0] if original is not None and original.args else None
    if isinstance(first, int):
        return first in _PASSING_NUMBERS
    return any(words in str(original).lower() for words in _PASSING_WORDS)


def _judge(error: Exception) -> Outlook:
    return Outlook.PASSING if may_pass(error) else Outlook.FINAL


def text_of(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split()) or type(error.orig).__name__


@functools.cache
def marks_table() -> sa.Table:
    import sqlalchemy as sa

    return sa.Table(
        MARKS_TABLE,
        sa.MetaData(),
        sa.Column("query_id", sa.String(64), primary_key=True),
        sa.Column("sink", sa.String(190), primary_key=True),
        sa.Column("task", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("batch_id", sa.BigInteger, nullable=False),
        sa.Column("tasks", sa.Integer, nullable=False),
    )


def create_if_missing(connection: sa.Connection, table: sa.Table) -> None:
    table.create(connection, checkfirst=True)


@dataclass(frozen=True, slots=True)
class MarkedTask:
    """A mark's subject: one task of a batch, whose rows are there."""

    query_id: str
    sink: str
    task: int
    batch_id: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Mark:
    task: int
    batch_id: int
    tasks: int


def check_marks(marks: list[Mark], sink: str, batch_id: int, tasks: int) -> bool:
    """Whether the whole batch is there. Rows are dealt out to tasks by their number: begun with four, a batch cannot be
    finished by two."""
    of_batch = [mark for mark in marks if mark.batch_id == batch_id]
    begun = {mark.tasks for mark in of_batch}
    if begun - {tasks}:
        raise PipelineError(
            f"{sink}: batch {batch_id} was begun with {begun.pop()} tasks and cannot be finished with {tasks}",
            f"Set tasks={of_batch[0].tasks} until the batch is written.",
        )
    later = [mark for mark in marks if mark.batch_id >= batch_id]
    return len({mark.task for mark in later if mark.task < tasks}) == tasks


def read_marks(connection: sa.Connection, query_id: str, sink: str) -> list[Mark]:
    import sqlalchemy as sa

    marks = marks_table().c
    query = sa.select(marks.task, marks.batch_id, marks.tasks).where(marks.query_id == query_id, marks.sink == sink)
    return [Mark(*row) for row in connection.execute(query)]


def take_mark(connection: sa.Connection, work: MarkedTask) -> bool:
    """False when the task's rows are there already. Otherwise the mark is set and stays locked until the transaction
    ends, so that a second attempt at the same task waits and then sees it."""
    import sqlalchemy as sa

    table = marks_table()
    this = sa.and_(table.c.query_id == work.query_id, table.c.sink == work.sink, table.c.task == work.task)
    query = sa.select(table.c.task, table.c.batch_id, table.c.tasks).where(this).with_for_update()
    row = connection.execute(query).first()
    numbers = {"batch_id": work.batch_id, "tasks": work.tasks}
    if row is None:
        key = {"query_id": work.query_id, "sink": work.sink, "task": work.task}
        connection.execute(table.insert(), {**key, **numbers})
        return True
    mark = Mark(*row)
    if mark.batch_id == work.batch_id:
        check_marks([mark], work.sink, work.batch_id, work.tasks)
    if mark.batch_id >= work.batch_id:
        return False
    connection.execute(table.update().where(this), numbers)
    return True
