"""The decoder of Protobuf payloads: all rows in lockstep, then one by one those that failed, by protobuf's runtime.

A column has the first message of a file, or the message that the caller names. A row with another message is an error.
The runtime knows why a payload does not parse, takes what lockstep does not (fields in another order or twice, groups,
messages that contain themselves), and has limits of its own, so a hostile batch costs no more than reading it row by
row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.serdes.columns.avro.row_cursors import RowCursors
from penstock.serdes.columns.decoding import DecodedRows, scattered
from penstock.serdes.columns.payloads import Numbers, Payloads
from penstock.serdes.columns.protobuf.evolution import check_readable, has_clash
from penstock.serdes.columns.protobuf.framing import Indexes
from penstock.serdes.columns.protobuf.message_kinds import message_kind
from penstock.serdes.columns.protobuf.projection import projected
from penstock.serdes.columns.protobuf.wire import TooManyValuesError
from penstock.serdes.errors import PayloadError
from penstock.serdes.protobuf import ProtobufCodec

# Rows that are read at once: their positions stay in the processor's cache. And their bytes, because a value takes two
# bytes at least, and some hundred while it is read.
_ROWS = 1 << 14
_BYTES = 1 << 22
_NO_NUMBERS = np.zeros(0, dtype=np.uint64)


class ProtobufColumns:
    """The decoder of one writer's file, with the columns of a message of the reader's file if there is one.

    `fields`: only these fields of the message are columns; the bytes of other fields are skipped.
    """

    def __init__(
        self,
        writer: ProtobufSchema,
        message: str | None = None,
        reader: ProtobufSchema | None = None,
        fields: frozenset[str] | None = None,
        *,
        is_quick: bool = True,
    ) -> None:
        """`message` is one of the reader's file, if there is one. `is_quick`: in lockstep first.

        Raises UnusableSchemaError, ChoiceError.
        """
        codec = ProtobufCodec(writer)
        wanted = ProtobufCodec(reader).descriptor(message) if reader is not None else codec.descriptor(message)
        self._name = str(wanted.full_name)
        self._indexes = Indexes(codec, self._name)
        written = codec.find(self._name) if reader is not None else None
        kind = wanted if fields is None else projected(wanted, fields)
        self._kind = message_kind(kind, written, fields, self._name)
        self._message = message_factory.GetMessageClass(kind)
        # The message to check first, because it has fields that are of another type in the reader's message.
        self._clashing: Descriptor | None = written if written is not None and has_clash(written, kind) else None
        self._is_quick = is_quick
        self.type: pa.DataType = self._kind.type

    def decode(self, payloads: Payloads) -> DecodedRows:
        errors: dict[int, str] = {}
        rows, bare = self._indexes.cut(payloads, errors)
        parts: list[pa.Array] = []
        for begin, end in _chunks(bare):
            part = Payloads(bare.data, bare.starts[begin:end], bare.ends[begin:end])
            parts.append(self._decode(part, rows[begin:end], errors))
        if not parts:
            return DecodedRows(pa.nulls(len(payloads), self.type), errors)
        values = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
        if len(rows) == len(payloads):
            return DecodedRows(values, errors)
        return DecodedRows(scattered(values, rows, len(payloads)), errors)

    def _decode(self, payloads: Payloads, rows: Numbers, errors: dict[int, str]) -> pa.Array:
        if not self._is_quick:
            return self._read_singly(payloads, None, np.arange(len(payloads)), rows, errors)
        cursors = RowCursors.of(payloads)
        try:
            values = self._kind.make(cursors, _NO_NUMBERS)
        except TooManyValuesError:
            return self._read_fewer(payloads, rows, errors)
        if not cursors.failed.any():
            return values
        return self._read_singly(payloads, values, np.flatnonzero(cursors.failed), rows, errors)

    def _read_fewer(self, payloads: Payloads, rows: Numbers, errors: dict[int, str]) -> pa.Array:
        half = len(payloads) // 2
        if not half:
            return self._read_singly(payloads, None, np.arange(1), rows, errors)
        first, second = payloads.rows(np.arange(half)), payloads.rows(np.arange(half, len(payloads)))
        return pa.concat_arrays([self._decode(first, rows[:half], errors), self._decode(second, rows[half:], errors)])

    def _read_singly(
        self, payloads: Payloads, values: pa.Array | None, failed: Numbers, rows: Numbers, errors: dict[int, str]
    ) -> pa.Array:
        """`rows` has the names of the rows in `errors`."""
        before = len(values) if values is not None else 0
        source = np.arange(len(payloads))
        is_missing = np.zeros(len(payloads), dtype=bool)
        read: list[Any] = []
        for row in failed.tolist():
            try:
                read.append(self._kind.of(self._parsed(payloads.row(row))))
                source[row] = before + len(read) - 1
            except PayloadError as error:
                errors[int(rows[row])] = str(error)[:300]
                is_missing[row] = True
        found = pa.array(read, self.type)
        if values is None and not is_missing.any():
            return found
        both = found if values is None else pa.concat_arrays([values, found])
        return both.take(pa.array(source, mask=is_missing)) if len(both) else pa.nulls(len(payloads), self.type)

    def _parsed(self, payload: bytes) -> Message:
        try:
            if self._clashing is not None:
                check_readable(
                    message_factory.GetMessageClass(self._clashing).FromString(payload), self._message.DESCRIPTOR
                )
            return self._message.FromString(payload)
        except DecodeError as error:
            reason = str(error).partition(": ")[2] or error
            raise PayloadError(f"the payload is not one of {self._name}: {reason}") from None


def _chunks(payloads: Payloads) -> list[tuple[int, int]]:
    """Ranges of rows, none with too many rows or too many bytes; one row at least."""
    chunks = []
    total = np.cumsum(payloads.ends - payloads.starts)
    begin = 0
    while begin < len(payloads):
        before = int(total[begin - 1]) if begin else 0
        end = int(np.searchsorted(total, before + _BYTES, side="right"))
        end = max(begin + 1, min(begin + _ROWS, end))
        chunks.append((begin, end))
        begin = end
    return chunks
