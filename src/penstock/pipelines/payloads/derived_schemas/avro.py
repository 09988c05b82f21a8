"""An Avro record of columns.

A column that may be null is a union of null and its type, with null as the default: it can be added to a schema that
has data, and be dropped again. Records inside are named by the way to them, `Order_customer`, so that a name stays when
other columns come and go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipelines.payloads.derived_schemas.refusals import check_name, check_names, inside, no_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_FORMAT = "Avro"
_PLAIN: dict[str, Any] = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def derive_avro(columns: StructType, name: str, namespace: str) -> str:
    """Raises PipelineError."""
    check_name(name, namespace, _FORMAT)
    record = _Names().record(columns, name, "")
    if namespace:
        record = {"type": "record", "name": name, "namespace": namespace, "fields": record["fields"]}
    return json.dumps(record)


class _Names:
    """The names of records: each is there once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def record(self, columns: StructType, name: str, path: str) -> dict[str, Any]:
        check_names(columns.names, path, _FORMAT)
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        fields = []
        for each in columns.fields:
            kind = self._type(each.dataType, f"{name}_{each.name}", inside(path, each.name))
            if each.nullable:
                fields.append({"name": each.name, "type": ["null", kind], "default": None})
            else:
                fields.append({"name": each.name, "type": kind})
        return {"type": "record", "name": name, "fields": fields}

    def _type(self, kind: DataType, name: str, path: str) -> Any:
        from pyspark.sql.types import ArrayType, CharType, DecimalType, MapType, StringType, StructType, VarcharType

        match kind:
            case StructType():
                return self.record(kind, name, path)
            case ArrayType():
                item = self._type(kind.elementType, name, f"{path}[]")
                return {"type": "array", "items": ["null", item] if kind.containsNull else item}
            case MapType() if isinstance(kind.keyType, StringType):
                value = self._type(kind.valueType, name, f"{path}{{}}")
                return {"type": "map", "values": ["null", value] if kind.valueContainsNull else value}
            case DecimalType():
                return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
            case StringType() | CharType() | VarcharType():
                return "string"
        found = _PLAIN.get(kind.simpleString())
        if found is None and kind.simpleString().startswith("time("):
            found = {"type": "long", "logicalType": "time-micros"}
        if found is None:
            raise no_type(path, kind.simpleString(), _FORMAT)
        return found
