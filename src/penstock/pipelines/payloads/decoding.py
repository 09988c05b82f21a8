"""A batch of keys or values to one column, by a format. For tasks: blocks for a schema that is seen for the first time.

A row that has no value of the format has null in `values` and the reason in `errors`. A registry out of reach is an
exception that fails the task, because the rows may be good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.pipelines.payloads.formats import PayloadFormat

# The headers that name the schema of keys and of values, where the bytes do not.
KEY_SCHEMA_HEADER = "__key_schema_id"
VALUE_SCHEMA_HEADER = "__value_schema_id"


@dataclass(frozen=True, slots=True)
class Decoded:
    """As many as there were payloads."""

    # Of the decoder's type. Null where there is an error, and where the payload is null.
    values: pa.Array
    # Text, null where the row has a value or the payload is null (a tombstone is no error).
    errors: pa.Array
    # The id or the guid of the schema that the row names, as text, null where it names none.
    schemas: pa.Array


class PayloadDecoder(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    def decode(self, payloads: pa.Array, headers: pa.Array | None = None) -> Decoded:
        """`payloads` are binary; `headers` as records have them, a list of structs of key and value."""
        ...


def open_decoder(format: PayloadFormat, *, is_key: bool, fields: frozenset[str] | None = None) -> PayloadDecoder:
    """`fields`: the top-level fields that are wanted. The type has only those, in the schema's order; None means all."""
    raise NotImplementedError
