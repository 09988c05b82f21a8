"""The sink as Spark sees it: `write.format("penstock")` and `writeStream.format("penstock")`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.pipelines.options import OptionScope
from penstock.pipelines.topic_writing.rows import plan_columns
from penstock.pipelines.topic_writing.task import TaskWrite
from penstock.pipelines.topic_writing.write_options import parse_sink_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class RowsWritten(WriterCommitMessage):
    task: int
    rows: int
    was_there: bool


def plan_task(options: Mapping[str, str], schema: StructType, place: OptionScope) -> TaskWrite:
    """OptionError or ColumnError for what cannot be written."""
    parsed = parse_sink_options(options, place)
    fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    return TaskWrite(parsed, plan_columns(fields, parsed.topic, includes_timestamp=parsed.includes_timestamp))


class BatchWriter(DataSourceArrowWriter):
    """Each task's rows are safe when the task is done, so there is nothing to commit or to abort in the end."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._task = plan_task(options, schema, OptionScope.BATCH_WRITE)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        return _message(self._task, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Like BatchWriter. A batch that fails half-way comes again, and its finished tasks find their markers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._task = plan_task(options, schema, OptionScope.STREAM_WRITE)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        return _message(self._task, iterator)


def _message(task: TaskWrite, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
    written = task(iterator)
    return RowsWritten(written.task, written.rows, written.was_there)
