"""The rows of a question as Arrow batches, as they come: never more than one of Spark's partitions on the driver.

Spark gives rows to Python one partition at a time (`toLocalIterator`), as pickled objects. Here the same way carries
Arrow's batches: 300,000 rows of nine columns took 4.8 s by batches and 16.3 s by objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sql.refusals import silenced

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


class FrameRows:
    """`explain` turns what Spark raises while it computes rows into an error for people."""

    def __init__(self, frame: DataFrame, explain: Callable[[Exception], PipelineError]) -> None:
        self._frame = presentable(frame)
        self._explain = explain

    @property
    def schema(self) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self._frame.schema, timezone="UTC")

    def batches(self) -> Iterator[pa.RecordBatch]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            batches = arrow_batches(self._frame, self.schema)
            while (batch := _next(batches)) is not None:
                yield batch
        except (PySparkException, Py4JError, EOFError, OSError) as error:
            raise self._explain(error) from error

    def head(self, count: int) -> pa.Table:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            with silenced():
                return self._frame.limit(count).toArrow()
        except (PySparkException, Py4JError) as error:
            raise self._explain(error) from error


class TableRows:
    """Rows that are known already: names of tables, columns of one."""

    def __init__(self, columns: Mapping[str, Sequence[str]]) -> None:
        import pyarrow as pa

        self._table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches()

    def head(self, count: int) -> pa.Table:
        return self._table.slice(0, count)


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    with silenced():  # not around the loop: a generator may be ended by another thread
        return next(batches, None)


def arrow_batches(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark.core.rdd import _local_iterator_from_socket
    from pyspark.serializers import FramedSerializer

    class Messages(FramedSerializer):
        def loads(self, data: bytes) -> bytes:
            return data

    served = frame.sparkSession._jvm.PythonRDD.toLocalIteratorAndServe(frame._jdf.toArrowBatchRdd(), True)  # type: ignore[union-attr]
    for message in _local_iterator_from_socket(served, Messages()):
        yield pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(message)), schema)


def presentable(frame: DataFrame) -> DataFrame:
    """Columns of types that Arrow does not have, intervals of months and variants for two, as text."""
    texts = {number: as_text for number, field in enumerate(frame.schema.fields) if (as_text := _text_of(field))}
    if not texts:
        return frame
    names = [f"_{number}" for number in range(len(frame.columns))]
    renamed = frame.toDF(*names)
    columns = [texts[number](renamed[name]) if number in texts else renamed[name] for number, name in enumerate(names)]
    return renamed.select(*columns).toDF(*frame.columns)


def _text_of(field: StructField) -> Callable[[Column], Column] | None:
    import pyspark.sql.functions as F
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import VariantType

    if isinstance(field.dataType, VariantType):
        return F.to_json
    try:
        to_arrow_type(field.dataType, timezone="UTC")
    except (PySparkTypeError, TypeError):
        return lambda column: column.cast("string")
    return None
