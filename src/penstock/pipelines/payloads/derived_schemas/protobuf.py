"""A Protobuf message of columns, in proto3.

Fields have presence, so null differs from zero. They are numbered in the order of columns. An earlier version of the
schema keeps its numbers, by name, also in messages inside; a number that is no longer used is reserved and never given
to another column, because old payloads may have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.derived_schemas.refusals import check_name, check_names, inside, no_type

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from pyspark.sql.types import DataType, StructType

_FORMAT = "Protobuf"
_PLAIN = {
    "boolean": "bool",
    "tinyint": "int32",
    "smallint": "int32",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    # Text: Protobuf has no types for these.
    "date": "string",
    "timestamp_ntz": "string",
}
_MESSAGES = {"timestamp": "google.protobuf.Timestamp"}
_KEYS = frozenset(("string", "int32", "int64", "bool"))
# Numbers that Protobuf keeps for itself.
_OWN = range(19_000, 20_000)
_LARGEST = (1 << 29) - 1


def derive_protobuf(columns: StructType, name: str, namespace: str, earlier: Descriptor | None) -> str:
    """Raises PipelineError."""
    check_name(name, namespace, _FORMAT)
    file = _File()
    body = file.message(columns, name, "", earlier)
    imports = [f'import "{each}";' for each in sorted(file.imports)]
    head = ['syntax = "proto3";', *([f"package {namespace};"] if namespace else []), *imports]
    return "\n".join([*head, "", *body, ""])


class _File:
    def __init__(self) -> None:
        self.imports: set[str] = set()

    def message(self, columns: StructType, name: str, path: str, earlier: Descriptor | None) -> list[str]:
        check_names(columns.names, path, _FORMAT)
        numbers, unused = _numbers(columns.names, earlier)
        # Fields and messages share one scope.
        taken = set(columns.names)
        lines: list[str] = []
        for each in columns.fields:
            field = earlier.fields_by_name.get(each.name) if earlier is not None else None
            kind, inner = self._field(each.dataType, each.name, inside(path, each.name), field, taken)
            lines += inner
            lines.append(f"{kind} {each.name} = {numbers[each.name]};")
        if unused:
            lines.insert(0, f"reserved {', '.join(unused)};")
        return [f"message {name} {{", *(f"  {line}" for line in lines), "}"]

    def _field(self, kind: DataType, name: str, path: str, earlier: object, taken: set[str]) -> tuple[str, list[str]]:
        from pyspark.sql.types import ArrayType, MapType, StructType

        if isinstance(kind, ArrayType):
            text, inner = self._single(kind.elementType, name, f"{path}[]", earlier, taken)
            return f"repeated {text}", inner
        if isinstance(kind, MapType):
            key, _ = self._single(kind.keyType, name, f"{path}{{}}", None, taken)
            if key not in _KEYS:
                raise no_type(path, kind.simpleString(), _FORMAT)
            value, inner = self._single(kind.valueType, name, f"{path}{{}}", _value_of(earlier), taken)
            return f"map<{key}, {value}>", inner
        text, inner = self._single(kind, name, path, earlier, taken)
        is_message = isinstance(kind, StructType) or text in _MESSAGES.values()
        return (text if is_message else f"optional {text}"), inner

    def _single(self, kind: DataType, name: str, path: str, earlier: object, taken: set[str]) -> tuple[str, list[str]]:
        from pyspark.sql.types import CharType, DecimalType, StringType, StructType, VarcharType

        match kind:
            case StructType():
                before = getattr(earlier, "message_type", None)
                inner_name = _message_name(name, taken)
                taken.add(inner_name)
                return inner_name, self.message(kind, inner_name, path, before)
            case DecimalType() | StringType() | CharType() | VarcharType():
                return "string", []
        text = kind.simpleString()
        if text in _MESSAGES:
            self.imports.add("google/protobuf/timestamp.proto")
            return _MESSAGES[text], []
        if text not in _PLAIN:
            raise no_type(path, text, _FORMAT)
        return _PLAIN[text], []


def _message_name(column: str, taken: set[str]) -> str:
    name = "".join(part[:1].upper() + part[1:] for part in column.split("_")) or "Message"
    name = name if not name[0].isdigit() else f"M{name}"
    while name in taken:
        name += "_"
    return name


def _value_of(earlier: object) -> object:
    """The value's field of a map's field."""
    entry = getattr(earlier, "message_type", None)
    return entry.fields_by_name.get("value") if entry is not None and entry.GetOptions().map_entry else None


def _numbers(names: list[str], earlier: Descriptor | None) -> tuple[dict[str, int], list[str]]:
    """The number of each name, and the numbers and ranges that must not be used."""
    if earlier is None:
        return _counted(names, {}, 0), []
    from google.protobuf.descriptor_pb2 import DescriptorProto

    described = DescriptorProto()
    earlier.CopyToProto(described)
    kept = {each.name: each.number for each in described.field}
    ranges = [(each.start, each.end - 1) for each in described.reserved_range]
    largest = max([0, *kept.values(), *(end for _, end in ranges if end < _LARGEST)])
    unused = sorted([*((kept[name],) * 2 for name in kept if name not in names), *ranges])
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in unused]
    return _counted(names, {name: number for name, number in kept.items() if name in names}, largest), shown


def _counted(names: list[str], kept: dict[str, int], largest: int) -> dict[str, int]:
    found = dict(kept)
    for name in names:
        if name not in found:
            largest += 1
            if largest in _OWN:
                largest = _OWN.stop
            found[name] = largest
    if largest > _LARGEST:
        raise PipelineError("the earlier version of the schema leaves no field numbers for new columns")
    return found
