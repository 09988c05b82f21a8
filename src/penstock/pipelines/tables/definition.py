"""A table as text and back: it travels in an option of the data source, and is kept beside an insert that is under way.

JSON, and no pickle: options are text that any program may write. The registry's address and login are not in the text,
which plans and logs show; the reader of the text has them from elsewhere.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa

from penstock.client.registry import ReferencedSchema, RegisteredSchema
from penstock.pipelines.errors import TableError
from penstock.pipelines.payloads.formats import PayloadFormat, PayloadKind, ReaderSchema, RegistryAddress
from penstock.pipelines.tables.table import ColumnSource, Table, TableColumn

# Changes when older text would be read wrongly.
_VERSION = 1


def write_table(table: Table) -> str:
    # Arrow's own bytes, since Arrow has no other text that can be read back.
    types = pa.schema([(str(number), column.type) for number, column in enumerate(table.columns)])
    document = {
        "version": _VERSION,
        "name": table.name,
        "topic": table.topic,
        "partitions": table.partitions,
        "key": _write_format(table.key),
        "value": _write_format(table.value),
        "columns": [[column.name, column.source.name, column.field] for column in table.columns],
        "types": base64.b64encode(types.serialize().to_pybytes()).decode(),
        "note": table.note,
        "is_latest": table.is_latest,
    }
    return json.dumps(document, separators=(",", ":"))


def read_table(text: str, registry: RegistryAddress | None) -> Table:
    """TableError for what `write_table` has not written."""
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise TableError(f"the table was written down by another version of penstock ({document['version']})")
        types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(document["types"]))).types
        columns = tuple(
            TableColumn(name, kind, ColumnSource[source], field)
            for (name, source, field), kind in zip(document["columns"], types, strict=True)
        )
        return Table(
            name=document["name"],
            topic=document["topic"],
            partitions=document["partitions"],
            key=_read_format(document["key"], registry),
            value=_read_format(document["value"], registry),
            columns=columns,
            note=document["note"],
            is_latest=document["is_latest"],
        )
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise TableError(
            f"the option tableDefinition cannot be read: {error!r}", "Leave it out: the table is looked up then."
        ) from error


def _write_format(payload: PayloadFormat) -> dict[str, Any]:
    reader = payload.reader
    return {
        "kind": payload.kind.value,
        "subject": payload.subject,
        "message": payload.message,
        "columns": payload.columns,
        "reader": None if reader is None else _write_reader(reader),
    }


def _write_reader(reader: ReaderSchema) -> dict[str, Any]:
    schema = reader.schema
    return {
        **schema.schema.to_json(),
        "id": schema.id,
        "guid": schema.guid,
        "subject": schema.subject,
        "version": schema.version,
        "others": [[other.name, other.text, other.subject, other.version] for other in reader.others],
    }


def _read_format(document: Any, registry: RegistryAddress | None) -> PayloadFormat:
    kind, reader = PayloadKind(document["kind"]), document["reader"]
    return PayloadFormat(
        kind,
        registry=registry if kind is PayloadKind.REGISTRY else None,
        subject=document["subject"],
        reader=None if reader is None else _read_reader(reader),
        message=document["message"],
        columns=document["columns"],
    )


def _read_reader(document: Any) -> ReaderSchema:
    others = tuple(ReferencedSchema(*other) for other in document["others"])
    return ReaderSchema(RegisteredSchema.of_json(document), others)
