"""The encoder of JSON payloads: all rows at once, and a validator for each row where types are not enough."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schemas.json_schema.schema import JsonSchema
from penstock.schemas.schema import InvalidSchemaError
from penstock.serdes.columns.encoding.json_schema.binder import Binder
from penstock.serdes.columns.encoding.rows import EncodedRows
from penstock.serdes.columns.encoding.writers import Bound, BoundRows
from penstock.serdes.errors import PayloadError, UnusableSchemaError
from penstock.serdes.json_schema import JsonSchemaCodec


class JsonEncoding:
    def __init__(self, schema: JsonSchema, others: Mapping[str, str] | None = None) -> None:
        """`others`: the texts that the schema refers to, by their names. Raises UnusableSchemaError."""
        self._root = schema.root
        try:
            self._codec = JsonSchemaCodec(schema, schema.canonical_text, others or {}, checks_read=True)
        except InvalidSchemaError as error:
            raise UnusableSchemaError(f"the schema cannot be used: {error}") from None
        self._rows = BoundRows(self._bind)
        self._needs_check = False

    def problems(self, kind: pa.DataType) -> list[str]:
        return self._rows.problems(kind)

    def encode(self, values: pa.Array) -> EncodedRows:
        encoded = self._rows.encode(values)
        return self._checked(encoded) if self._needs_check else encoded

    def _bind(self, kind: pa.DataType) -> Bound:
        binder = Binder()
        bound = binder.bind(self._root, kind)
        self._needs_check = binder.needs_check
        writer, takes_null = bound if bound is not None else (None, False)
        return Bound(writer, takes_null, binder.problems.found)

    def _checked(self, encoded: EncodedRows) -> EncodedRows:
        errors = dict(encoded.errors)
        is_good = np.ones(len(encoded.payloads), dtype=bool)
        for row, payload in enumerate(encoded.payloads.to_pylist()):
            if payload is None:
                continue
            try:
                self._codec.decode(payload, None)
            except PayloadError as error:
                errors[row] = str(error)
                is_good[row] = False
        if is_good.all():
            return encoded
        payloads = pc.if_else(pa.array(is_good), encoded.payloads, pa.scalar(None, pa.binary()))
        return EncodedRows(payloads, dict(sorted(errors.items())))
