"""`format("penstock")`: topics as a source and a sink of Spark, by the name that Spark finds without any registration.

Spark makes an instance wherever it needs one, on the driver and in the executors, from the options alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from penstock.pipelines.options import OPTIONS, OptionScope, parse_value
from penstock.pipelines.source.columns import DDL, DDL_WITH_HEADERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from penstock.pipelines.tables.table import Table


class PenstockDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Looked up once: Spark gets the schema and the readers from the same instance.
        self._table: Table | None = None

    def schema(self) -> StructType | str:
        if self._is_table():
            return self._find_table().spark_schema()
        include_headers = parse_value(OPTIONS["includeheaders"], self.options.get("includeheaders", "false"))
        return DDL_WITH_HEADERS if include_headers else DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._is_table():
            from penstock.pipelines.tables.source import open_batch_reader

            return open_batch_reader(self.options, self._find_table(), schema)
        from penstock.pipelines.source.read_options import parse_source_options
        from penstock.pipelines.source.reader import BatchReader

        return BatchReader(parse_source_options(self.options, OptionScope.BATCH_READ))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self._is_table():
            from penstock.pipelines.tables.source import open_stream_reader

            return open_stream_reader(self.options, self._find_table(), schema)
        from penstock.pipelines.source.read_options import parse_source_options
        from penstock.pipelines.source.stream_reader import StreamReader

        return StreamReader(parse_source_options(self.options, OptionScope.STREAM_READ))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.pipelines.topic_writing.writer import BatchWriter

        return BatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.pipelines.topic_writing.writer import StreamWriter

        return StreamWriter(self.options, schema)

    def _is_table(self) -> bool:
        return "table" in self.options

    def _find_table(self) -> Table:
        from penstock.pipelines.tables.source import find_table

        if self._table is None:
            self._table = find_table(self.options)
        return self._table


def register(spark: SparkSession) -> None:
    """Registers the source in sessions that do not look for data sources themselves. In others it has no effect."""
    spark.dataSource.register(PenstockDataSource)
