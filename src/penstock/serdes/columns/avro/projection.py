"""A reader's schema by column: fields that stay, are renamed by alias, widened, added with a default, or left out.

It holds for records, and for records in records, lists, maps and unions with null, as long as each value of the writer
becomes one of the reader. Any other pair of schemas is resolved value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schemas.avro.logical import logical_properties
from penstock.schemas.avro.model import Array, AvroType, Enum, Field, Fixed, Map, Primitive, Record, Union
from penstock.schemas.avro.printer import print_schema
from penstock.serdes.columns.avro.column_types import column_of, is_nullable
from penstock.serdes.columns.avro.nested_columns import struct_of
from penstock.serdes.columns.avro.resolution import PROMOTIONS, default_value, is_same_name, writer_field
from penstock.serdes.errors import PayloadError, TooManyRowsError

# Defaults are copied for each row, and those of records in lists for each item, so the size of payloads does not bound
# the size of the copies.
MOST_COPIED_BYTES = 16 << 20
# Turns a column of the writer into one of the reader.
Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Resolution:
    # The outermost fields of the writer that must be read.
    writer_fields: frozenset[str]
    # Turns a struct of these fields into the reader's. Raises TooManyRowsError.
    apply: Convert

    @classmethod
    def of(cls, writer: AvroType, reader: AvroType, wanted: frozenset[str] | None = None) -> Resolution | None:
        """`wanted` are fields of the reader. None if the schemas do not resolve by column."""
        if not isinstance(writer, Record) or not isinstance(reader, Record) or not is_same_name(writer, reader):
            return None
        fields = [each for each in reader.fields if wanted is None or each.name in wanted]
        sources = {found.name for each in fields if (found := writer_field(writer, each)) is not None}
        read = frozenset(sources)
        # A record within itself is text at its second occurrence, which the types of the whole records show, not the
        # fields'.
        apply = _record(writer, fields, column_of(writer, read).type, column_of(reader, wanted).type)
        return None if apply is None else cls(read, apply)


def copied_bytes(writer: AvroType, reader: AvroType, wanted: frozenset[str] | None = None) -> int:
    """About how many bytes the defaults of the outermost fields add to each row."""
    if not isinstance(writer, Record) or not isinstance(reader, Record):
        return 0
    fields = [each for each in reader.fields if wanted is None or each.name in wanted]
    return sum(len(repr(each.default)) for each in fields if writer_field(writer, each) is None)


def _conversion(writer: AvroType, reader: AvroType, written: pa.DataType, wanted: pa.DataType) -> Convert | None:
    if written == wanted and print_schema(writer) == print_schema(reader):
        return _same
    if is_nullable(writer) and not is_nullable(reader):
        return None
    match _plain(writer), _plain(reader):
        case (Record() as old, Record() as new) if pa.types.is_struct(written) and pa.types.is_struct(wanted):
            return _record(old, new.fields, written, wanted) if is_same_name(old, new) else None
        case Array() as old, Array() as new:
            inner = _conversion(old.items, new.items, written.value_type, wanted.value_type)
            return None if inner is None else _list(inner, wanted)
        case Map() as old, Map() as new:
            inner = _conversion(old.values, new.values, written.item_type, wanted.item_type)
            return None if inner is None else _map(inner, wanted)
        case Enum() as old, Enum() as new if is_same_name(old, new):
            return _enum(old, new)
        case Fixed() as old, Fixed() as new if is_same_name(old, new) and old.size == new.size:
            return _same if written == wanted else None
        case Primitive() as old, Primitive() as new:
            return _primitive(old, new, written, wanted)
    return None


def _same(values: pa.Array) -> pa.Array:
    return values


def _plain(kind: AvroType) -> AvroType:
    """The other branch of a union with null."""
    if isinstance(kind, Union) and len(kind.branches) == 2 and is_nullable(kind):
        return next((each for each in kind.branches if each.kind != "null"), kind)
    return kind


def _record(writer: Record, fields: list[Field], written: pa.DataType, wanted: pa.DataType) -> Convert | None:
    """`written` and `wanted` are structs. `wanted` has the fields, in their order; `written` has all that they need."""
    steps: list[tuple[int, Convert] | pa.Array] = []
    for field, kind in zip(fields, (each.type for each in wanted), strict=True):
        found = writer_field(writer, field)
        if found is None:
            default = _default(field, kind)
            if default is None:
                return None
            steps.append(default)
            continue
        source = written.get_field_index(found.name)
        convert = _conversion(found.type, field.type, written.field(source).type, kind)
        if convert is None:
            return None
        steps.append((source, convert))

    copied = sum(step.nbytes for step in steps if not isinstance(step, tuple))

    def apply(values: pa.Array) -> pa.Array:
        count = len(values)
        if count * copied > MOST_COPIED_BYTES and count > 1:
            raise TooManyRowsError(f"the defaults of {count} records take more than {MOST_COPIED_BYTES} bytes")
        columns = [
            step[1](values.field(step[0]))
            if isinstance(step, tuple)
            else step.take(pa.array(np.zeros(count, np.int64)))
            for step in steps
        ]
        is_null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return struct_of(list(wanted), columns, count, is_null)

    return apply


def _default(field: Field, wanted: pa.DataType) -> pa.Array | None:
    """One value, or None where there is none: the error belongs to each row."""
    column = column_of(field.type)
    if column.type != wanted:
        return None
    try:
        return pa.array([column.of(default_value(field))], column.type)
    except PayloadError:
        return None


def _list(inner: Convert, wanted: pa.DataType) -> Convert:
    def apply(values: pa.Array) -> pa.Array:
        buffers = values.buffers()[:2]
        return pa.Array.from_buffers(
            wanted, len(values), buffers, offset=values.offset, children=[inner(values.values)]
        )

    return apply


def _map(inner: Convert, wanted: pa.DataType) -> Convert:
    def apply(values: pa.Array) -> pa.Array:
        fields = [wanted.key_field, wanted.item_field]
        entries = pa.StructArray.from_arrays([values.keys, inner(values.items)], fields=fields)
        return pa.Array.from_buffers(
            wanted, len(values), values.buffers()[:2], offset=values.offset, children=[entries]
        )

    return apply


def _enum(writer: Enum, reader: Enum) -> Convert | None:
    if set(writer.symbols) <= set(reader.symbols):
        return _same
    if reader.default is None:
        return None
    known, default = pa.array(reader.symbols, pa.string()), pa.scalar(reader.default, pa.string())
    return lambda values: pc.if_else(pc.or_(pc.is_in(values, known), values.is_null()), values, default)


def _primitive(writer: Primitive, reader: Primitive, written: pa.DataType, wanted: pa.DataType) -> Convert | None:
    if writer.kind == reader.kind:
        if written == wanted:
            return _same
        # A logical type was added, removed or changed. Times of a day and decimals are checked value by value.
        is_plain = all(
            pa.types.is_integer(each) or pa.types.is_date(each) or pa.types.is_timestamp(each)
            for each in (written, wanted)
        )
        return (lambda values: values.view(wanted)) if is_plain else None
    is_logical = bool(logical_properties(writer) or logical_properties(reader))
    if is_logical or (writer.kind, reader.kind) not in PROMOTIONS or reader.kind == "string":
        return None
    return lambda values: values.cast(wanted, safe=False)
