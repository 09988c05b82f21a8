"""A reader's schema by column: fields that stay, are renamed by alias, widened, added with a default, or left out.

It holds for records whose fields resolve each for itself, and as a whole. Any other pair of schemas is resolved value
by value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.schemas.avro.logical import logical_properties
from penstock.schemas.avro.model import AvroType, Primitive, Record, Union
from penstock.schemas.avro.printing import print_schema
from penstock.serdes.columns.avro.making import column_of, is_nullable
from penstock.serdes.columns.avro.nested import struct_of
from penstock.serdes.columns.avro.resolving import PROMOTIONS, default_value, writer_field
from penstock.serdes.errors import PayloadError


class Resolution:
    def __init__(self, fields: list[pa.Field], sources: list[int | pa.Array]) -> None:
        self._fields = fields
        # The position of the writer's field, or an array that has the default.
        self._sources = sources

    @classmethod
    def of(cls, writer: AvroType, reader: AvroType) -> Resolution | None:
        """None if the schemas do not resolve by column."""
        if not isinstance(writer, Record) or not isinstance(reader, Record) or writer.name != reader.name:
            return None
        # A record within itself is text where it is met again: the columns of the whole records tell, not the fields'.
        read, wanted = column_of(writer).type, column_of(reader).type
        sources: list[int | pa.Array] = []
        for position, field in enumerate(reader.fields):
            written = writer_field(writer, field)
            if written is None:
                column = column_of(field.type)
                try:
                    value = column.of(default_value(field))
                except PayloadError:  # no default: the error belongs to each row
                    return None
                if column.type != wanted.field(position).type:
                    return None
                sources.append(pa.array([value], column.type))
                continue
            source = writer.fields.index(written)
            are_alike = read.field(source).type == wanted.field(position).type
            if not _is_by_column(written.type, field.type) or not (are_alike or _are_numbers(written.type, field.type)):
                return None
            sources.append(source)
        return cls(list(wanted), sources)

    def apply(self, values: pa.Array) -> pa.Array:
        count = len(values)
        columns = [
            _cast(values.field(source), field.type)
            if isinstance(source, int)
            else source.take(pa.array(np.zeros(count, dtype=np.int64)))
            for field, source in zip(self._fields, self._sources, strict=True)
        ]
        return struct_of(self._fields, columns, count)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    # Arrow refuses to cast records, also to their own type, when one is null and its fields may not be.
    return values if values.type == kind else values.cast(kind, safe=False)


def _plain(kind: AvroType) -> AvroType:
    """The other branch of a union with null."""
    if isinstance(kind, Union) and len(kind.branches) == 2 and is_nullable(kind):
        return next((each for each in kind.branches if each.kind != "null"), kind)
    return kind


def _is_by_column(writer: AvroType, reader: AvroType) -> bool:
    if print_schema(writer) == print_schema(reader):
        return True
    if is_nullable(writer) and not is_nullable(reader):
        return False
    written, wanted = _plain(writer), _plain(reader)
    if print_schema(written) == print_schema(wanted):
        return True
    return _are_numbers(writer, reader)


def _are_numbers(writer: AvroType, reader: AvroType) -> bool:
    written, wanted = _plain(writer), _plain(reader)
    return _is_number(written) and _is_number(wanted) and (written.kind, wanted.kind) in PROMOTIONS


def _is_number(kind: Any) -> bool:
    return isinstance(kind, Primitive) and kind.kind not in ("string", "bytes") and not logical_properties(kind)
