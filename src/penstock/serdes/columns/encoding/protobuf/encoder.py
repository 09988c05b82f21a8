"""The encoder of Protobuf payloads: all rows at once, field by field."""

from __future__ import annotations

import pyarrow as pa

from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.serdes.columns.encoding.protobuf.binder import Binder
from penstock.serdes.columns.encoding.rows import EncodedRows
from penstock.serdes.columns.encoding.writers import Bound, BoundRows
from penstock.serdes.protobuf import ProtobufCodec


class ProtobufEncoding:
    """The encoder of one message of a file: the first, or the named one. Payloads come without message indexes."""

    def __init__(self, schema: ProtobufSchema, message: str | None = None) -> None:
        """Raises UnusableSchemaError, ChoiceError."""
        name = ProtobufCodec(schema).record_name(message)
        self._descriptor = schema.described()[0].FindMessageTypeByName(name)
        self._rows = BoundRows(self._bind)

    def problems(self, kind: pa.DataType) -> list[str]:
        return self._rows.problems(kind)

    def encode(self, values: pa.Array) -> EncodedRows:
        return self._rows.encode(values)

    def _bind(self, kind: pa.DataType) -> Bound:
        binder = Binder()
        return Bound(binder.message(self._descriptor, kind), False, binder.problems.found)
