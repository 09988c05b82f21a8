"""Records to rows of a table: decodes the wanted columns, and treats rows that do not decode by `bad_rows`.

A row counts as far as it is read: damage behind the last wanted field goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.errors import TableError
from penstock.pipelines.payloads.decoding import Decoded, PayloadDecoder, in_pieces, open_decoder
from penstock.pipelines.payloads.formats import PayloadFormat
from penstock.pipelines.tables.connection import BadRows
from penstock.pipelines.tables.table import ColumnSource, Table, TableColumn

# The columns of records that ours are made of.
_OF_RECORD = {ColumnSource.PARTITION: "partition", ColumnSource.OFFSET: "offset", ColumnSource.TIMESTAMP: "timestamp"}
_HINT = "bad_rows 'skip' leaves such rows out, and 'null' shows them without their columns"


class RowDecoding:
    """Decodes these columns, for one task. Calls `on_skipped` with the number of rows left out as undecodable."""

    def __init__(
        self,
        table: Table,
        columns: tuple[TableColumn, ...],
        bad_rows: BadRows,
        on_skipped: Callable[[int], None] | None = None,
    ) -> None:
        self._topic = table.topic
        self._bad_rows = bad_rows
        self._on_skipped = on_skipped
        self._columns = columns
        self._schema = pa.schema([pa.field(each.name, each.type) for each in columns])
        self._key = open_decoder(table.key, is_key=True) if _has(columns, ColumnSource.KEY) else None
        self._value = self._open_value(table.value)

    def _open_value(self, how: PayloadFormat) -> PayloadDecoder | None:
        if _has(self._columns, ColumnSource.VALUE):
            return open_decoder(how, is_key=False)
        fields = frozenset(each.field for each in self._columns if each.source is ColumnSource.FIELD)
        return open_decoder(how, is_key=False, fields=fields) if fields else None

    def decode(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """`rows` as the fetchers give them; in pieces where they are too large for one batch."""
        return in_pieces(rows.num_rows, lambda start, end: self._decode(rows.slice(start, end - start)))

    def _decode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        headers = rows.column("headers") if "headers" in rows.schema.names else None
        key = self._key.decode(rows.column("key"), headers) if self._key is not None else None
        value = self._value.decode(rows.column("value"), headers) if self._value is not None else None
        arrays = self._arrays(rows, key, value)
        made = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        is_bad = self._judge(rows, key, value)
        if is_bad is None or self._bad_rows == "null":
            return made
        kept = made.filter(pc.invert(is_bad))
        if self._on_skipped is not None:
            self._on_skipped(made.num_rows - kept.num_rows)
        return kept

    def _arrays(self, rows: pa.RecordBatch, key: Decoded | None, value: Decoded | None) -> list[pa.Array]:
        fields: dict[str, pa.Array] = {}
        if value is not None and pa.types.is_struct(value.values.type):
            names = [value.values.type.field(number).name for number in range(value.values.type.num_fields)]
            fields = dict(zip(names, value.values.flatten(), strict=True))

        def array(column: TableColumn) -> pa.Array:
            if column.source is ColumnSource.FIELD:
                return fields[column.field]
            if column.source is ColumnSource.VALUE:
                assert value is not None
                return value.values
            if column.source is ColumnSource.KEY:
                assert key is not None
                return key.values
            if column.source is ColumnSource.HEADERS:
                return rows.column("headers")
            return rows.column(_OF_RECORD[column.source])

        return [array(column) for column in self._columns]

    def _judge(self, rows: pa.RecordBatch, key: Decoded | None, value: Decoded | None) -> pa.Array | None:
        """Marks the rows that do not decode; None where all do. With `bad_rows` fail, raises TableError for the
        first.
        """
        is_bad: pa.Array | None = None
        for prefix, decoded in (("key: ", key), ("", value)):
            if decoded is None or decoded.errors.null_count == len(decoded.errors):
                continue
            is_valid = decoded.errors.is_valid()
            if self._bad_rows == "fail":
                row = pc.index(is_valid, True).as_py()
                place = f"partition {rows.column('partition')[row]}, offset {rows.column('offset')[row]}"
                raise TableError(f"topic {self._topic}, {place}: {prefix}{decoded.errors[row]}", _HINT)
            is_bad = is_valid if is_bad is None else pc.or_(is_bad, is_valid)
        return is_bad


def _has(columns: tuple[TableColumn, ...], source: ColumnSource) -> bool:
    return any(each.source is source for each in columns)
