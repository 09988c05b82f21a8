"""Finds the writer of a column for a type of an Avro schema, or the reasons why there is none.

| Avro | Arrow |
|---|---|
| boolean | bool |
| int, long | whole numbers, and decimals without a scale; each value is checked |
| float, double | floating and whole numbers; one that is too large for a float is refused |
| string; bytes | string; binary and string |
| enum; fixed; uuid | string; binary of the size; string |
| decimal | decimals and whole numbers; a value that loses digits is refused; binary past 38 digits |
| date; time-...; timestamp-... | date32; time; timestamp with a zone; what is finer than the unit is cut off |
| local-timestamp-... | timestamp without a zone |
| record; array; map | struct; list; map with keys of string |
| union | what one of its branches takes; or a struct of `member0`, `member1`, ... |
| a record within itself | struct, or string: its JSON text |

Dates and times that stand on numbers also take those numbers. Fields are found by name, or by the same letters in
another case if only one column has them. A field without a column is its default, or null where it takes null; a column
without a field is a problem.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock.schemas.avro.logical import logical_properties
from penstock.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    NoDefault,
    Primitive,
    Record,
    Union,
    union_key,
)
from penstock.serdes.avro.from_json import Output, Writers
from penstock.serdes.columns.encoding.avro.nested_writers import (
    ArrayWriter,
    Column,
    IndexedWriter,
    MapWriter,
    MembersWriter,
    NullableWriter,
    NullsWriter,
    RecordWriter,
    WidenedWriter,
    single,
)
from penstock.serdes.columns.encoding.avro.scalars import (
    BooleanWriter,
    BytesWriter,
    DateWriter,
    DecimalWriter,
    EnumWriter,
    FixedWriter,
    FloatWriter,
    JsonTextWriter,
    NullWriter,
    TicksWriter,
    UuidFixedWriter,
    UuidTextWriter,
    WholeWriter,
)
from penstock.serdes.columns.encoding.field_matches import Problems, column_for
from penstock.serdes.columns.encoding.numbers import is_whole
from penstock.serdes.columns.encoding.writers import ColumnWriter
from penstock.serdes.errors import PayloadError

_MOST_DIGITS = 38
# The largest default, since every row has it.
_MOST_DEFAULT_BYTES = 1 << 20
_Takes = Callable[[pa.DataType], bool]


def _is_number(kind: pa.DataType) -> bool:
    return bool(is_whole(kind) or kinds.is_floating(kind))


def _is_zoned(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) and kind.tz is not None)


def _is_local(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) and kind.tz is None)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_string(kind))


_PRIMITIVES: dict[str, tuple[_Takes, Callable[[], ColumnWriter]]] = {
    "null": (lambda _: False, NullWriter),
    "boolean": (kinds.is_boolean, BooleanWriter),
    "int": (is_whole, lambda: WholeWriter(32)),
    "long": (is_whole, lambda: WholeWriter(64)),
    "float": (_is_number, lambda: FloatWriter(4)),
    "double": (_is_number, lambda: FloatWriter(8)),
    "bytes": (_is_bytes, BytesWriter),
    "string": (kinds.is_string, BytesWriter),
}
# Logical types, which also take the values of the type below.
_LOGICAL: dict[str, tuple[_Takes, Callable[[], ColumnWriter]]] = {
    "date": (kinds.is_date32, DateWriter),
    "time-millis": (kinds.is_time, lambda: TicksWriter("ms")),
    "time-micros": (kinds.is_time, lambda: TicksWriter("us")),
    **{
        f"{prefix}timestamp-{name}": (takes, partial(TicksWriter, unit))
        for prefix, takes in (("", _is_zoned), ("local-", _is_local))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
# The branch of a union that is tried first for a column.
_EXACT: tuple[tuple[_Takes, str], ...] = (
    (kinds.is_string, "string"),
    (kinds.is_binary, "bytes"),
    (kinds.is_float32, "float"),
    (kinds.is_float64, "double"),
    (kinds.is_int64, "long"),
    (kinds.is_integer, "int"),
)


class Binder:
    def __init__(self) -> None:
        self.problems = Problems()
        self._singly = Writers(is_lenient=True)
        self._around: list[Record] = []

    def bind(self, kind: AvroType, arrow: pa.DataType) -> tuple[ColumnWriter, bool] | None:
        """The writer, and whether it takes null. None where there is a problem, which `problems` has then."""
        if isinstance(kind, Union):
            return self._union(kind, arrow)
        if kind.kind == "null":
            return NullsWriter(), True
        found = self._plain(kind, arrow)
        return (found, False) if found is not None else None

    def _plain(self, kind: AvroType, arrow: pa.DataType) -> ColumnWriter | None:
        if kinds.is_null(arrow):
            # Refuses every value: a column of nulls is all right only where the schema takes null, and `_union` handles
            # unions.
            return NullWriter()
        match kind:
            case Primitive() | Fixed():
                found = _scalar(kind, arrow)
            case Enum():
                found = EnumWriter(kind.name.full, kind.symbols) if kinds.is_string(arrow) else None
            case Record():
                if kinds.is_struct(arrow):
                    return self._record(kind, arrow)
                is_inside = any(each is kind for each in self._around)
                found = JsonTextWriter(self._singly.writer(kind)) if is_inside and kinds.is_string(arrow) else None
            case Array() if kinds.is_list(arrow):
                return self._array(kind, arrow)
            case Map() if kinds.is_map(arrow) and kinds.is_string(arrow.key_type):
                return self._map(kind, arrow)
            case _:
                found = None
        if found is None:
            self.problems.add(f"a column of {arrow} cannot be written as {_described(kind)}")
        return found

    def _record(self, kind: Record, arrow: pa.StructType) -> ColumnWriter | None:
        self._around.append(kind)
        parts: list[Column | bytes | None] = []
        used: set[int] = set()
        for field in kind.fields:
            position = column_for(field.name, arrow)
            if position is None:
                parts.append(self._without_column(field))
                continue
            used.add(position)
            with self.problems.inside(field.name):
                bound = self.bind(field.type, arrow.field(position).type)
            parts.append(Column(field.name, position, *bound) if bound is not None else None)
        self._around.pop()
        for position in range(arrow.num_fields):
            if position not in used:
                name = kind.name.full
                self.problems.add(f"record {name} has no field for the column {arrow.field(position).name}")
        whole = [each for each in parts if each is not None]
        return RecordWriter(whole) if len(whole) == len(parts) else None

    def _without_column(self, field: Field) -> bytes | None:
        """The bytes of the field in all rows."""
        default: Any = field.default
        if isinstance(default, NoDefault):
            branches = [each.kind for each in field.type.branches] if isinstance(field.type, Union) else []
            if "null" not in branches:
                self.problems.add(f"no column for the field {field.name}, which has no default and takes no null")
                return None
            return single(branches.index("null"))
        out = Output(_MOST_DEFAULT_BYTES)
        try:
            self._singly.default_writer(field.type)(default, out)
        except PayloadError as error:
            self.problems.add(f"the default of the field {field.name} cannot be written: {error}")
            return None
        return bytes(out)

    def _array(self, kind: Array, arrow: pa.ListType) -> ColumnWriter | None:
        with self.problems.inside("[]"):
            item = self.bind(kind.items, arrow.value_type)
        return ArrayWriter(item[0], takes_null=item[1]) if item is not None else None

    def _map(self, kind: Map, arrow: pa.MapType) -> ColumnWriter | None:
        with self.problems.inside("{}"):
            value = self.bind(kind.values, arrow.item_type)
        return MapWriter(BytesWriter(), value[0], takes_null=value[1]) if value is not None else None

    def _union(self, kind: Union, arrow: pa.DataType) -> tuple[ColumnWriter, bool] | None:
        names = [each.kind for each in kind.branches]
        null = names.index("null") if "null" in names else None
        if kinds.is_null(arrow) and null is not None:
            return NullsWriter(single(null)), True
        others = [(branch, each) for branch, each in enumerate(kind.branches) if branch != null]
        plain = {union_key(each): branch for branch, each in others if not logical_properties(each)}
        if is_whole(arrow) and {"int", "long"} <= plain.keys():
            return IndexedWriter(WidenedWriter(plain["int"], plain["long"]), null), True
        if _is_of_members(arrow, len(others)):
            return self._members(others, arrow, null)
        if len(others) == 1:
            found = self._plain(others[0][1], arrow)
            return (NullableWriter(found, others[0][0], null), True) if found is not None else None
        for branch, each in sorted(others, key=lambda pair: not _is_exact(pair[1], arrow)):
            with self.problems.trial() as trial:
                found = self._plain(each, arrow)
            if found is not None and not trial:
                return NullableWriter(found, branch, null), True
        text = ", ".join(union_key(each) for _, each in others)
        self.problems.add(f"a column of {arrow} can be written as none of {text[:200]}")
        return None

    def _members(
        self, others: list[tuple[int, AvroType]], arrow: pa.StructType, null: int | None
    ) -> tuple[ColumnWriter, bool] | None:
        members: list[tuple[str, int, ColumnWriter]] = []
        for column, (branch, each) in enumerate(others):
            name = arrow.field(column).name
            with self.problems.inside(name):
                found = self._plain(each, arrow.field(column).type)
            if found is None:
                return None
            members.append((name, branch, found))
        return IndexedWriter(MembersWriter(members, null), null), True


def _is_of_members(arrow: pa.DataType, count: int) -> bool:
    if not kinds.is_struct(arrow) or count < 2 or arrow.num_fields != count:
        return False
    return all(arrow.field(position).name == f"member{position}" for position in range(count))


def _is_exact(kind: AvroType, arrow: pa.DataType) -> bool:
    wanted = next((name for takes, name in _EXACT if takes(arrow)), None)
    return kind.kind == wanted and not logical_properties(kind)


def _scalar(kind: Primitive | Fixed, arrow: pa.DataType) -> ColumnWriter | None:
    properties: dict[str, Any] = logical_properties(kind)
    size = kind.size if isinstance(kind, Fixed) else None
    logical = properties.get("logicalType")
    if logical == "decimal" and properties["precision"] <= _MOST_DIGITS:
        if kinds.is_decimal(arrow) or kinds.is_integer(arrow):
            return DecimalWriter(properties["precision"], properties.get("scale", 0), size)
        return None
    if logical == "uuid" and kinds.is_string(arrow):
        return UuidTextWriter() if size is None else UuidFixedWriter()
    if logical in _LOGICAL and _LOGICAL[logical][0](arrow):
        return _LOGICAL[logical][1]()
    if size is not None:
        return FixedWriter(size) if kinds.is_binary(arrow) else None
    takes, make = _PRIMITIVES[kind.kind]
    return make() if takes(arrow) else None


def _described(kind: AvroType) -> str:
    logical = logical_properties(kind).get("logicalType")
    return f"{logical} on {kind.kind}" if logical else union_key(kind)
