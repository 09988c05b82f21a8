"""From payloads of JSON to the columns of their schema.

| JSON schema | Arrow |
|---|---|
| boolean, integer, number, string | bool, int64, float64, string |
| object with `properties` | struct; other properties of values are left away |
| object with a schema for all properties | map with keys of string |
| array with one schema for its items | list |
| null and one of the above, as a list of types or of branches | the same |
| anything else, and what contains itself | string: the JSON text of the value |

All of it is nullable: a missing property is null. Values are not checked by the schema, as other readers of such
payloads do not check them; a value that does not fit its column is an error of its row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from penstock.schemas.json_schema.model import SchemaNode
from penstock.schemas.json_schema.schema import JsonSchema
from penstock.schemas.limits import bounded
from penstock.schemas.schema import InvalidSchemaError
from penstock.serdes.columns.decoding import DecodedRows
from penstock.serdes.columns.json_objects import ObjectColumn, ObjectRows, Take, ValueRows
from penstock.serdes.columns.payloads import Payloads
from penstock.serdes.errors import PayloadError, UnusableSchemaError

_MOST_COLUMNS = 10_000
_MOST_DEPTH = 64
# Keywords that mean more than one column can hold.
_ENTANGLED = ("allOf", "if", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef", "prefixItems")


class _Made(NamedTuple):
    type: pa.DataType
    take: Take
    # The fields of an object with properties.
    columns: list[ObjectColumn] | None = None
    # The JSON text of any value.
    is_text: bool = False


def _mismatch(expected: str, value: Any) -> PayloadError:
    return PayloadError(f"expected {expected}, not {type(value).__name__}")


def _boolean(value: Any) -> Any:
    if value is not True and value is not False:
        raise _mismatch("true or false", value)
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _mismatch("a whole number", value)
    if not -(1 << 63) <= value < 1 << 63:
        raise PayloadError("a number has more than 64 bits")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise PayloadError("a number has more than 64 bits") from None


def _string(value: Any) -> Any:
    if not isinstance(value, str):
        raise _mismatch("text", value)
    return value


def _text(value: Any) -> Any:
    return msgspec.json.encode(value).decode()


_SCALARS: dict[str, _Made] = {
    "boolean": _Made(pa.bool_(), _boolean),
    "integer": _Made(pa.int64(), _integer),
    "number": _Made(pa.float64(), _number),
    "string": _Made(pa.string(), _string),
}
_JSON_TEXT = _Made(pa.string(), _text, is_text=True)


def _optional(take: Take) -> Take:
    return lambda value: None if value is None else take(value)


class _Maker:
    def __init__(self) -> None:
        self._made = 0
        self._around: list[SchemaNode] = []

    def column(self, node: SchemaNode) -> _Made:
        self._made += 1
        if self._made > _MOST_COLUMNS:
            raise UnusableSchemaError(f"the schema has more than {_MOST_COLUMNS} columns")
        if node in self._around or len(self._around) >= _MOST_DEPTH:
            return _JSON_TEXT
        self._around.append(node)
        try:
            return self._column(node)
        finally:
            self._around.pop()

    def _column(self, node: SchemaNode) -> _Made:
        schema = node.schema
        if not isinstance(schema, dict) or any(each in schema for each in _ENTANGLED):
            return _JSON_TEXT
        for keyword in ("oneOf", "anyOf"):
            if keyword in schema:
                return self._choice(node, schema)
        kinds = schema.get("type", "object" if "properties" in schema else None)
        kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        match kinds:
            case ["object"]:
                return self._object(node, schema)
            case ["array"] if isinstance(schema.get("items"), dict):
                return self._array(self.column(node.inner(schema["items"])))
            case [str(kind)] if kind in _SCALARS:
                return _SCALARS[kind]
        return _JSON_TEXT

    def _choice(self, node: SchemaNode, schema: dict[str, Any]) -> _Made:
        """Null and one other schema."""
        if "type" in schema or "properties" in schema or ("oneOf" in schema and "anyOf" in schema):
            return _JSON_TEXT
        branches = [node.inner(each) for each in schema.get("oneOf") or schema.get("anyOf") or ()]
        others = [
            each for each in branches if not (isinstance(each.schema, dict) and each.schema.get("type") == "null")
        ]
        return self.column(others[0]) if len(others) == 1 else _JSON_TEXT

    def _object(self, node: SchemaNode, schema: dict[str, Any]) -> _Made:
        properties, further = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            return self._struct({name: self.column(node.inner(each)) for name, each in properties.items()})
        if isinstance(further, dict):
            return self._map(self.column(node.inner(further)))
        return _JSON_TEXT

    def _struct(self, made: dict[str, _Made]) -> _Made:
        columns = [ObjectColumn(name, each.type, each.take, is_any=each.is_text) for name, each in made.items()]
        rows = ObjectRows(columns, is_null_a_row=True)
        names = list(made)
        return _Made(rows.type, lambda value: dict(zip(names, rows.take(value), strict=True)), columns)

    def _array(self, item: _Made) -> _Made:
        step = _optional(item.take)

        def take_array(value: Any) -> Any:
            if not isinstance(value, list):
                raise _mismatch("a list", value)
            return [step(each) for each in value]

        return _Made(pa.list_(pa.field("element", item.type)), take_array)

    def _map(self, item: _Made) -> _Made:
        step = _optional(item.take)

        def take_map(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _mismatch("an object", value)
            return [(key, step(each)) for key, each in value.items()]

        return _Made(pa.map_(pa.string(), pa.field("value", item.type)), take_map)


class JsonColumns:
    """The decoder of one writer's schema, with the columns of a reader's schema if there is one.

    `fields`: the outermost properties that are wanted, None for all. Values of the others are skipped.
    """

    def __init__(
        self, writer: JsonSchema, reader: JsonSchema | None = None, fields: frozenset[str] | None = None
    ) -> None:
        """Raises UnusableSchemaError."""
        try:
            made = bounded(_Maker().column)((reader or writer).root)
        except InvalidSchemaError as error:
            raise UnusableSchemaError(f"the schema cannot be used: {error}") from None
        self._rows: ObjectRows | ValueRows
        if made.columns is None:
            self._rows = ValueRows(made.type, made.take)
        else:
            wanted = [each for each in made.columns if fields is None or each.name in fields]
            self._rows = ObjectRows(wanted, is_null_a_row=True)
        self.type: pa.DataType = self._rows.type

    def decode(self, payloads: Payloads) -> DecodedRows:
        return self._rows.decode(payloads)
