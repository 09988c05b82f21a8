"""Schemas as a user names them: a file, `SUBJECT:VERSION`, an id."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.registry import NewSchema, RegisteredSchema, RegistryClient, SchemaReference
    from penstock.schemas.schema import ParsedSchema

LATEST = "latest"
_TYPES = ("AVRO", "JSON", "PROTOBUF")
_SUFFIXES = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".jsonschema": "JSON", ".proto": "PROTOBUF"}
# The registry takes a megabyte.
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class VersionedSubject:
    """A version of a subject; None is the latest."""

    subject: str
    version: int | None

    def __str__(self) -> str:
        return f"{self.subject}:{LATEST if self.version is None else self.version}"


def parse_place(text: str) -> VersionedSubject | None:
    """`SUBJECT:VERSION` or `SUBJECT:latest`; None for everything else. A subject may have colons itself."""
    subject, colon, version = text.rpartition(":")
    if not colon or not subject:
        return None
    if version == LATEST:
        return VersionedSubject(subject, None)
    return VersionedSubject(subject, int(version)) if version.isdecimal() and 0 < int(version) < 1 << 31 else None


def parse_reference(text: str) -> SchemaReference:
    """`NAME=SUBJECT:VERSION`."""
    from penstock.client.registry import SchemaReference

    name, _, named = text.partition("=")
    place = parse_place(named)
    if not name or place is None or place.version is None:
        raise UsageError(f"{text!r} is not a reference", "Write it as NAME=SUBJECT:VERSION.")
    return SchemaReference(name, place.subject, place.version)


def read_schema(file: Path, schema_type: str | None, references: Iterable[str] | None = None) -> NewSchema:
    """What the file has, or standard input for `-`. The type follows from the name of the file unless it is given."""
    from penstock.client.registry import NewSchema

    chosen = schema_type.upper() if schema_type is not None else _SUFFIXES.get(file.suffix.lower())
    if chosen is None:
        if str(file) != "-":
            _read_text(file)  # one that is not there is the mistake
        raise UsageError(f"{file} does not say which type of schema it has", "Add --type AVRO, JSON or PROTOBUF.")
    if chosen not in _TYPES:
        raise UsageError(f"{schema_type} is no type of schemas", f"There are {', '.join(_TYPES)}.")
    return NewSchema(_read_text(file), chosen, tuple(map(parse_reference, references or ())))


def _read_text(file: Path) -> str:
    if str(file) == "-":
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    else:
        try:
            with file.open("rb") as opened:
                data = opened.read(_MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{file} has more than {_MOST_BYTES:,} bytes, which no registry takes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no UTF-8 text") from None


def find_version(registry: RegistryClient, place: VersionedSubject) -> RegisteredSchema:
    return registry.latest(place.subject) if place.version is None else registry.version(place.subject, place.version)


def parse_schema(registry: RegistryClient, schema: NewSchema, subject: str | None) -> ParsedSchema:
    """With what it refers to, from the registry. Raises InvalidSchemaError."""
    from penstock.schemas.parsing import parse
    from penstock.schemas.schema import Reference, ResolvedReference, SchemaType

    return parse(
        SchemaType(schema.schema_type),
        schema.text,
        [Reference(each.name, each.subject, each.version) for each in schema.references],
        [
            ResolvedReference(each.name, each.text, each.subject, each.version)
            for each in registry.referenced(schema, subject)
        ],
        is_new=False,
    )
