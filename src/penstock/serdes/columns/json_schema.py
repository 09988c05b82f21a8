"""Payloads of JSON to the columns of their schema.

| JSON schema | Arrow |
|---|---|
| boolean, integer, number, string | bool, int64, float64, string |
| object with `properties` | struct; other properties of values are left away |
| object with a schema for all properties | map with keys of string |
| array with one schema for its items | list |
| null and one of the above, as a list of types or of branches | the same |
| anything else, and what contains itself | string: the JSON text of the value |

All of it is nullable: a property that is missing is null. Values are not checked by the schema, as by other readers of
such payloads; one that does not fit its column is an error of its row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.schemas.json_schema.model import Node
from penstock.schemas.json_schema.schema import JsonSchema
from penstock.schemas.limits import bounded
from penstock.schemas.schema import InvalidSchemaError
from penstock.serdes.columns.decoding import DecodedRows, scattered
from penstock.serdes.columns.payloads import Payloads
from penstock.serdes.errors import PayloadError, UnusableSchemaError

_MOST_COLUMNS = 10_000
_MOST_DEPTH = 64
# Their meaning is more than one column has.
_ENTANGLED = ("allOf", "if", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef", "prefixItems")

# What a column makes of a value that is not null.
_Take = Callable[[Any], Any]
_Made = tuple[pa.DataType, _Take]


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
    "boolean": (pa.bool_(), _boolean),
    "integer": (pa.int64(), _integer),
    "number": (pa.float64(), _number),
    "string": (pa.string(), _string),
}
_JSON_TEXT: _Made = (pa.string(), _text)


def _optional(take: _Take) -> _Take:
    return lambda value: None if value is None else take(value)


class _Maker:
    def __init__(self) -> None:
        self._made = 0
        self._around: list[Node] = []

    def column(self, node: Node) -> _Made:
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

    def _column(self, node: Node) -> _Made:
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
                return self._array(*self.column(node.inner(schema["items"])))
            case [str(kind)] if kind in _SCALARS:
                return _SCALARS[kind]
        return _JSON_TEXT

    def _choice(self, node: Node, schema: dict[str, Any]) -> _Made:
        """Null and one other schema."""
        if "type" in schema or "properties" in schema or ("oneOf" in schema and "anyOf" in schema):
            return _JSON_TEXT
        branches = [node.inner(each) for each in schema.get("oneOf") or schema.get("anyOf") or ()]
        others = [
            each for each in branches if not (isinstance(each.schema, dict) and each.schema.get("type") == "null")
        ]
        return self.column(others[0]) if len(others) == 1 else _JSON_TEXT

    def _object(self, node: Node, schema: dict[str, Any]) -> _Made:
        properties, further = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            return self._struct({name: self.column(node.inner(each)) for name, each in properties.items()})
        if isinstance(further, dict):
            return self._map(*self.column(node.inner(further)))
        return _JSON_TEXT

    def _struct(self, columns: dict[str, _Made]) -> _Made:
        steps = [(name, _optional(take)) for name, (_, take) in columns.items()]

        def take_object(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _mismatch("an object", value)
            found = {}
            for name, take in steps:
                try:
                    found[name] = take(value.get(name))
                except PayloadError as error:
                    raise error.inside(name) from None
            return found

        return pa.struct([pa.field(name, kind) for name, (kind, _) in columns.items()]), take_object

    def _array(self, kind: pa.DataType, take: _Take) -> _Made:
        step = _optional(take)

        def take_array(value: Any) -> Any:
            if not isinstance(value, list):
                raise _mismatch("a list", value)
            return [step(each) for each in value]

        return pa.list_(pa.field("element", kind)), take_array

    def _map(self, kind: pa.DataType, take: _Take) -> _Made:
        step = _optional(take)

        def take_map(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _mismatch("an object", value)
            return [(key, step(each)) for key, each in value.items()]

        return pa.map_(pa.string(), pa.field("value", kind)), take_map


class JsonColumns:
    """Of one writer's schema, with the columns of a reader's schema if there is one."""

    def __init__(self, writer: JsonSchema, reader: JsonSchema | None = None) -> None:
        """Raises UnusableSchemaError."""
        try:
            self.type, take = bounded(_Maker().column)((reader or writer).root)
        except InvalidSchemaError as error:
            raise UnusableSchemaError(f"the schema cannot be used: {error}") from None
        self._take = _optional(take)

    def decode(self, payloads: Payloads) -> DecodedRows:
        values: list[Any] = []
        rows: list[int] = []
        errors: dict[int, str] = {}
        for row, payload in enumerate(payloads.binary().to_pylist()):
            try:
                values.append(self._take(msgspec.json.decode(payload)))
                rows.append(row)
            except PayloadError as error:
                errors[row] = str(error)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                errors[row] = "the payload is no JSON"
        try:
            found = pa.array(values, self.type)
        except (pa.ArrowException, ValueError):
            found, rows = self._singly(values, rows, errors)
        if len(rows) == len(payloads):
            return DecodedRows(found, errors)
        return DecodedRows(scattered(found, np.array(rows, dtype=np.int64), len(payloads)), errors)

    def _singly(self, values: list[Any], rows: list[int], errors: dict[int, str]) -> tuple[pa.Array, list[int]]:
        """One value has text that Arrow cannot hold, half of a surrogate pair."""
        found, good = [pa.array([], self.type)], []
        for row, value in zip(rows, values, strict=True):
            try:
                found.append(pa.array([value], self.type))
                good.append(row)
            except (pa.ArrowException, ValueError):
                errors[row] = "a string has half of a surrogate pair, which no UTF-8 text can have"
        return pa.concat_arrays(found), good
