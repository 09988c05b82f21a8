"""A task's transaction, on SQLite: what the database holds whenever the process is killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.columns.sql import make_table, plan_columns
from penstock.pipelines.sinks.sql_writing.database import (
    Database,
    Mark,
    check_marks,
    create_if_missing,
    marks_table,
    may_pass,
)
from penstock.pipelines.sinks.sql_writing.task import SqlTask

COLUMNS = plan_columns({"id": "bigint", "text": "string"}, (), "t")


class KilledError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class DiesAfterCommit(Database):
    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with super(DiesAfterCommit, self).transaction() as connection:
            yield connection
        raise KilledError


@dataclass(frozen=True, slots=True)
class DiesBeforeCommit(Database):
    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with super(DiesBeforeCommit, self).transaction() as connection:
            yield connection
            raise KilledError


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/rows.db"
    with Database(url).transaction() as connection:
        create_if_missing(connection, marks_table())
        create_if_missing(connection, make_table("t", COLUMNS, "sqlite"))
    return url


def task(database: Database, batch_id: int = 0, tasks: int = 1) -> SqlTask:
    return SqlTask(database, "t", COLUMNS, "append", 2, "query", "sink", batch_id, tasks)


def batches(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([{"id": number, "text": None} for number in numbers])]


def ids(url: str) -> list[int]:
    with Database(url).transaction() as connection:
        return list(connection.execute(sa.text("SELECT id FROM t ORDER BY id")).scalars())


def test_rows_are_there_once_when_killed_after_the_commit(url: str) -> None:
    with pytest.raises(KilledError):
        task(DiesAfterCommit(url)).write(0, batches(1, 2, 3))
    assert ids(url) == [1, 2, 3]
    assert task(Database(url)).write(0, batches(1, 2, 3)) == 0
    assert ids(url) == [1, 2, 3]


def test_rows_are_there_once_when_killed_before_the_commit(url: str) -> None:
    with pytest.raises(KilledError):
        task(DiesBeforeCommit(url)).write(0, batches(1, 2, 3))
    assert ids(url) == []
    assert task(Database(url)).write(0, batches(1, 2, 3)) == 3
    assert ids(url) == [1, 2, 3]


def test_each_batch_and_task_is_written_when_marks_of_others_are_there(url: str) -> None:
    database = Database(url)
    assert task(database, 0, tasks=2).write(0, batches(1)) == 1
    assert task(database, 0, tasks=2).write(1, batches(2)) == 1
    assert task(database, 1, tasks=2).write(0, batches(3)) == 1
    assert task(database, 0, tasks=2).write(0, batches(1)) == 0
    assert ids(url) == [1, 2, 3]


def test_a_repetition_is_refused_when_it_has_another_number_of_tasks(url: str) -> None:
    task(Database(url), 5, tasks=4).write(0, batches(1))
    with pytest.raises(PipelineError, match="batch 5 was begun with 4 tasks and cannot be finished with 2") as raised:
        task(Database(url), 5, tasks=2).write(0, batches(1))
    assert "tasks=4" in raised.value.hint
    task(Database(url), 6, tasks=2).write(0, batches(2))


def test_a_batch_is_there_when_every_task_has_its_mark() -> None:
    assert not check_marks([], "s", 3, 1)
    assert not check_marks([Mark(0, 3, 2)], "s", 3, 2)
    assert check_marks([Mark(0, 3, 2), Mark(1, 3, 2)], "s", 3, 2)
    assert check_marks([Mark(0, 4, 1), Mark(1, 3, 2)], "s", 3, 2)
    assert not check_marks([Mark(0, 2, 4), Mark(3, 2, 4)], "s", 3, 2)


def test_nothing_is_written_when_a_row_has_no_key(url: str) -> None:
    upsert = SqlTask(Database(url), "t", plan_columns({"id": "bigint"}, ("id",), "t"), "upsert", 9, "q", "s", 0, 1)
    rows = [pa.RecordBatch.from_pylist([{"id": 1}, {"id": None}])]
    with pytest.raises(PipelineError, match="t: a row has no id"):
        upsert.write(0, rows)
    assert ids(url) == []


def test_it_waits_longer_and_longer_and_then_says_so_when_the_database_is_down(tmp_path: Path) -> None:
    database, pauses = Database(f"sqlite:///{tmp_path}/missing/rows.db", wait_s=10), list[float]()

    def work() -> None:
        with database.transaction():
            raise AssertionError("there is nothing to connect to")

    with pytest.raises(PipelineError, match="could not be written to for 13 s: unable to open database file"):
        database.patiently(work, pauses.append, lambda: 0.5)  # without jitter
    assert pauses == [0.25, 0.5, 1, 2, 4, 5]


def test_rows_are_written_when_the_database_comes_back_while_waited_for(tmp_path: Path) -> None:
    home = tmp_path / "later"
    database = Database(f"sqlite:///{home}/rows.db")

    def work() -> str:
        with database.transaction():
            return "done"

    assert database.patiently(work, lambda _: home.mkdir()) == "done"


def test_it_does_not_wait_when_the_statement_is_wrong(url: str) -> None:
    database = Database(url)

    def work() -> None:
        with database.transaction() as connection:
            connection.execute(sa.text("SELECT x FROM no_such_table"))

    def no_sleep(_: float) -> None:
        raise AssertionError

    with pytest.raises(PipelineError, match="no such table"):
        database.patiently(work, no_sleep)


def test_a_second_attempt_is_made_when_another_one_set_the_mark_first() -> None:
    conflict = sa.exc.IntegrityError("INSERT INTO penstock_batches", {}, sqlite3.IntegrityError("UNIQUE"))
    assert may_pass(conflict)
    assert not may_pass(sa.exc.IntegrityError("INSERT INTO t", {}, sqlite3.IntegrityError("UNIQUE")))
    assert may_pass(sa.exc.OperationalError("x", {}, Exception(1213, "Deadlock found")))
    assert not may_pass(sa.exc.OperationalError("x", {}, Exception(1045, "Access denied")))
