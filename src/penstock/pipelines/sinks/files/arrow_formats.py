"""Arrow rows as Parquet, ORC, CSV, JSON or Avro files, as Spark's own readers take them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

EXTENSIONS: Mapping[str, str] = {
    "parquet": ".parquet",
    "orc": ".orc",
    "csv": ".csv",
    "json": ".json",
    "avro": ".avro",
}
REWRITABLE = ("parquet", "orc")
# Spark hands over 10,000 rows at a time; a row group of so few costs readers more than it saves.
ROWS_PER_GROUP = 200_000


class RowFile(Protocol):
    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> None: ...


def open_writer(file_system: fs.FileSystem, path: str, kind: str, schema: pa.Schema) -> RowFile:
    return _OPENERS[kind](file_system.open_output_stream(path), schema)


class _Grouped:
    """Parquet, ORC and CSV, by Arrow's own writers."""

    def __init__(self, stream: Any, write: Callable[[pa.Table], None], close: Callable[[], None]) -> None:
        self._stream = stream
        self._write = write
        self._close = close
        self._waiting: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        if sum(table.num_rows for table in self._waiting) >= ROWS_PER_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._close()
        self._stream.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._write(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting = []


class _JsonLines:
    """Null fields are left out, as Spark leaves them out."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        self._stream = stream

    def write(self, rows: pa.Table) -> None:
        lines = (json.dumps(json_value(row), ensure_ascii=False) + "\n" for row in rows.to_pylist())
        self._stream.write("".join(lines).encode())

    def close(self) -> None:
        self._stream.close()


class _AvroRows:
    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        from fastavro.write import Writer

        self._stream = stream
        self._writer = Writer(stream, avro_schema(schema), codec="deflate")

    def write(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            self._writer.write(row)

    def close(self) -> None:
        self._writer.flush()
        self._stream.close()


def _parquet(stream: Any, schema: pa.Schema) -> RowFile:
    from pyarrow import parquet

    writer = parquet.ParquetWriter(stream, schema, compression="snappy")
    return _Grouped(stream, writer.write_table, writer.close)


def _orc(stream: Any, schema: pa.Schema) -> RowFile:
    from pyarrow import orc

    writer = orc.ORCWriter(stream, compression="zstd")
    return _Grouped(stream, writer.write, writer.close)


def _csv(stream: Any, schema: pa.Schema) -> RowFile:
    from pyarrow import csv

    writer = csv.CSVWriter(stream, schema)
    return _Grouped(stream, writer.write_table, writer.close)


_OPENERS: Mapping[str, Callable[[Any, Any], RowFile]] = {
    "parquet": _parquet,
    "orc": _orc,
    "csv": _csv,
    "json": _JsonLines,
    "avro": _AvroRows,
}


def rewrite_files(file_system: fs.FileSystem, kind: str, old: Sequence[str], new: Sequence[str]) -> None:
    """All rows of the old files, in their order, in about equal parts."""
    import pyarrow as pa
    from pyarrow import orc, parquet

    tables = []
    for path in old:
        with file_system.open_input_file(path) as source:
            tables.append(parquet.read_table(source) if kind == "parquet" else orc.ORCFile(source).read())
    rows = pa.concat_tables(tables, promote_options="default")
    each = -(-rows.num_rows // len(new)) or 1
    for number, path in enumerate(new):
        writer = open_writer(file_system, path, kind, rows.schema)
        writer.write(rows.slice(number * each, each))
        writer.close()


def json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: json_value(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        # A map comes as pairs.
        if value and all(isinstance(item, tuple) for item in value):
            return {str(name): json_value(inner) for name, inner in value}
        return [json_value(item) for item in value]
    for kind, convert in _JSON_VALUES:
        if isinstance(value, kind):
            return convert(value)
    return value


_JSON_VALUES: Sequence[tuple[type, Callable[[Any], Any]]] = (
    (bytes, lambda value: base64.b64encode(value).decode()),
    (datetime.datetime, lambda value: value.isoformat().replace("+00:00", "Z")),
    (datetime.date, lambda value: value.isoformat()),
    (decimal.Decimal, float),
)


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Every field may be null, as Spark's own Avro writer has it for columns that may be."""
    fields = [
        {"name": field.name, "type": ["null", _avro_type(field.type, field.name)], "default": None} for field in schema
    ]
    return {"type": "record", "name": "topLevelRecord", "fields": fields}


def _avro_type(kind: pa.DataType, name: str) -> Any:
    import pyarrow as pa

    types = pa.types
    if types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, f"{name}_item")]}
    if types.is_struct(kind):
        inner = [
            {"name": field.name, "type": ["null", _avro_type(field.type, f"{name}_{field.name}")]} for field in kind
        ]
        return {"type": "record", "name": name, "fields": inner}
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    simple_type = _AVRO_TYPES.get(str(kind))
    if simple_type is None:
        raise PipelineError(f"the column {name} is {kind}, which an Avro file in S3 cannot hold")
    return simple_type


_AVRO_TYPES: Mapping[str, Any] = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date32[day]": {"type": "int", "logicalType": "date"},
}
