"""A topic as a table: its columns and how payloads become them. Pure and picklable.

The columns are the fields of the value (or one column `value`, where it is no record), and at the end `_key`,
`_headers`, `_partition`, `_offset`, `_timestamp`. Those never change their meaning: a field with such a name, or with
the name of another field in other case, has `_` behind it until its name is free.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

LATEST_SUFFIX = "$latest"
VALUE = "value"


class Source(enum.Enum):
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
        return self not in (Source.FIELD, Source.VALUE)


OUR_COLUMNS: tuple[str, ...] = tuple(each.value for each in Source if each.is_ours)


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type: pa.DataType  # exactly Spark's Arrow type
    source: Source
    field: str = ""  # of the value's schema

    @property
    def is_ours(self) -> bool:
        return self.source.is_ours

    @property
    def spark_type(self) -> DataType:
        raise NotImplementedError

    @property
    def sql_type(self) -> str:
        """As Spark's SQL writes it, such as `array<string>`."""
        return str(self.spark_type.simpleString())


@dataclass(frozen=True, slots=True)
class Table:
    name: str  # as it was asked for, with $latest if so
    topic: str
    partitions: int
    key: Any  # PayloadFormat
    value: Any  # PayloadFormat
    columns: tuple[TableColumn, ...]
    note: str = ""  # where the columns come from, such as "inferred from 200 records"
    is_latest: bool = False

    def column(self, name: str) -> TableColumn | None:
        """By name, in any case."""
        raise NotImplementedError

    def arrow_schema(self, columns: Iterable[str] | None = None) -> pa.Schema:
        raise NotImplementedError

    def spark_schema(self, columns: Iterable[str] | None = None) -> StructType:
        raise NotImplementedError


def name_columns(fields: Iterable[str]) -> list[str]:
    """The names of the columns that fields of a value have, beside ours."""
    taken = set(OUR_COLUMNS)
    names = []
    for field in fields:
        name = field
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        names.append(name)
    return names
