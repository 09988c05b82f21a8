"""A message with some of its fields: to both readers the others are unknown fields."""

from __future__ import annotations

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from penstock.serdes.errors import UnusableSchemaError

# Longer where the message's file, or one that it imports, has this name.
_FILE = "penstock/fields.proto"


def projected(kind: Descriptor, wanted: frozenset[str]) -> Descriptor:
    """The oneof's other fields stay too, because a value of one takes away that of another.

    Raises UnusableSchemaError.
    """
    kept = {each.name for each in kind.fields if each.name in wanted}
    kept |= {each.name for oneof in kind.oneofs if kept & {one.name for one in oneof.fields} for each in oneof.fields}
    if len(kept) == len(kind.fields):
        return kind
    pool = DescriptorPool()
    added: list[str] = []
    _add(kind.file, pool, added)
    file = descriptor_pb2.FileDescriptorProto()
    kind.file.CopyToProto(file)
    prefix = f"{file.package}." if file.package else ""
    reduced = descriptor_pb2.FileDescriptorProto(dependency=added)
    for name in ("package", "options", "syntax", "edition"):
        if file.HasField(name):
            reduced.MergeFrom(descriptor_pb2.FileDescriptorProto(**{name: getattr(file, name)}))
    reduced.name = _FILE
    while reduced.name in added:
        reduced.name += "_"
    name = "Fields"
    while _is_taken(pool, prefix + name):
        name += "_"
    _reduce(kind, reduced.message_type.add(), name, prefix, kept)
    try:
        pool.Add(reduced)
    except TypeError as error:  # the runtime raises this for a file that it does not take
        raise UnusableSchemaError(f"some fields of {kind.full_name} alone make no message: {error}") from None
    return pool.FindMessageTypeByName(prefix + name)


def _add(file: FileDescriptor, pool: DescriptorPool, added: list[str]) -> None:
    for each in file.dependencies:
        if each.name not in added:
            _add(each, pool, added)
    pool.AddSerializedFile(file.serialized_pb)
    added.append(file.name)


def _is_taken(pool: DescriptorPool, name: str) -> bool:
    try:
        pool.FindFileContainingSymbol(name)
    except KeyError:
        return False
    return True


def _reduce(kind: Descriptor, out: descriptor_pb2.DescriptorProto, name: str, prefix: str, kept: set[str]) -> None:
    kind.CopyToProto(out)
    out.name = name
    fields = [each for each in out.field if each.name in kept]
    entries = {f".{kind.full_name}.{each.name}": each for each in out.nested_type if each.options.map_entry}
    entries = {full: each for full, each in entries.items() if full in {field.type_name for field in fields}}
    used = sorted({each.oneof_index for each in fields if each.HasField("oneof_index")})
    oneofs = [out.oneof_decl[index] for index in used]
    for each in fields:
        if each.type_name in entries:
            each.type_name = f".{prefix}{name}.{entries[each.type_name].name}"
        if each.HasField("oneof_index"):
            each.oneof_index = used.index(each.oneof_index)
    copy = descriptor_pb2.DescriptorProto(
        name=name, field=fields, nested_type=list(entries.values()), oneof_decl=oneofs, options=out.options
    )
    out.CopyFrom(copy)
