"""A new Protobuf schema that is called backward compatible reads what was written with the old one."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.schemas.parsing import parse
from penstock.schemas.schema import Policy, SchemaType

Drawn = Any
NUMBERS = ["int32", "int64", "uint32", "uint64", "bool", "E", "sint32", "sint64", "fixed32", "sfixed64", "float"]
TYPES = [*NUMBERS, "string", "bytes", "N", "map<string, int32>", "map<int32, N>"]


@dataclass(frozen=True)
class FieldOf:
    number: int
    type: str
    repeated: bool = False
    oneof: str = ""

    @property
    def text(self) -> str:
        label = "repeated " if self.repeated else ""
        return f"{label}{self.type} f{self.number} = {self.number};"


@dataclass(frozen=True)
class Schema:
    fields: dict[int, FieldOf]
    inner: dict[int, FieldOf] = field(default_factory=dict)
    constants: int = 2

    @property
    def text(self) -> str:
        constants = " ".join(f"C{number} = {number};" for number in range(self.constants))
        body = _body(self.fields)
        return f'syntax = "proto3"; message M {{ {body} }} message N {{ {_body(self.inner)} }} enum E {{ {constants} }}'


def _body(fields: dict[int, FieldOf]) -> str:
    parts = [each.text for each in fields.values() if not each.oneof]
    parts += [
        f"oneof {name} {{ {' '.join(each.text for each in fields.values() if each.oneof == name)} }}"
        for name in sorted({each.oneof for each in fields.values()} - {""})
    ]
    return " ".join(parts)


@st.composite
def fields_of(draw: Drawn, types: list[str]) -> dict[int, FieldOf]:
    found = {}
    for number in draw(st.lists(st.integers(1, 5), unique=True, max_size=4)):
        kind = draw(st.sampled_from(types))
        shape = draw(st.sampled_from(["plain", "plain", "repeated", "o", "p"]))
        is_map = kind.startswith("map")
        oneof = shape if shape in ("o", "p") and not is_map else ""
        found[number] = FieldOf(number, kind, shape == "repeated" and not is_map, oneof)
    return found


schemas = st.builds(Schema, fields_of(TYPES), fields_of(NUMBERS), st.integers(1, 3))


@st.composite
def pairs(draw: Drawn) -> tuple[Schema, Schema]:
    old = draw(schemas)
    new = draw(schemas)
    if draw(st.booleans()):
        return old, new
    # The old one with some fields of the other: schemas drawn apart from each other rarely fit.
    kept = {number: each for number, each in old.fields.items() if draw(st.integers(0, 4))}
    number = draw(st.integers(1, 5))
    if number in new.fields:
        kept[number] = new.fields[number]
    if kept and draw(st.booleans()):
        chosen = kept[draw(st.sampled_from(sorted(kept)))]
        if not chosen.type.startswith("map") and not chosen.repeated:
            kept[chosen.number] = replace(chosen, oneof=draw(st.sampled_from(["", "o", "p"])))
    return old, replace(old, fields=kept, constants=new.constants)


def message_class(text: str) -> Any:
    serialized = parse(SchemaType.PROTOBUF, text).formatted("serialized")
    descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


def fill(message: Any, data: st.DataObject) -> None:
    for each in message.DESCRIPTOR.fields:
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            entries = getattr(message, each.name)
            key: Any = "k" if each.message_type.fields_by_name["key"].type == each.TYPE_STRING else 1
            if each.message_type.fields_by_name["value"].message_type is None:
                entries[key] = 1
            else:
                entries[key].SetInParent()
        elif not data.draw(st.integers(0, 3)):
            continue
        elif each.message_type is not None:
            inner = getattr(message, each.name).add() if each.is_repeated else getattr(message, each.name)
            inner.SetInParent()
            fill(inner, data)
        else:
            value: Any = {"string": "1", "bytes": b"1"}.get(_kind(each), 1)
            if each.is_repeated:
                getattr(message, each.name).extend([value, value])
            else:
                setattr(message, each.name, value)


def _kind(each: Any) -> str:
    return {each.TYPE_STRING: "string", each.TYPE_BYTES: "bytes"}.get(each.type, "number")


def content(message: Any) -> dict[int, Any]:
    """Values in a form that does not tell kinds of numbers, or strings and bytes, from each other."""
    found = {}
    for each, value in message.ListFields():
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            found[each.number] = sorted(map(str, value))
        elif each.is_repeated:
            found[each.number] = [_plain(item) for item in value]
        else:
            found[each.number] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if hasattr(value, "ListFields"):
        return content(value)
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else int(value)


CALM = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@CALM
@given(pairs(), st.data())
def test_what_old_wrote_new_reads_when_they_are_called_compatible(
    pair: tuple[Schema, Schema], data: st.DataObject
) -> None:
    old, new = pair
    assume(
        not parse(SchemaType.PROTOBUF, new.text).differences_from(parse(SchemaType.PROTOBUF, old.text), Policy.STRICT)
    )
    written = message_class(old.text)()
    fill(written, data)
    read = message_class(new.text).FromString(written.SerializeToString())
    before, after = content(written), content(read)
    for number, value in before.items():
        if number in new.fields and new.fields[number].repeated == old.fields[number].repeated:
            assert after.get(number) == value


@CALM
@given(schemas)
def test_texts_are_fixpoints(schema: Schema) -> None:
    parsed = parse(SchemaType.PROTOBUF, schema.text)
    canonical, normalized = parsed.canonical_text, parsed.normalized().canonical_text
    assert parse(SchemaType.PROTOBUF, canonical).canonical_text == canonical
    again = parse(SchemaType.PROTOBUF, normalized)
    assert again.canonical_text == normalized == again.normalized().canonical_text
    assert again.differences_from(parsed, Policy.STRICT) == [] == parsed.differences_from(again, Policy.STRICT)
    read = parse(SchemaType.PROTOBUF, parsed.formatted("serialized"))
    assert read.normalized().canonical_text == normalized
