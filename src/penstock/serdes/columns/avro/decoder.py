"""The decoder of Avro payloads: all rows in lockstep, then one by one those that failed.

The second reader knows why a payload does not fit, takes what lockstep does not (records that contain themselves, a few
very long lists, readers' schemas that do not resolve by column), and has limits of its own, so
a hostile batch costs no more than reading it record by record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.schemas.avro.schema import AvroSchema
from penstock.serdes.avro.codec import AvroCodec
from penstock.serdes.columns.avro.column_types import column_of
from penstock.serdes.columns.avro.nested_columns import RecordColumn
from penstock.serdes.columns.avro.projection import MOST_COPIED_BYTES, Resolution, copied_bytes
from penstock.serdes.columns.avro.resolution import resolved
from penstock.serdes.columns.avro.row_cursors import RowCursors
from penstock.serdes.columns.decoding import DecodedRows
from penstock.serdes.columns.payloads import Numbers, Payloads
from penstock.serdes.errors import PayloadError, TooManyRowsError

# Rows that are read at once: their positions stay in the processor's cache.
_ROWS = 1 << 14


class AvroColumns:
    """The decoder of one writer's schema, with the columns of a reader's schema if there is one.

    `fields`: the outermost fields that are wanted, None for all. The others are not decoded. The decoder stops behind
    the last wanted field, so damage after it goes unnoticed; with no fields it takes any payload.
    """

    def __init__(
        self, writer: AvroSchema, reader: AvroSchema | None = None, fields: frozenset[str] | None = None
    ) -> None:
        """Raises UnusableSchemaError."""
        self._writer, self._reader = writer.root, reader.root if reader is not None else None
        self._fields = fields
        self._codec = AvroCodec(writer, is_lenient=False)
        self._resolution = Resolution.of(writer.root, reader.root, fields) if reader is not None else None
        read = self._resolution.writer_fields if self._resolution is not None else fields
        self._column = column_of(writer.root, read)
        self._single = column_of(reader.root, fields) if reader is not None else self._column
        self.type: pa.DataType = self._single.type
        self._is_whole = not isinstance(self._column, RecordColumn) or self._column.is_whole
        self._copied_bytes = copied_bytes(writer.root, reader.root, fields) if reader is not None else 0

    def decode(self, payloads: Payloads) -> DecodedRows:
        """Raises TooManyRowsError where defaults of the reader's schema are so large that a batch must have fewer
        rows.
        """
        if len(payloads) > 1 and len(payloads) * self._copied_bytes > MOST_COPIED_BYTES:
            raise TooManyRowsError(f"the defaults of {len(payloads)} rows take more than {MOST_COPIED_BYTES} bytes")
        if len(payloads) <= _ROWS:
            return self._decode(payloads)
        parts: list[pa.Array] = []
        errors: dict[int, str] = {}
        for begin in range(0, len(payloads), _ROWS):
            decoded = self._decode(payloads.rows(np.arange(begin, min(begin + _ROWS, len(payloads)))))
            parts.append(decoded.values)
            errors.update({begin + row: text for row, text in decoded.errors.items()})
        return DecodedRows(pa.concat_arrays(parts), errors)

    def _decode(self, payloads: Payloads) -> DecodedRows:
        if self._reader is not None and self._resolution is None:
            return self._read_singly(payloads, pa.nulls(len(payloads), self.type), np.arange(len(payloads)))
        cursors = RowCursors.of(payloads)
        values = self._column.read(cursors)
        if self._is_whole:
            cursors.fail(cursors.position != cursors.end)
        if self._resolution is not None:
            try:
                values = self._resolution.apply(values)
            except TooManyRowsError as error:
                if len(payloads) > 1:
                    raise
                return DecodedRows(pa.nulls(1, self.type), {0: str(error)})
        failed = np.flatnonzero(cursors.failed)
        if not len(failed):
            return DecodedRows(values)
        return self._read_singly(payloads, values, failed)

    def _read_singly(self, payloads: Payloads, values: pa.Array, failed: Numbers) -> DecodedRows:
        found: list[pa.Array] = [values]
        source = np.arange(len(payloads))
        is_missing = np.zeros(len(payloads), dtype=bool)
        errors: dict[int, str] = {}
        read: list[Any] = []
        for row in failed.tolist():
            try:
                read.append(self._single.of(self._value(payloads.row(row))))
                source[row] = len(payloads) + len(read) - 1
            except PayloadError as error:
                errors[row] = str(error)
                is_missing[row] = True
        found.append(pa.array(read, self.type))
        return DecodedRows(pa.concat_arrays(found).take(pa.array(source, mask=is_missing)), errors)

    def _value(self, payload: bytes) -> Any:
        value = self._codec.decode(payload, None)
        if self._reader is None:
            return value
        try:
            return resolved(self._writer, self._reader, value, self._fields)
        except RecursionError:
            raise PayloadError("the value nests too deep") from None
