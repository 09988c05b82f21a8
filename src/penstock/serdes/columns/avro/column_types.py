"""From an Avro schema to its column, and so to its Arrow type.

| Avro | Arrow |
|---|---|
| null, boolean, int, long, float, double | null, bool, int32, int64, float32, float64 |
| string, enum, uuid (on string or fixed) | string |
| bytes, fixed, duration, big-decimal | binary |
| decimal | decimal128; binary if it has more than 38 digits |
| date; time-millis, time-micros | date32; time32[ms], time64[us] |
| timestamp-millis, -micros, -nanos; local-timestamp-... | timestamp[ms, us, ns] in UTC; without a zone |
| record | struct; fields that are not nullable say so |
| array; map | list; map with keys of string |
| union of null and one type | that type, nullable |
| union of int and long, of float and double | int64, float64 |
| any other union | struct of `member0`, `member1`, ... without null, one of them set: as Spark's `from_avro` |
| a record that contains itself, where it does so | string: its JSON text |
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.schemas.avro.logical import logical_properties
from penstock.schemas.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union, union_key
from penstock.serdes.columns.avro.nested_columns import (
    ArrayColumn,
    MapColumn,
    NullableColumn,
    ProjectedColumn,
    RecordColumn,
    UnionColumn,
    WidenedColumn,
)
from penstock.serdes.columns.avro.scalars import (
    LOGICAL,
    MOST_DIGITS,
    PRIMITIVES,
    BytesColumn,
    Column,
    DecimalColumn,
    EnumColumn,
    JsonColumn,
    UuidColumn,
)
from penstock.serdes.errors import UnusableSchemaError

# Columns in columns, all counted. Names allow a short text to mean exponentially many.
_MOST_COLUMNS = 10_000
# Types within types. Reading takes three frames of Python for each, and Arrow recurses too.
_MOST_DEPTH = 64

_WIDENED = {frozenset({"int", "long"}): pa.int64(), frozenset({"float", "double"}): pa.float64()}


def column_of(root: AvroType, wanted: frozenset[str] | None = None) -> Column:
    """`wanted`: the outermost fields that the column has. Those of a union are the members of its struct. Any other
    type that is no record has no fields: its column has the whole value. Raises UnusableSchemaError.
    """
    column = _Maker(wanted).column(root)
    if wanted is None or isinstance(root, Record) or not pa.types.is_struct(column.type):
        return column
    return ProjectedColumn(column, wanted)


def arrow_type(root: AvroType) -> pa.DataType:
    """Raises UnusableSchemaError."""
    return column_of(root).type


def is_nullable(kind: AvroType) -> bool:
    if isinstance(kind, Union):
        return any(branch.kind == "null" for branch in kind.branches)
    return kind.kind == "null"


class _Maker:
    def __init__(self, wanted: frozenset[str] | None) -> None:
        self._made = 0
        self._wanted = wanted
        # The records around, from the outermost on.
        self._around: list[Record] = []
        self._depth = 0

    def column(self, kind: AvroType) -> Column:
        self._made += 1
        self._depth += 1
        if self._made > _MOST_COLUMNS:
            raise UnusableSchemaError(f"the schema has more than {_MOST_COLUMNS} columns")
        if self._depth > _MOST_DEPTH:
            raise UnusableSchemaError(f"the schema nests types more than {_MOST_DEPTH} deep")
        try:
            return self._column(kind)
        finally:
            self._depth -= 1

    def _column(self, kind: AvroType) -> Column:
        match kind:
            case Primitive() | Fixed():
                return _scalar(kind)
            case Enum():
                return EnumColumn(kind.symbols)
            case Record():
                return self._record(kind)
            case Array():
                item = self.column(kind.items)
                return ArrayColumn(item, nullable=is_nullable(kind.items), is_empty=_takes_no_bytes(kind.items, []))
            case Map():
                return MapColumn(self.column(kind.values), nullable=is_nullable(kind.values))
            case Union():
                return self._union(kind)
        raise AssertionError(kind)

    def _record(self, kind: Record) -> Column:
        if any(each is kind for each in self._around):
            return JsonColumn()
        self._around.append(kind)
        fields = [(each.name, self.column(each.type), is_nullable(each.type)) for each in kind.fields]
        self._around.pop()
        return RecordColumn(fields, self._wanted if self._depth == 1 else None)

    def _union(self, kind: Union) -> Column:
        columns = [None if each.kind == "null" else self.column(each) for each in kind.branches]
        present = [position for position, column in enumerate(columns) if column is not None]
        if not present:
            return NullableColumn(PRIMITIVES["null"](), -1, len(columns))
        if len(present) == 1:
            inner = columns[present[0]]
            assert inner is not None
            return NullableColumn(inner, present[0], len(columns))
        plain = [kind.branches[position] for position in present]
        wider = _WIDENED.get(frozenset(each.kind for each in plain))
        if wider is not None and not any(logical_properties(each) for each in plain):
            return WidenedColumn(columns, wider)
        return UnionColumn([(union_key(each), column) for each, column in zip(kind.branches, columns, strict=True)])


def _scalar(kind: Primitive | Fixed) -> Column:
    properties: dict[str, Any] = logical_properties(kind)
    size = kind.size if isinstance(kind, Fixed) else None
    logical = properties.get("logicalType")
    if logical == "decimal" and properties["precision"] <= MOST_DIGITS:
        return DecimalColumn(properties["precision"], properties.get("scale", 0), size)
    if logical == "uuid" and size is not None:
        return UuidColumn()
    if logical in LOGICAL:
        return LOGICAL[logical]()
    return PRIMITIVES[kind.kind]() if size is None else BytesColumn(size)


def _takes_no_bytes(kind: AvroType, around: list[AvroType]) -> bool:
    match kind:
        case Primitive():
            return kind.kind == "null"
        case Fixed():
            return kind.size == 0
        case Record():
            if any(each is kind for each in around):
                return False
            around.append(kind)
            found = all(_takes_no_bytes(each.type, around) for each in kind.fields)
            around.pop()
            return found
    return False
