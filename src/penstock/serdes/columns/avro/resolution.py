"""From a writer's value to a reader's, by Avro's rules of resolution.

Values have the form of `serdes.avro.to_json`: those of unions have the name of their branch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    NoDefault,
    Primitive,
    Record,
    Union,
    union_key,
)
from penstock.serdes.avro.from_json import Output, Writers
from penstock.serdes.avro.to_json import Cursor, Readers
from penstock.serdes.errors import PayloadError

PROMOTIONS = frozenset(
    {("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double")}
    | {("string", "bytes"), ("bytes", "string")}
)

# Of one field. A schema of few characters can mean any number of bytes.
_MOST_DEFAULT_BYTES = 1024 * 1024


def resolved(writer: AvroType, reader: AvroType, value: Any, wanted: frozenset[str] | None = None) -> Any:
    """`wanted`: the only fields of the outermost record that are resolved. Raises PayloadError."""
    if isinstance(writer, Union):
        if value is None:
            writer = next(each for each in writer.branches if each.kind == "null")
        else:
            name, value = next(iter(value.items()))
            writer = next(each for each in writer.branches if union_key(each) == name)
    if isinstance(reader, Union):
        branch = _branch(writer, reader)
        inner = resolved(writer, branch, value)
        return None if branch.kind == "null" else {union_key(branch): inner}
    match writer, reader:
        case Record(), Record() if is_same_name(writer, reader):
            return _record(writer, reader, value, wanted)
        case Array(), Array():
            return [resolved(writer.items, reader.items, each) for each in value]
        case Map(), Map():
            return {key: resolved(writer.values, reader.values, each) for key, each in value.items()}
        case Enum(), Enum() if is_same_name(writer, reader):
            return _symbol(reader, value)
        case Fixed(), Fixed() if is_same_name(writer, reader) and writer.size == reader.size:
            return value
        case Primitive(), Primitive() if writer.kind == reader.kind:
            return value
        case Primitive(), Primitive() if (writer.kind, reader.kind) in PROMOTIONS:
            return _promoted(writer.kind, reader.kind, value)
    raise PayloadError(f"{union_key(writer)} was written, and the reader's schema has {union_key(reader)}")


def writer_field(writer: Record, field: Field) -> Field | None:
    return next((found for name in (field.name, *field.aliases) if (found := writer.field(name)) is not None), None)


def default_value(field: Field) -> Any:
    """Through the bytes of the default: defaults of unions have no name of their branch. Raises PayloadError."""
    if isinstance(field.default, NoDefault):
        raise PayloadError(f"the writer's schema has no field {field.name}, and it has no default")
    out = Output(_MOST_DEFAULT_BYTES)
    Writers(is_lenient=True).writer(field.type)(field.default, out)
    return Readers().reader(field.type)(Cursor(bytes(out)))


def _record(writer: Record, reader: Record, value: Any, wanted: frozenset[str] | None) -> Any:
    found = {}
    for field in reader.fields:
        if wanted is not None and field.name not in wanted:
            continue
        written = writer_field(writer, field)
        try:
            if written is None:
                found[field.name] = default_value(field)
            else:
                found[field.name] = resolved(written.type, field.type, value[written.name])
        except PayloadError as error:
            raise error.inside(field.name) from None
    return found


def _symbol(reader: Enum, value: str) -> str:
    if value in reader.symbols:
        return value
    if reader.default is None:
        raise PayloadError(f"the reader's schema has no symbol {value[:40]}")
    return reader.default


def is_same_name(writer: Record | Enum | Fixed, reader: Record | Enum | Fixed) -> bool:
    return writer.name.short == reader.name.short or any(each.full == writer.name.full for each in reader.aliases)


def _branch(writer: AvroType, reader: Union) -> AvroType:
    """The branch of the same type, else the first that takes the value."""
    for branch in reader.branches:
        if union_key(branch) == union_key(writer):
            return branch
    for branch in reader.branches:
        if isinstance(branch, Record | Enum | Fixed):
            if (
                branch.kind == writer.kind
                and isinstance(writer, Record | Enum | Fixed)
                and is_same_name(writer, branch)
            ):
                return branch
        elif (writer.kind, branch.kind) in PROMOTIONS:
            return branch
    raise PayloadError(f"{union_key(writer)} was written, and the reader's union has no branch for it")


def _promoted(written: str, wanted: str, value: Any) -> Any:
    if (written, wanted) == ("string", "bytes"):
        return value.encode().decode("latin-1")
    if (written, wanted) == ("bytes", "string"):
        try:
            return value.encode("latin-1").decode()
        except UnicodeDecodeError:
            raise PayloadError("the bytes are no UTF-8, and the reader's schema has a string") from None
    if wanted == "long" or isinstance(value, str):  # NaN and the infinities are text
        return value
    # Of a float the reader has the shortest digits; a double has all digits of the four bytes.
    return float(np.float32(value)) if written == "float" or wanted == "float" else float(value)
