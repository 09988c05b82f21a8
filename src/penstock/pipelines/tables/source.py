"""Topics as tables by `format("penstock")`: the option `table` names one, and its columns are decoded while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from penstock.pipelines.tables.connection import Connection
    from penstock.pipelines.tables.table import Table


def table_options(connection: Connection, table: Table) -> dict[str, str]:
    """Options for `spark.read` and `spark.readStream`; the table travels in them, so nothing is looked up again.
    Secrets are among those that begin with kafka. and registry., and in no other."""
    raise NotImplementedError


def is_table(options: Mapping[str, str]) -> bool:
    return "table" in options


def table_schema(options: Mapping[str, str]) -> StructType:
    raise NotImplementedError


def open_batch_reader(options: Mapping[str, str]) -> DataSourceReader:
    raise NotImplementedError


def open_stream_reader(options: Mapping[str, str]) -> DataSourceStreamReader:
    raise NotImplementedError
