"""Rows to payloads of a registry's schema: the driver chooses the schema, tasks write with it and call no registry.

schema = register_schema(settings, SchemaRequest("orders-value"), frame.schema)    # driver
encoder = open_encoder(schema)                                                      # task
payloads = encoder.encode(rows)
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.payloads.sink_schemas import SchemaRequest, SinkSchema, register_schema
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.encoding.rows import ColumnEncoder, EncodedRows
from penstock.serdes.errors import ChoiceError, PayloadError
from penstock.serdes.framing import header_name, header_value, prefix

__all__ = ["Framing", "PayloadEncoder", "SchemaRequest", "SinkSchema", "open_encoder", "register_schema"]


class Framing(StrEnum):
    """The place of the schema's name in a record: in front of the payload, or in a header."""

    PREFIX = "prefix"
    HEADER = "header"


class PayloadEncoder:
    """Writes rows with one schema. Not for several threads at once."""

    def __init__(self, encoding: ColumnEncoder, before: bytes, header: tuple[str, bytes] | None) -> None:
        self._encoding = encoding
        self._before = pa.scalar(before, pa.binary())
        # Name and value, the same for all rows; None where payloads are framed by a prefix.
        self.header = header

    def encode(self, rows: pa.Array) -> pa.Array:
        """A binary array. A row that is null has a null payload.

        Raises PayloadError, which names the first row that does not fit and its field. Raises UnusableSchemaError where
        the columns are not those that the schema was chosen for.
        """
        encoded = self.encode_rows(rows)
        if encoded.errors:
            row, reason = next(iter(encoded.errors.items()))
            others = len(encoded.errors) - 1
            more = f" ({others} more rows of {len(rows)} do not fit either)" if others else ""
            raise PayloadError(f"row {row} does not fit the schema: {reason}{more}")
        return encoded.payloads

    def encode_rows(self, rows: pa.Array) -> EncodedRows:
        """As above, with an error for each row that does not fit, whose payload is null."""
        if not rows.null_count:
            return self._framed(self._encoding.encode(rows))
        is_there = rows.is_valid()
        which = np.flatnonzero(is_there.to_numpy(zero_copy_only=False))
        encoded = self._framed(self._encoding.encode(rows.filter(is_there)))
        payloads = pc.replace_with_mask(pa.nulls(len(rows), pa.binary()), is_there, encoded.payloads)
        return EncodedRows(payloads, {int(which[row]): text for row, text in encoded.errors.items()})

    def _framed(self, encoded: EncodedRows) -> EncodedRows:
        if not self._before.as_py():
            return encoded
        return EncodedRows(pc.binary_join_element_wise(self._before, encoded.payloads, b""), encoded.errors)


def open_encoder(schema: SinkSchema, framing: Framing = Framing.PREFIX, *, is_key: bool = False) -> PayloadEncoder:
    """Takes milliseconds: once a task. Raises SerdesError."""
    encoding = schema.encoding()
    indexes = _indexes(schema)
    if framing is Framing.PREFIX:
        return PayloadEncoder(encoding, prefix(schema.schema_id) + indexes, None)
    if schema.guid is None:
        raise ChoiceError("the registry gives no guid for this schema, so that it cannot be named in a header")
    return PayloadEncoder(encoding, b"", (header_name(is_key=is_key), header_value(schema.guid) + indexes))


def _indexes(schema: SinkSchema) -> bytes:
    """The message of its file that a Protobuf payload has."""
    if schema.schema_type is not SchemaType.PROTOBUF:
        return b""
    from penstock.schemas.protobuf.schema import ProtobufSchema
    from penstock.serdes.protobuf import ProtobufCodec

    parsed = schema.parsed()
    assert isinstance(parsed, ProtobufSchema)
    return ProtobufCodec(parsed).indexes(schema.message)
