"""A topic as a table: its columns and how payloads become them. Pure and picklable.

The columns are the fields of the value (or one column `value`, where it is no record), and at the end `_key`,
`_headers`, `_partition`, `_offset`, `_timestamp`. Those never change their meaning: a field with such a name, or with
the name of another field in other case, has `_` behind it until its name is free.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.pipelines.payloads.formats import PayloadFormat
from penstock.pipelines.payloads.spark_types import spark_type
from penstock.pipelines.source.columns import HEADERS_TYPE

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

LATEST_SUFFIX = "$latest"
VALUE = "value"


class ColumnSource(enum.Enum):
    """Where a column comes from."""

    FIELD = "a field of the value"
    VALUE = "the value"
    KEY = "_key"
    HEADERS = "_headers"
    PARTITION = "_partition"
    OFFSET = "_offset"
    TIMESTAMP = "_timestamp"

    @property
    def is_ours(self) -> bool:
        return self not in (ColumnSource.FIELD, ColumnSource.VALUE)


OUR_COLUMNS: tuple[str, ...] = tuple(each.value for each in ColumnSource if each.is_ours)


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type: pa.DataType  # exactly Spark's Arrow type
    source: ColumnSource
    field: str = ""  # of the value's schema

    @property
    def is_ours(self) -> bool:
        return self.source.is_ours

    @property
    def spark_type(self) -> DataType:
        return spark_type(self.type)

    @property
    def sql_type(self) -> str:
        """As Spark's SQL writes it, such as `array<string>`."""
        return str(self.spark_type.simpleString())


_RECORD_COLUMNS = tuple(
    TableColumn(source.value, kind, source)
    for source, kind in (
        (ColumnSource.HEADERS, HEADERS_TYPE),
        (ColumnSource.PARTITION, pa.int32()),
        (ColumnSource.OFFSET, pa.int64()),
        (ColumnSource.TIMESTAMP, pa.timestamp("us", tz="UTC")),
    )
)


@dataclass(frozen=True, slots=True)
class Table:
    name: str  # the name in the query, with $latest if it has that
    topic: str
    partitions: int
    key: PayloadFormat
    value: PayloadFormat
    columns: tuple[TableColumn, ...]
    note: str = ""  # where the columns come from, such as "inferred from 200 records"
    is_latest: bool = False

    def column(self, name: str) -> TableColumn | None:
        """The column of this name, in any case: Spark does not tell cases apart."""
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)

    def choose(self, names: Iterable[str] | None) -> tuple[TableColumn, ...]:
        """The columns of these names, all if None. KeyError where there is none."""
        if names is None:
            return self.columns
        known = {each.name: each for each in self.columns}
        return tuple(known[name] for name in names)

    def arrow_schema(self, columns: Iterable[str] | None = None) -> pa.Schema:
        return pa.schema([pa.field(each.name, each.type) for each in self.choose(columns)])

    def spark_schema(self, columns: Iterable[str] | None = None) -> StructType:
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(each.name, each.spark_type) for each in self.choose(columns)])


def make_columns(key: pa.DataType, value: pa.DataType) -> tuple[TableColumn, ...]:
    """The columns of a table whose keys and values have these types."""
    if pa.types.is_struct(value) and value.num_fields:
        fields = [value.field(number) for number in range(value.num_fields)]
        names = name_columns(each.name for each in fields)
        columns = [
            TableColumn(name, each.type, ColumnSource.FIELD, each.name)
            for name, each in zip(names, fields, strict=True)
        ]
    else:
        columns = [TableColumn(VALUE, value, ColumnSource.VALUE)]
    return (*columns, TableColumn(ColumnSource.KEY.value, key, ColumnSource.KEY), *_RECORD_COLUMNS)


def name_columns(fields: Iterable[str]) -> list[str]:
    """The names of the columns that fields of a value have, beside ours."""
    taken = set(OUR_COLUMNS)
    names = []
    for field in fields:
        name = field or "_"  # SQL cannot name a column that has no name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        names.append(name)
    return names
