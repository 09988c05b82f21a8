"""Writes the rows of one Spark task: one transaction for them and their mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.columns.sql import SqlColumn, in_utc, make_table, write_statement
from penstock.pipelines.sinks.sql_writing.database import Database, MarkedTask, take_mark

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "task int, rows long"


@dataclass(frozen=True, slots=True)
class SqlTask:
    """Pickled to the executors."""

    database: Database
    table: str
    columns: Sequence[SqlColumn]
    mode: str
    batch_size: int
    query_id: str
    sink: str
    batch_id: int
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs inside a task"
        rows = self.write(context.partitionId(), list(batches))
        columns = [pa.array([context.partitionId()], pa.int32()), pa.array([rows], pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, ["task", "rows"])

    def write(self, task: int, batches: Sequence[pa.RecordBatch]) -> int:
        """How many rows were written; the batches are held, since a lost connection means to begin again."""
        return self.database.patiently(lambda: self._write_once(task, batches))

    def _write_once(self, task: int, batches: Sequence[pa.RecordBatch]) -> int:
        dialect = self.database.dialect
        statement = write_statement(make_table(self.table, self.columns, dialect), dialect, self.mode)
        work = MarkedTask(self.query_id, self.sink, task, self.batch_id, self.tasks)
        written = 0
        with self.database.transaction() as connection:
            if not take_mark(connection, work):
                return 0
            for chunk in self._chunks(batches, dialect):
                connection.execute(statement, chunk)
                written += len(chunk)
        return written

    def _chunks(self, batches: Sequence[pa.RecordBatch], dialect: str) -> Iterator[list[dict[str, Any]]]:
        key = [column.name for column in self.columns if column.is_key]
        for batch in batches:
            for start in range(0, batch.num_rows, self.batch_size):
                rows = batch.slice(start, self.batch_size).to_pylist()
                without = next((name for name in key for row in rows if row[name] is None), None)
                if without is not None:
                    raise PipelineError(f"{self.table}: a row has no {without}, which is a part of the key")
                yield [{name: in_utc(value, dialect) for name, value in row.items()} for row in rows]
