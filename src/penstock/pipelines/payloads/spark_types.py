"""What Spark makes of the types that column decoders give, and their values as Spark takes them.

| Arrow | Spark |
|---|---|
| bool, int8 to int64, float32, float64, string, binary, date32 | the same |
| uint8, uint16, uint32; uint64 | the next wider number with a sign; decimal(20, 0) |
| decimal up to 38 digits; more digits | decimal; text |
| timestamp with a zone; without one | timestamp; timestamp_ntz, both in microseconds |
| time; duration | time(6); interval day to second |
| list, large and fixed ones; map; struct | array; map; struct |
| dictionary; null | what it holds; void |

Everything is nullable: a row that does not decode has null in all of its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def spark_type(kind: pa.DataType) -> DataType:
    raise NotImplementedError


def as_spark(values: pa.Array) -> pa.Array:
    """The values in the Arrow type that Spark has for `spark_type(values.type)`, times with a zone in UTC."""
    raise NotImplementedError


def spark_arrow_type(kind: pa.DataType) -> pa.DataType:
    """The type of `as_spark(values)` for values of the type `kind`."""
    raise NotImplementedError
