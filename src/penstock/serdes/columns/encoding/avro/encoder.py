"""The encoder of Avro payloads: all rows at once, column by column."""

from __future__ import annotations

import pyarrow as pa

from penstock.schemas.avro.schema import AvroSchema
from penstock.serdes.columns.encoding.avro.binder import Binder
from penstock.serdes.columns.encoding.rows import EncodedRows
from penstock.serdes.columns.encoding.writers import Bound, BoundRows


class AvroEncoding:
    def __init__(self, schema: AvroSchema) -> None:
        self._root = schema.root
        self._rows = BoundRows(self._bind)

    def problems(self, kind: pa.DataType) -> list[str]:
        return self._rows.problems(kind)

    def encode(self, values: pa.Array) -> EncodedRows:
        return self._rows.encode(values)

    def _bind(self, kind: pa.DataType) -> Bound:
        binder = Binder()
        bound = binder.bind(self._root, kind)
        writer, takes_null = bound if bound is not None else (None, False)
        return Bound(writer, takes_null, binder.problems.found)
