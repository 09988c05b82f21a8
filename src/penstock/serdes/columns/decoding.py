"""One batch of payloads, of any mix of schemas, to one column and the errors of the rows that have no value.

    decoders = {7: AvroColumns(old, reader=new), 9: AvroColumns(new)}
    columns = decode_batch(values, decoders, decoders[9].type)

Rows are grouped by schema, each group is decoded as a whole, and the order is restored. A row has null in `values` and
the reason in `errors` if it is null, has no frame, names an unknown schema or does not decode. It does not touch the
other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.payloads import Framed, Numbers, Payloads, SchemaKey, read_frames


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """As many values as there were payloads. Rows with an error are null."""

    values: pa.Array
    errors: dict[int, str] = field(default_factory=dict)


class ColumnDecoder(Protocol):
    """The decoder of one writer's schema. It does not change, and no payload makes it raise."""

    @property
    def type(self) -> pa.DataType: ...

    def decode(self, payloads: Payloads) -> DecodedRows: ...


@dataclass(frozen=True, slots=True)
class Columns:
    # A struct for records and messages; `values.flatten()` has its fields as columns.
    values: pa.Array
    # Text, null where the row has a value.
    errors: pa.Array
    # The id or the guid of the schema that the row names, as text; null where it names none.
    schemas: pa.Array


def decode_batch(
    values: pa.Array,
    decoders: Mapping[SchemaKey, ColumnDecoder],
    target: pa.DataType,
    headers: pa.Array | None = None,
) -> Columns:
    """`values` are binary. All decoders give the type `target`: those of Avro do when they have one reader's schema.

    `headers` has the header that names the schema, null for rows without it. Raises ValueError for a decoder of another
    type, whether or not a row needs it.
    """
    for key, decoder in decoders.items():
        if decoder.type != target:
            raise ValueError(f"the decoder of schema {key} gives {decoder.type}, not {target}")
    return decode_framed(
        read_frames(values, headers), lambda key: decoders.get(key, f"schema {key} is not known"), target
    )


def decode_framed(framed: Framed, find: Callable[[SchemaKey], ColumnDecoder | str], target: pa.DataType) -> Columns:
    """`find` returns the decoder of a schema, which gives the type `target`, or the reason why there is none. It is
    called first for the schemas of most rows.
    """
    count = len(framed.payloads)
    errors = dict(framed.errors)
    parts: list[pa.Array] = []
    rows: list[Numbers] = []
    for key, which in sorted(framed.groups.items(), key=lambda group: -len(group[1])):
        found = find(key)
        if isinstance(found, str):
            errors.update(dict.fromkeys(which.tolist(), found))
            continue
        decoded = found.decode(framed.payloads if len(which) == count else framed.payloads.rows(which))
        parts.append(decoded.values)
        rows.append(which)
        errors.update({int(which[row]): f"schema {key}: {text}" for row, text in decoded.errors.items()})
    return Columns(_restored(parts, rows, count, target), _errors(errors, count), schema_names(framed.groups, count))


def _restored(parts: list[pa.Array], rows: list[Numbers], count: int, target: pa.DataType) -> pa.Array:
    if len(parts) == 1 and len(parts[0]) == count:
        return parts[0]
    if not parts:
        return pa.nulls(count, target)
    return scattered(pa.concat_arrays(parts), np.concatenate(rows), count)


def schema_names(groups: Mapping[SchemaKey, Numbers], count: int) -> pa.Array:
    """For each row the name of its schema."""
    if len(groups) == 1:
        ((key, which),) = groups.items()
        if len(which) == count:
            return pa.repeat(pa.scalar(str(key)), count)
    codes = np.full(count, -1)
    for code, which in enumerate(groups.values()):
        codes[which] = code
    return pa.array([str(key) for key in groups], pa.string()).take(pa.array(codes, mask=codes < 0))


def scattered(values: pa.Array, rows: Numbers, count: int) -> pa.Array:
    """An array of `count` rows with the values at their rows, and null elsewhere."""
    if not len(values):
        return pa.nulls(count, values.type)
    source = np.zeros(count, dtype=np.int64)
    source[rows] = np.arange(len(rows))
    is_missing = np.ones(count, dtype=bool)
    is_missing[rows] = False
    return values.take(pa.array(source, mask=is_missing))


def _errors(errors: dict[int, str], count: int) -> pa.Array:
    if not errors:
        return pa.nulls(count, pa.string())
    texts = pa.array(list(errors.values()), pa.string())
    return scattered(texts, np.fromiter(errors, dtype=np.int64, count=len(errors)), count)
