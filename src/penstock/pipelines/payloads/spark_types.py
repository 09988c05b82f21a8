"""Spark's types for the types of column decoders, and their values in Spark's form.

| Arrow | Spark |
|---|---|
| bool, int8 to int64, float32, float64, string, binary, date | the same |
| uint8, uint16, uint32; uint64 | the next wider number with a sign; decimal(20, 0) |
| decimal up to 38 digits; other decimals | decimal; text |
| timestamp with a zone; without one | timestamp; timestamp_ntz, both in microseconds |
| time | text as 01:02:03.000004; functions over Arrow, which read topics, take no column of Spark's type time |
| duration | interval day to second |
| list, also large ones and those of a fixed size; map; struct | array; map; struct |
| dictionary; null | what it holds; void |

Everything is nullable: a row that does not decode has null in all of its columns. Times that microseconds do not hold
are at the edge of the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_LAST = (1 << 63) - 1
# What Spark has under the same name, and what is a wider type of Spark.
_SAME = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
)
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date32(): pa.date32(),
    pa.date64(): pa.date32(),
    pa.null(): pa.null(),
}


def spark_type(kind: pa.DataType) -> DataType:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(spark_arrow_type(kind))


def arrow_of_spark(kind: DataType) -> pa.DataType:
    """The Arrow type that Spark takes for its type."""
    from pyspark.sql.pandas.types import to_arrow_type

    return spark_arrow_type(to_arrow_type(kind, timezone="UTC"))


def spark_arrow_type(kind: pa.DataType) -> pa.DataType:
    """The type of `as_spark(values)` for values of the type `kind`."""
    if kind in _SAME:
        return kind
    if kind in _WIDER:
        return _WIDER[kind]
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_time(kind):
        return pa.string()
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_decimal(kind):
        is_known = kind.precision <= 38 and 0 <= kind.scale <= kind.precision
        return pa.decimal128(kind.precision, kind.scale) if is_known else pa.string()
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, spark_arrow_type(each.type)) for each in kind])
    if types.is_map(kind):
        key = pa.field("key", spark_arrow_type(kind.key_type), nullable=False)
        return pa.map_(key, pa.field("value", spark_arrow_type(kind.item_type)))
    if _is_list(kind):
        return pa.list_(pa.field("element", spark_arrow_type(kind.value_type)))
    if types.is_dictionary(kind):
        return spark_arrow_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return spark_arrow_type(kind.storage_type)
    return pa.binary() if types.is_fixed_size_binary(kind) else pa.string()


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def as_spark(values: pa.Array) -> pa.Array:
    """The values in the Arrow type that Spark has for `spark_type(values.type)`, times with a zone in UTC."""
    return _converted(values, spark_arrow_type(values.type))


def _converted(values: pa.Array, target: pa.DataType) -> pa.Array:
    kind = values.type
    if kind == target:
        return values
    if types.is_dictionary(kind):
        return _converted(values.dictionary_decode(), target)
    if isinstance(kind, pa.BaseExtensionType):
        return _converted(values.storage, target)
    if types.is_struct(kind):
        return _struct(values, target)
    if types.is_map(kind):
        # Their entries lie one after the other, also where a map is null: offsets and nulls stay as they are.
        entries = pa.StructArray.from_arrays(
            [_converted(values.keys, target.key_type), _converted(values.items, target.item_type)],
            fields=[target.key_field, target.item_field],
        )
        return _with_children(values, target, entries)
    if types.is_list(kind):
        return _with_children(values, target, _converted(values.values, target.value_type))
    if _is_list(kind):
        return _converted(values.cast(pa.list_(pa.field("element", kind.value_type))), target)
    if types.is_timestamp(kind) or types.is_duration(kind):
        return _microseconds(values, target)
    if types.is_time(kind):
        return values.cast(pa.time64("us"), safe=False).cast(target)  # six digits, whatever the unit
    return values.cast(target)


def _struct(values: pa.Array, target: pa.DataType) -> pa.Array:
    is_null = values.is_null()
    if not target.num_fields:
        return pa.Array.from_buffers(target, len(values), [values.is_valid().buffers()[1]])
    columns = [_converted(values.field(number), each.type) for number, each in enumerate(target)]
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=is_null)


def _with_children(values: pa.Array, target: pa.DataType, child: pa.Array) -> pa.Array:
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(target, len(values), buffers, offset=values.offset, children=[child])


def _microseconds(values: pa.Array, target: pa.DataType) -> pa.Array:
    unit = values.type.unit
    if unit == "us":
        return values.view(target)
    mask = values.is_null().to_numpy(zero_copy_only=False)
    numbers: Any = values.view(pa.int64()).fill_null(0).to_numpy()
    if unit == "ns":
        numbers = numbers // 1000
    else:
        most = _LAST // _US[unit]
        numbers = np.clip(numbers, -most, most) * _US[unit]
    return pa.array(numbers, mask=mask).view(target)
