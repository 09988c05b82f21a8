"""`format("penstock")`: topics as a source and a sink of Spark, by the name that Spark finds without any registration.

Spark makes an instance wherever it needs one, on the driver and in the executors, from the options alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from penstock.pipelines.options import OPTIONS, Place, parse_value
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


class PenstockDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        include_headers = parse_value(OPTIONS["includeheaders"], self.options.get("includeheaders", "false"))
        return DDL_WITH_HEADERS if include_headers else DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.pipelines.source.read_options import parse_source_options
        from penstock.pipelines.source.reader import BatchReader

        return BatchReader(parse_source_options(self.options, Place.BATCH_READ))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.pipelines.source.read_options import parse_source_options
        from penstock.pipelines.source.stream_reader import StreamReader

        return StreamReader(parse_source_options(self.options, Place.STREAM_READ))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.pipelines.topic_writing.writer import BatchWriter

        return BatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.pipelines.topic_writing.writer import StreamWriter

        return StreamWriter(self.options, schema)


def register(spark: SparkSession) -> None:
    """Registers the source in sessions that do not look for data sources themselves. In others it has no effect."""
    spark.dataSource.register(PenstockDataSource)
